"""Run an image the way a container would, without Kubernetes.

A box has the image's files with a writable layer over them, its own processes, mounts and host name, and a network
that leads nowhere. What runs in a it dies with the test that started it, whatever happens to that test.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

ADDRESS = "10.9.0.1"
PATIENCE = 120.0

# A lone loopback will not do: Slurm asks for addresses only of families that another interface has.
NETWORK = (
    "ip link set lo up && ip link add eth0 type veth peer name eth1 && ip link set eth1 up && "
    f"ip address add {ADDRESS}/24 dev eth0 && ip link set eth0 up && echo ready && exec sleep infinity"
)
# A change of user makes the kernel forget the wish to die with the parent, so it is repeated.
BOX = """
mount -t overlay overlay -o "lowerdir=$image,upperdir=$folder/files,workdir=$folder/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
hostname "$name"
mkdir -p .outside
pivot_root . .outside
umount --lazy /.outside
exec setpriv --reuid="$user" --regid="$user" --clear-groups --pdeathsig=KILL "$@"
"""
# A Slurm of two boxes, but for how it shares out a node: that is for each test to add.
SLURM_CONF = f"""
ClusterName=test
SlurmctldHost=controller({ADDRESS})
SlurmUser=slurm
AuthType=auth/slurm
CredType=auth/slurm
SlurmctldParameters=enable_configless
ProctrackType=proctrack/linuxproc
ReturnToService=2
KillWait=5
MaxNodeCount=10
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
MailProg=/bin/true
PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP
"""
SETTLED = ("env", "-i", "--chdir=/", "PATH=/usr/sbin:/usr/bin")
BOUND = ("setpriv", "--pdeathsig", "KILL")


class File(msgspec.Struct, frozen=True):
    """A file to lay over those of an image."""

    text: str
    mode: int = 0o644
    owner: int = 0

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text)
        path.chmod(self.mode)
        os.chown(path, self.owner, self.owner)


class Plan(msgspec.Struct, frozen=True):
    """Where a box gets its files and network from, and as whom it runs."""

    image: Path
    """A root file system. It is only read."""
    folder: Path
    """For what is written inside."""
    network: int
    """A process in the network to use; see `network()`."""
    name: str = "box"
    user: int = 0
    files: Mapping[str, File] = {}


class Box(msgspec.Struct, frozen=True):
    """A running one."""

    process: subprocess.Popen[bytes]
    files: Path
    """What is written inside appears here."""
    log: Path

    @property
    def first(self) -> int:
        """Process 1 inside, as this machine numbers it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait_for(lambda: bool(children.read_text()), what="the box")
        return int(children.read_text())

    def run(self, *command: str, user: int = 0) -> str:
        """Run a command inside and give what it printed."""
        done = self._done(command, user=user)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def attempt(self, *command: str, user: int = 0) -> str:
        """Run a command that may go wrong, since what it asks is not ready yet; then it gives nothing."""
        done = self._done(command, user=user)
        return "" if done.returncode else done.stdout.strip()

    def _done(self, command: Sequence[str], *, user: int) -> "subprocess.CompletedProcess[str]":
        first = self.first
        # Before that it would have this machine's programs, or some of both.
        wait_for(lambda: _device(f"/proc/{first}/root") != _device("/"), what="the box's own files")
        enter = ("nsenter", f"--target={first}", "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd")
        drop = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        words = [*enter, *SETTLED, *drop, *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def stop(self) -> int:
        """Do what Kubernetes does to a Pod it deletes, and give the exit code."""
        os.kill(self.first, signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        return self.process.wait(PATIENCE)

    def said(self) -> str:
        return self.log.read_text()


@contextmanager
def network() -> Iterator[int]:
    """A process that holds a network of its own, with one address."""
    words = [*BOUND, "unshare", "--net", "sh", "-c", NETWORK]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        yield holder.pid
        holder.kill()


@contextmanager
def box(plan: Plan, *command: str) -> Iterator[Box]:
    """Run a command as process 1 of a box."""
    for part in ("files", "work", "root"):
        (plan.folder / part).mkdir(parents=True)
    hosts = File(f"127.0.0.1 localhost\n{ADDRESS} {plan.name}\n")
    for path, file in {"etc/hosts": hosts, **plan.files}.items():
        file.write(plan.folder / "files" / path)
    values = {"image": str(plan.image), "folder": str(plan.folder), "name": plan.name, "user": str(plan.user)}
    spaces = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
    enter = (*BOUND, "nsenter", f"--net=/proc/{plan.network}/ns/net", *spaces)
    words = (*enter, "sh", "-euc", BOX, "sh", *SETTLED, *command)
    with (plan.folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **values})
    try:
        yield Box(process=process, files=plan.folder / "files", log=plan.folder / "log")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a box, and wait until nothing in it runs any more: its ports and its files are for the next one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    inside = []
    with suppress(OSError):
        inside = [os.pidfd_open(int(child)) for child in children.read_text().split()]
    process.kill()
    process.wait()
    for first in inside:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        # Process 1 ends last, and its end can be read.
        gone, _, _ = select.select([first], [], [], PATIENCE)
        os.close(first)
        assert gone, "what was in the box goes on"


def _device(folder: str) -> int | None:
    """Where its files are; None if the process has ended, of which whoever enters it will hear."""
    try:
        return Path(folder).stat().st_dev
    except OSError:
        return None


def wait_for(condition: Callable[[], bool], *, what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {patience:.0f} s"
        time.sleep(0.1)
