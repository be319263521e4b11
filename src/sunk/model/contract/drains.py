"""Which drain a Slurm node carries because of Kubernetes: the causes, their texts, and what to do about one node.

Slurm has one drain for each node, with one reason. A reason that begins with `k8s:` is ours: put on while a cause of
ours holds, lifted when none does. Every other drain is somebody else's and stays as it is, whatever holds here; ours
is put on when that one is lifted. Somebody else's is a drain with another reason; FAIL, whatever its reason, because we
never set it; and the drain of a node that Slurm is about to reboot, which keeps our text if that was there before.

Several causes may hold at once. The strongest is shown, and a cordon stays readable behind it, because a person wrote
it: `k8s: pod terminated: cordon: bad fan`. All texts are made in here, so each has a cause that can be looked up.

Only the DRAIN flag is set and cleared. A text of ours that is left on a node in service is replaced (`Forget`): Slurm
keeps a reason that it finds, so its own next drain would look like one of ours. A node that is DOWN is left alone, since
to undrain it would revive it; only one that has to go is drained also then, because its removal waits for the flag.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

PREFIX: Final = "k8s:"
EXTRA_KEY: Final = "k8s"
"""What we keep at a node in its `Extra`; a record that has it is ours."""
CORDON: Final = "cordon"
WORDS: Final = {
    "terminated": "pod terminated",
    "pending_deletion": "pending deletion",
    "deletion_timeout": "pod deletion timeout",
    "not_ready": "pod not ready",
    "new": "new node",
    "unreached": "syncer not reached",
}
"""The text of each cause except the cordon, strongest first; the cordon is the weakest."""
NOT_RESPONDING: Final = "Not responding"
"""What Slurm itself writes at a node that is lost, and what most of its own drains write over where they find it."""
REBOOT_ISSUED: Final = " : reboot issued"
"""What Slurm adds to the reason of a node that it reboots."""
VERIFY: Final = "verify-undrain"
"""A drain of somebody else with this word in its reason is lifted by a verification that passed after it."""
NEW: Final = f"{PREFIX} {WORDS['new']}"
BORN_DRAINED: Final = f'State=DRAIN Reason="{NEW}"'
"""Words for slurmd's `--conf`, which Slurm heeds only where it makes a new record: it takes no job before the syncer has
looked at it. Later starts of the same slurmd bring them along to no effect."""
LONGEST: Final = 512
"""Bytes of a cordon's reason that are carried over. Slurm would take any number, and send them to every reader."""
_READ: Final = 8
"""How many times as many characters are looked at: some are blanks, and a text may be as long as an annotation."""


class Causes(Struct, frozen=True):
    """Why a node must not take new jobs. If none holds, nothing of ours is wanted."""

    terminated: bool = False
    """It has no Pod, or one that has ended or is about to."""
    pending_deletion: bool = False
    """It is to be taken away, and waits for its jobs."""
    deletion_timeout: bool = False
    """A Pod that Slurm had started there outlives its job."""
    not_ready: bool = False
    new: bool = False
    """Slurm has just made its record. Written by slurmd alone, and over as soon as the syncer has both sides to look at."""
    unreached: bool = False
    """A prolog there got no answer of the syncer, and its Pod has none since. Written by the prolog alone."""
    cordon: str | None = None
    """Its Kubernetes Node takes no new work; the text says why, and may be empty."""


class DrainState(Struct, frozen=True):
    """What Slurm says of a node, as far as drains go."""

    draining: bool
    """The flag. The reason alone says nothing: Slurm keeps an old one for a while."""
    reason: str = ""
    down: bool = False
    registered: bool = True
    failing: bool = False
    """FAIL. Slurm has no node with both flags by an order, but with both by itself."""
    rebooting: bool = False
    """Slurm was asked to reboot it, and that is not over."""

    @property
    def foreign(self) -> bool:
        """Somebody else keeps it out of service."""
        return self.failing or (self.draining and (self.rebooting or not is_ours(self.reason)))


class Drain(Struct, frozen=True):
    reason: str


class Undrain(Struct, frozen=True):
    pass


class Forget(Struct, frozen=True):
    """Take our text off a node in service."""


DrainAction = Drain | Undrain | Forget


def is_ours(reason: str) -> bool:
    return reason.startswith(PREFIX)


def text(causes: Causes) -> str | None:
    """The reason for these causes; None if none holds."""
    shown = next((words for field, words in WORDS.items() if getattr(causes, field)), None)
    parts = [] if shown is None else [shown]
    if causes.cordon is not None:
        said = plain(causes.cordon)
        parts.append(f"{CORDON}: {said}" if said else CORDON)
    return f"{PREFIX} {': '.join(parts)}" if parts else None


def read(reason: str) -> Causes | None:
    """What a reason of ours tells: the cause shown, and the cordon behind it. None if it is not one of our texts."""
    if not is_ours(reason):
        return None
    rest = reason.removeprefix(PREFIX).removesuffix(REBOOT_ISSUED).strip()
    for field, words in WORDS.items():
        if rest == words:
            return replace(Causes(), **{field: True})
        if rest.startswith(f"{words}: "):
            cordon = _cordon(rest.removeprefix(f"{words}: "))
            return None if cordon is None else replace(Causes(cordon=cordon), **{field: True})
    cordon = _cordon(rest)
    return None if cordon is None else Causes(cordon=cordon)


def _cordon(rest: str) -> str | None:
    if rest == CORDON:
        return ""
    return rest.removeprefix(f"{CORDON}: ") if rest.startswith(f"{CORDON}: ") else None


def plain(said: str, *, longest: int = LONGEST) -> str:
    """A text as it comes back from Slurm: what differed there would be put on again for ever."""
    shown = "".join(each if each.isprintable() else " " for each in said[: _READ * longest])
    words = " ".join(shown.split())
    return words.encode()[:longest].decode(errors="ignore").strip()


def decide(node: DrainState, causes: Causes) -> DrainAction | None:
    """Ours follows the causes; a foreign drain stays; DOWN is neither set nor lifted."""
    if node.foreign:
        return None
    wanted = text(causes)
    if node.down and (not causes.pending_deletion or is_personal(node)):
        return None
    if wanted is None:
        return _back(node) if node.registered else None
    return None if node.draining and node.reason == wanted else Drain(wanted)


def _back(node: DrainState) -> DrainAction | None:
    """What brings a node back into service for which nothing of ours is wanted."""
    if node.draining:
        return Undrain()
    return Forget() if is_ours(node.reason) and not node.rebooting else None


def is_personal(node: DrainState) -> bool:
    """Whether somebody else has written why this node is out of service; in service, a reason is only left over."""
    if node.failing:
        return True
    if is_ours(node.reason):
        return False
    return node.draining or (node.down and node.reason not in {"", NOT_RESPONDING})
