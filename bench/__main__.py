"""Run every benchmark, each in a process of its own so that none warms up another."""

import subprocess
import sys
from pathlib import Path

SHARED = {"__init__", "__main__", "installed", "report"}


def main() -> int:
    names = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in SHARED)
    return max([subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode for name in names])


if __name__ == "__main__":
    sys.exit(main())
