"""Run other programs, and say plainly what went wrong when one of them does not do its work."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from sunk.model.refusal import Refusal

LAST_LINES = 15


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run to the end and give what it printed. Anything but exit code 0 is a Refusal with its last words."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd, check=False
        )
    except FileNotFoundError as missing:
        raise Refusal(
            f"{command[0]} is not installed on this machine. `make setup` installs what is needed."
        ) from missing
    except subprocess.TimeoutExpired as late:
        raise Refusal(f"`{_line(command)}` did not finish within {timeout:.0f} s.") from late
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:]
        raise Refusal(f"`{_line(command)}` exited with code {done.returncode}: " + "\n".join(words))
    return done.stdout


def works(command: Sequence[str | Path], *, timeout: float = 60.0) -> bool:
    """Whether it ends with 0; for questions whose "no" is no fault."""
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _line(command: Sequence[str | Path]) -> str:
    return " ".join(str(word) for word in command)
