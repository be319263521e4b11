"""A box: a machine of a Slurm cluster, made of namespaces over the files of an image.

A box has the image's root file system with a writable layer, and network, processes, host name and mounts of its own.
Its process 1 does nothing but hold all that and reap orphans. Daemons and commands enter from outside; so a daemon
can die alone, as under s6 in a Pod, or with everything around it, as when a Pod is lost. The writable layer outlives
both and /run does not, which is what a container with volumes would see.

No mount of a box is visible to this machine, and all of them end with process 1.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sunk.local.kubernetes.process import Daemon

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
PATH = "/opt/sunk/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SLURM_USER = 64030
DATABASE_USER = 64032
ANCHORED = "anchored"
LISTENING = "0A"
"""As /proc/net/tcp says it."""
# Each daemon insists that the folder of its socket is its own: slurmd runs as root, slurmctld as slurm.
RUN_FOLDERS = {
    "slurm": 0,
    "slurmctld": SLURM_USER,
    "slurmdbd": SLURM_USER,
    "lock": 0,
    "munge": 0,
    "mysqld": DATABASE_USER,
}


class Bind(msgspec.Struct, frozen=True):
    """A folder or file of this machine that the box sees."""

    source: Path
    target: str
    writable: bool = False


class Person(msgspec.Struct, frozen=True):
    """Somebody with an account on every box."""

    name: str
    uid: int


PEOPLE = (Person("alice", 1001), Person("bob", 1002))


class Box(msgspec.Struct, frozen=True):
    """Where a box lies, and what it is made of."""

    name: str
    image: Path
    """The image's files; never written to."""
    folder: Path
    network: str
    """Name of its network namespace."""
    binds: tuple[Bind, ...] = ()
    devices: tuple[str, ...] = ()
    """Paths inside at which there has to be some device."""

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def anchor_name(self) -> str:
        return f"{self.name}-anchor"

    def process(self) -> int | None:
        """Process 1 of the box, by the number that it has on this machine; none before all is mounted."""
        return first_process(self.folder)

    def forget(self) -> None:
        (self.folder / ANCHORED).unlink(missing_ok=True)


def first_process(folder: Path) -> int | None:
    """Process 1 of the box that lies in this folder."""
    try:
        text = (folder / ANCHORED).read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


def prepare(box: Box) -> None:
    """Write what the box has of its own."""
    for folder in (box.upper, box.folder / "work", box.folder / "root"):
        folder.mkdir(parents=True, exist_ok=True)
    etc = box.upper / "etc"
    etc.mkdir(exist_ok=True)
    # Without a name server, asking one for an unknown name takes ten seconds, and slurmctld holds its locks meanwhile.
    services = (box.image / "etc" / "nsswitch.conf").read_text()
    (etc / "nsswitch.conf").write_text(re.sub(r"^hosts:.*$", "hosts: files", services, flags=re.MULTILINE))
    accounts = "".join(f"{each.name}:x:{each.uid}:{each.uid}::/home/{each.name}:/bin/bash\n" for each in PEOPLE)
    (etc / "passwd").write_text((box.image / "etc" / "passwd").read_text() + accounts)
    groups = "".join(f"{each.name}:x:{each.uid}:\n" for each in PEOPLE)
    (etc / "group").write_text((box.image / "etc" / "group").read_text() + groups)


def anchor(box: Box) -> Daemon:
    """Make the box's namespaces and mounts, and the process that holds them."""
    space = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
    return Daemon(name=box.anchor_name, command=(*space, "sh", "-euc", _script(box)), network=box.network)


