"""What a fleet of fake Nodes looks like, and how its kubelet behaves unless told otherwise on the spot."""

from typing import Final

from msgspec import Struct, field

from sunk.kube.core import Taint
from sunk.local.fakekubelet.behaviour import Behaviour, key, seconds
from sunk.local.kubernetes.controlplane import API_ONLY_GRACE
from sunk.model.refusal import Refusal

FLEET: Final = key("fleet")
"""The label that makes a Node ours: its value is the fleet's name. Nodes without it are never touched."""

LOWS: Final = 250
HIGHS: Final = 256
SIZE: Final = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "250"}


class NodeTraits(Struct, frozen=True, forbid_unknown_fields=True):
    """What one Node has that the others of its fleet have not. An empty address is that of its number."""

    address: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    resources: dict[str, str] = field(default_factory=dict)


PLAIN: Final = NodeTraits()


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """One fleet. Two fleets of different names live side by side on one API server.

    `traits` are by name of a Node, and come on top of what holds for all of them; also for a Node that a test makes,
    as far as its status goes.
    `binds` lets Pods be bound that are pinned to a Node of the fleet; off where a scheduler runs.
    `grace` is the controller-manager's `--node-monitor-grace-period` in seconds, by default that of `--api-only`:
    leases are renewed well within it.
    `keep` leaves Nodes and Pods as they are at the end, as a kubelet that dies does; else they are taken away.
    """

    nodes: int = 1
    fleet: str = "fake"
    address: str = "10.80.{high}.{low}"
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    resources: dict[str, str] = field(default_factory=dict)
    traits: dict[str, NodeTraits] = field(default_factory=dict)
    binds: bool = True
    behaviour: Behaviour = Behaviour()
    grace: float = seconds(API_ONLY_GRACE)
    workers: int = 16
    keep: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= LOWS * HIGHS:
            raise Refusal(f"a fleet has 0 to {LOWS * HIGHS} Nodes, found {self.nodes}: start several fleets for more")
        if self.nodes > 1 and self.address_of(0) == self.address_of(self.nodes - 1):
            raise Refusal(f'the address "{self.address}" is the same for every Node: use {{high}} and {{low}} in it')

    @property
    def period(self) -> float:
        """Seconds between two renewals of a lease. Each costs a write, so as few as leave time for a second try."""
        return self.grace * 0.7

    def trait(self, name: str) -> NodeTraits:
        return self.traits.get(name, PLAIN)

    def capacity(self, name: str) -> dict[str, str]:
        return SIZE | self.resources | self.trait(name).resources

    def name_of(self, number: int) -> str:
        return f"{self.fleet}-{number:04}"

    def address_of(self, number: int) -> str:
        """Give every Node a pair of third and fourth octet of its own: Slurm names are made from these."""
        return self.address.format(high=number // LOWS % HIGHS, low=number % LOWS + 1)

    def numbered(self, number: int) -> str:
        """Give the address of one of the fleet's own Nodes."""
        return self.trait(self.name_of(number)).address or self.address_of(number)
