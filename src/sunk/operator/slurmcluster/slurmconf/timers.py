"""Slurm's time limits around a prolog that waits: all of them follow from `syncer.hooksAPI.timeout`.

The prolog waits for that long at most, and then has some seconds to drain the node. People's own prologs come after it.
If any limit strikes before that, the job is lost or starts where other work still runs:

- BatchStartTimeout: after it slurmctld takes a batch job that has not started for lost.
- AuthInfo ttl: launch messages are signed before the prolog runs, for 60 s unless told. A longer prolog costs the job.
- PrologEpilogTimeout, and PrologTimeout of later releases: kill the prolog. Not set unless people set them.
- PrologFlags: without Alloc the prolog runs with the first step of a job only, which may be never; without DeferBatch a
  batch script starts when the first of its nodes is ready.
- Prolog: is ours, and runs theirs.

MessageTimeout is no such limit: slurmd answers before it runs the prolog. srun says "Prolog hung" after it and waits on.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.slurmconf.lines import values

TIMEOUT: Final = "syncer.hooksAPI.timeout"
SHORTEST: Final = 15
"""A call, one repetition, and what the syncer keeps for its answer."""
DRAINING: Final = 60
"""Seconds for what comes after the wait: the drain of the node, which may wait for slurmctld, and people's prologs."""
_SIGNED: Final = 600
_MOST: Final = 65_533
"""Slurm keeps its limits in 16 bits, and the last two numbers mean something else."""
_TTL: Final = re.compile(r"(?:^|,)ttl=(\d+)", re.IGNORECASE)
_FLAGS: Final = frozenset({"alloc", "deferbatch"})
_IMPLIES_ALLOC: Final = frozenset({"contain", "x11", "runinjob"})
FLAGS: Final = "Alloc,DeferBatch"


def needed(timeout: int) -> int:
    """What a limit has to allow."""
    return timeout + DRAINING


def lifetime(timeout: int) -> int:
    """Of launch messages. People's prologs may take long too."""
    return max(_SIGNED, 2 * timeout, needed(timeout))


def check_timeout(timeout: int) -> None:
    if timeout < SHORTEST:
        raise Refusal(f"{TIMEOUT} is {timeout}: prologs need at least {SHORTEST} s to be answered.")
    if needed(timeout) > _MOST:
        raise Refusal(
            f"{TIMEOUT} is {timeout}: with {DRAINING} s to drain the node that is {needed(timeout)} s, and Slurm allows "
            f"{_MOST} s at most (BatchStartTimeout). Set {_MOST - DRAINING} or less."
        )


def check(lines: Iterable[str], *, timeout: int, at: str) -> None:
    """Refuse settings of people's own that would break the lock."""
    for line in lines:
        for problem in _problems({key.lower(): value for key, value in values(line)}, timeout):
            raise Refusal(f"{at}: {problem}")


def _problems(settings: Mapping[str, str], timeout: int) -> Iterator[str]:
    sum_ = f"{TIMEOUT} {timeout} + {DRAINING} s to drain the node = {needed(timeout)} s"
    if "prolog" in settings:
        yield "Prolog cannot be set here: SUNK's own waits until other work has left the Node, and runs the scripts of slurmConfig.slurmd.prologConfigMap. Put yours there."
    for key in ("BatchStartTimeout", "PrologEpilogTimeout", "PrologTimeout"):
        said = settings.get(key.lower())
        if said is not None and _limit(said) < needed(timeout):
            yield f"{key}={said} is too short: {sum_}. Remove it, raise it, or lower {TIMEOUT}."
    if "authinfo" in settings:
        yield from _ttl(settings["authinfo"], timeout, sum_)
    if "prologflags" in settings:
        yield from _prolog_flags(settings["prologflags"])


def _limit(text: str) -> float:
    """In seconds. INFINITE and the like are no limit, and what Slurm cannot read it refuses itself."""
    return int(text) if text.isdecimal() else float("inf")


def _ttl(text: str, timeout: int, sum_: str) -> Iterator[str]:
    found = _TTL.search(text)
    if found is None:
        yield f"AuthInfo={text} has no ttl, so launch messages expire after 60 s: {sum_}. Add ttl={lifetime(timeout)}."
    elif int(found[1]) < needed(timeout):
        yield f"AuthInfo: ttl={found[1]} is too short: {sum_}. Set ttl={lifetime(timeout)}."


def _prolog_flags(text: str) -> Iterator[str]:
    said = {flag.strip().lower() for flag in text.split(",")}
    if said & _IMPLIES_ALLOC:
        said.add("alloc")
    if "serial" in said:
        yield f"PrologFlags={text} must not contain Serial: prologs of a node would wait for each other, beyond the time that Slurm gives them."
    if _FLAGS - said:
        yield f"PrologFlags={text} must contain {FLAGS}: otherwise jobs start before other work has left all their Nodes."