def _script(box: Box) -> str:
    root = box.folder / "root"
    work = box.folder / "work"
    # Volatile: nothing waits for this machine's disk, neither slurmctld that saves its state nor the end of a box.
    layers = f"volatile,lowerdir={box.image},upperdir={box.upper},workdir={work}"
    lines = [
        # Still this machine's /proc, so this is our number out there, by which others enter.
        "read -r process _ < /proc/self/stat",
        f"exec 3> {shlex.quote(str(box.folder / ANCHORED))}",
        f"hostname {box.name}",
        # How the kernel notes that the layer may be incomplete; it is, only if this machine itself crashed.
        f"rm -rf {shlex.quote(str(work / 'work' / 'incompat'))}",
        f"mount -t overlay -o {shlex.quote(layers)} overlay {shlex.quote(str(root))}",
        f"cd {shlex.quote(str(root))}",
        "mount -t proc proc proc",
        "mount -t sysfs -o ro sysfs sys",
        "mount -t tmpfs -o mode=755 tmpfs run",
        *(f"install -d -o {owner} -g {owner} run/{name}" for name, owner in RUN_FOLDERS.items()),
        *_devices(),
        *(line for bind in box.binds for line in _bind(bind)),
        *(f"mkdir -p .{Path(path).parent}; test -e .{path} || mknod .{path} c 1 3" for path in box.devices),
        "pivot_root . .",
        "umount -l .",
        # The shell's `wait` reaps whatever lost its parent in here: slurmstepd does that a lot.
        """exec chroot . /bin/sh -c "echo $process >&3; exec 3>&-; sleep infinity & wait" """,
    ]
    return "\n".join(lines)


def _devices() -> list[str]:
    made = [f"mknod -m 666 dev/{name} c {major} {minor}" for name, (major, minor) in DEVICES.items()]
    return [
        "mount -t tmpfs -o mode=755 tmpfs dev",
        *made,
        "mkdir -m 1777 dev/shm",
        "mkdir dev/pts",
        "mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts",
        "ln -s pts/ptmx dev/ptmx",
        "ln -s /proc/self/fd dev/fd",
    ]


def _bind(bind: Bind) -> list[str]:
    target = shlex.quote(bind.target.lstrip("/"))
    lines = [
        f"touch {target}" if bind.source.is_file() else f"mkdir -p {target}",
        f"mount --bind {shlex.quote(str(bind.source))} {target}",
    ]
    return lines if bind.writable else [*lines, f"mount -o remount,bind,ro {target}"]


def enter(process: int, *, uid: int = 0) -> tuple[str, ...]:
    """Words that, put before a command, run it in the box of this process 1."""
    user = ("--setuid", str(uid), "--setgid", str(uid)) if uid else ()
    return ("nsenter", "--target", str(process), "--mount", "--uts", "--ipc", "--net", "--pid", *user, "--")


def environment(*, uid: int = 0) -> dict[str, str]:
    """A fresh one: nothing of this machine's settings may decide how a test ends."""
    homes = {0: "/root", **{each.uid: f"/home/{each.name}" for each in PEOPLE}}
    return {"PATH": PATH, "HOME": homes.get(uid, "/"), "LANG": "C.UTF-8"}


def children(process: int) -> Sequence[int]:
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def alive(process: int) -> bool:
    """Whether it runs; a dead one whose parent has not looked yet does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def listens(process: int, port: int) -> bool:
    """Whether a socket of its network namespace listens on that port."""
    try:
        rows = [row.split() for row in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return False
    return any(local.endswith(f":{port:04X}") and state == LISTENING for _, local, _, state, *_ in rows)


def waits(process: int) -> str:
    """What each thread of a process waits for, in the kernel's words: all there is to see of one that hangs."""
    found = Counter(_wait(task) for task in Path(f"/proc/{process}/task").glob("[0-9]*"))
    return "; ".join(f"{number} x {what}" for what, number in found.most_common())


def _wait(task: Path) -> str:
    try:
        call, *_ = (task / "syscall").read_text().split() or ["none"]
        return f"{(task / 'comm').read_text().strip()} in {(task / 'wchan').read_text()} (call {call})"
    except OSError:
        return "a thread that has ended"
