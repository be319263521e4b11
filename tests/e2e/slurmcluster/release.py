"""A Slurm cluster that Helm installed, and what a person asks of it."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, json
from tests.conftest import Kubectl
from tests.helm import Helm
from tests.waiting import eventually

from sunk.model import names

CHART = Path(__file__).parents[3] / "charts" / "slurm"
LABEL = "test.sunk/kind"
"""Of Nodes: which definition they are for. Nodes without it belong to nobody."""
FIRST = "node-1"
ON_FIRST = {"labels": {"kubernetes.io/hostname": FIRST}}
"""Value of nodeSelector: all that is not a compute node is on the first Node, so that the others can be hurt."""
SOON = 180.0
USER = "alice"
"""Whose jobs these are: values-local.yaml brings her. Root may do what nobody else may, and would hide it."""
JOBS = frozenset({"srun", "sbatch", "salloc"})


def on(kind: str) -> dict[str, Any]:
    """The affinity of a definition: Nodes with this value of the label."""
    wanted = {"matchExpressions": [{"key": LABEL, "operator": "In", "values": [kind]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}}


class Release(Struct, frozen=True):
    helm: Helm
    name: str
    folder: Path
    """For values files."""
    values: dict[str, Any]
    """What all its installations have in common, over those for small machines."""

    @property
    def kubectl(self) -> Kubectl:
        return self.helm.kubectl

    # What Helm does

    def install(self, changes: dict[str, Any] | None = None) -> None:
        """Install, or upgrade, with these values over the usual ones."""
        done = self.attempt(changes)
        assert not done, done

    def attempt(self, changes: dict[str, Any] | None = None) -> str:
        """What Helm says against it; nothing if it did it."""
        done = self.helm.attempt("upgrade", "--install", self.name, str(CHART), *self._files(changes or {}))
        return (done.stderr or done.stdout) if done.returncode else ""

    def _files(self, changes: dict[str, Any]) -> list[str]:
        ours, theirs = self.folder / f"{self.name}.yaml", self.folder / f"{self.name}-changes.yaml"
        ours.write_text(yaml.safe_dump(self.values))
        theirs.write_text(yaml.safe_dump(changes))
        return [word for file in (CHART / "values-local.yaml", ours, theirs) for word in ("-f", str(file))]

    # What our own program says

    def rendered(self) -> list[dict[str, Any]]:
        """What the operator would build, found out without it."""
        where = ("--name", self.name, "--namespace", self.kubectl.namespace)
        return list(yaml.safe_load_all(_sunk("render", str(CHART), *self._files({}), *where)))

    def status(self) -> str:
        return _sunk("status", "--namespace", self.kubectl.namespace, "--kubeconfig", str(self.kubectl.kubeconfig))

    def uninstall(self) -> None:
        """Its nodes leave by themselves, once they are idle. One that cannot be asked for its jobs goes with them."""
        try:
            self.cancel()
        except AssertionError:
            self.kubectl("annotate", "slurmcluster", self.name, f"{names.FORCE_DELETION}=true", "--overwrite")
        self.helm("uninstall", self.name)
        self.kubectl("wait", "--for=delete", f"slurmcluster/{self.name}", "--timeout=110s")

    def drop(self, definition: str) -> None:
        """Have the nodes of a definition that was taken out go at once, and with them their jobs."""
        self.kubectl("annotate", "nodeset", f"{self.name}-{definition}", f"{names.FORCE_DELETION}=true", "--overwrite")

    # What Kubernetes says

    def ready(self) -> None:
        """Wait until everything that was asked for is there."""
        _until(self.is_ready, seconds=SOON, told=lambda: self.condition("Ready")["message"])
        spec = self.object()["spec"]
        if spec["accounting"]["enabled"] and spec["login"]["enabled"]:
            self._admit(USER)
            if spec["accounting"].get("enforce", "associations"):
                self.admits(USER)

    def _admit(self, user: str, account: str = "users") -> None:
        """Let a user run jobs; sacctmgr complains if she may already, or if slurmdbd cannot be reached yet."""
        words = f"add account {account}", f"add user {user} account={account}"
        add = "; ".join(f"sacctmgr --immediate {one} > /dev/null 2>&1" for one in words)
        listed = "sacctmgr --noheader list associations format=user%40 || true"
        eventually(lambda: user in self("sh", "-c", f"{add}; {listed}"))

    def admits(self, user: str) -> None:
        """Wait until slurmctld has heard from slurmdbd that a user may run jobs."""
        known = ("scontrol", "show", "assoc_mgr", "flags=assoc", f"users={user}")
        eventually(lambda: f"UserName={user}(" in self(*known))

    def is_ready(self) -> bool:
        found = self.object()
        seen = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return bool(seen) and self.condition("Ready")["status"] == "True"

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = json.decode(self.kubectl("get", "slurmcluster", self.name, "-o", "json"))
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """With an empty status while nobody has written one for what is asked for now."""
        found = self.object()
        told = [one for one in found.get("status", {}).get("conditions", []) if one["type"] == kind]
        current = [one for one in told if one["observedGeneration"] == found["metadata"]["generation"]]
        return current[0] if current else {"status": "", "reason": "", "message": ""}

    def warnings(self) -> list[str]:
        """What Events warn of, about the cluster itself."""
        about = f"involvedObject.kind=SlurmCluster,involvedObject.name={self.name},type=Warning"
        found = json.decode(self.kubectl("get", "events", "--field-selector", about, "-o", "json"))
        return [one["message"] for one in found["items"]]

    def node_sets(self) -> list[str]:
        """Definitions whose nodes are there, or still to leave."""
        found = self.kubectl("get", "nodesets", "-o", "jsonpath={.items[*].metadata.name}").split()
        return [name.removeprefix(f"{self.name}-") for name in found]

    def pods(self, component: str) -> list[str]:
        """Uids of the Pods of a part."""
        chosen = f"{names.CLUSTER}={self.name},{names.COMPONENT}={component}"
        return sorted(self.kubectl("get", "pods", "-l", chosen, "-o", "jsonpath={.items[*].metadata.uid}").split())

    # What Slurm says

    def __call__(self, *command: str, user: str = "") -> str:
        """Run a command where people log in: jobs are those of a user, and everything else is root's unless told."""
        user = user or (USER if command[0] in JOBS else "root")
        changed = ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env")
        other = () if user == "root" else changed
        return self.kubectl("exec", f"{self.name}-login-0", "-c", "sshd", "--", *other, *command)

    def submit(self, script: str, *options: str, user: str = USER) -> str:
        """Have a job wait in the queue; gives its number."""
        plain = ("--parsable", "--chdir=/tmp", "--output=/dev/null")
        return self("sbatch", *plain, *options, f"--wrap={script}", user=user).strip()

    def job(self, number: str, field: str = "JobState") -> str:
        """A field of a job; those of several records are parted by blanks."""
        return " ".join(re.findall(rf"\b{field}=(\S*)", self("scontrol", "show", "job", number)))

    def ends(self, number: str, state: str = "COMPLETED", *, seconds: float = SOON) -> None:
        """Wait for a job to end, and see that it ended like this."""
        eventually(lambda: not _under_way(self.job(number)), seconds=seconds)
        assert set(self.job(number).split()) == {state}, self("scontrol", "show", "job", number)

    def runs(self, number: str) -> None:
        eventually(lambda: self.job(number) == "RUNNING")

    def starts_at_once(self, number: str) -> None:
        """Do not let a job that was queued again wait as long as Slurm has such jobs wait. It may have started by itself."""
        self("sh", "-c", f"scontrol update jobid={number} starttime=now || true")

    def idle(self) -> list[str]:
        return sorted(self("sinfo", "--noheader", "-N", "-p", "all", "-t", "idle", "-o", "%N").split())

    def cancel(self) -> None:
        """Have nothing in the queue, of nobody."""
        # Again and again: one that was about to be queued again may have come back, others have ended meanwhile.
        script = "squeue --noheader --format=%A | xargs --no-run-if-empty scancel --full || true; squeue --noheader"
        _until(lambda: not self("sh", "-c", script), seconds=SOON, told=lambda: self("scontrol", "show", "job"))


def _sunk(*arguments: str) -> str:
    program = str(Path(sys.executable).with_name("sunk"))
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=120).stdout


def _until(check: Callable[[], bool], *, seconds: float, told: Callable[[], str]) -> None:
    """Wait, and if it was in vain say what was found instead."""
    try:
        eventually(check, seconds=seconds)
    except AssertionError as late:
        raise AssertionError(told()) from late


def _under_way(states: str) -> bool:
    return bool({"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"} & set(states.split()))
