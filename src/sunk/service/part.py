"""What a part is to the process that runs it, and what it is given in turn.

A part is built once. Its collections are followed always, also while another process leads, so that a takeover finds
everything read. Its controllers run for as long as we lead, and again each time we become leader: cancelled in
between, wherever they stand. So a part must not remember what only holds while it leads; what the stores say is
right, since they were kept true all the time.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field
from prometheus_client.registry import Collector

from sunk.kube.api.client import Client
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller
from sunk.kube.control.events import Recorder

T = TypeVar("T")


class Setting(Struct, frozen=True):
    """What every part works with."""

    client: Client
    """Rate-limited, patient, and counted by the metrics."""
    recorder: Recorder
    may_write: Callable[[], bool]
    """Tell, at the cost of a look at the clock, whether we surely lead at this moment: asked before what destroys."""
    namespaces: tuple[str, ...] = ()
    """Where our own objects are looked for; everywhere, if none is named."""
    workers: int = 8
    """How many keys each controller may have in work."""
    made: dict[Callable[["Setting"], Any], Any] = field(default_factory=dict)
    """What parts share, by how it is made."""

    def once(self, make: Callable[["Setting"], T]) -> T:
        """Give what several parts share, such as a collection that is large: made for the first that asks."""
        if make not in self.made:
            self.made[make] = make(self)
        found: T = self.made[make]
        return found

    @property
    def scopes(self) -> tuple[str, ...]:
        """The namespaces to follow, one collection each: one without a name means all of them."""
        return self.namespaces or ("",)


class Work(Protocol):
    """What is done only while leading. A Controller is one; so is anything that can be run, ended and named."""

    @property
    def name(self) -> str: ...

    @property
    def busy(self) -> bool:
        """Whether it has something in hand."""

    async def run(self) -> None:
        """Work until cancelled; to end by itself is a fault."""

    async def shut_down(self) -> None:
        """Take on nothing new, and return when nothing is in hand any more."""


class Part(Struct, frozen=True):
    """One piece of a process."""

    name: str
    follows: tuple[Collection[Any], ...]
    """Run always."""
    controllers: tuple[Controller[Any], ...] = ()
    """Run only while leading, and counted by the metrics."""
    work: tuple[Work, ...] = ()
    """Run only while leading."""
    duties: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {}
    """Run always, by name: what has to be known beside the collections, such as a mirror of Slurm."""
    unready: dict[str, Callable[[], str]] = {}
    """By name, what keeps the process from being ready; empty if nothing does."""
    on_stop: tuple[Callable[[], None], ...] = ()
    """Called when the process is told to stop, before work in hand is finished: to send away those who wait for us."""
    collectors: tuple[Collector, ...] = ()
    """What scrapers are told beside the kit's own metrics."""


Build = Callable[[Setting], Part]
"""How a part is made: `sunk.operator.nodeset.controller.nodesets` is one."""
