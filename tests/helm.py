"""Helm, in a namespace of a cluster."""

import subprocess
from pathlib import Path

import msgspec
from tests.conftest import Kubectl

CHART = Path(__file__).parents[1] / "charts" / "sunk"


class Helm(msgspec.Struct, frozen=True):
    program: Path
    kubectl: Kubectl

    def __call__(self, *arguments: str, timeout: float = 240) -> str:
        done = self.attempt(*arguments, timeout=timeout)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout

    def attempt(self, *arguments: str, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
        where = ("--kubeconfig", str(self.kubectl.kubeconfig), "--namespace", self.kubectl.namespace)
        command = [str(self.program), *where, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def install(self, release: str, *arguments: str, chart: Path = CHART) -> str:
        """Install, or upgrade. What is cluster-wide is taken over from whichever test had it before."""
        shared = ("--take-ownership", "--force-conflicts", "--set", "crds.takeOver=true")
        return self("upgrade", "--install", release, str(chart), *shared, *arguments)
