"""One member of a NodeSet: an entry in a slice, and what is there of it."""

from functools import cached_property

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.model.names import FEATURES, RESTART
from sunk.model.nodeslice import Entry
from sunk.objects.standing import drained, finished, pending_deletion, ready, revision, terminating


class Member(Struct, frozen=True, dict=True):
    """An entry, what is there, and why its Node does not fit: empty if it does, or if nobody knows.

    The same object is given out as long as nothing about it changes, so what it says is worked out once.
    """

    entry: Entry
    pod: Pod | None = None
    unfit: str = ""
    released: bool = False
    claimed: bool = True
    """Its Node carries the claim of the set, as far as that can be."""
    features: str | None = None
    """The Slurm features that its Pod shall carry; none if nobody knows, since its Node is not there."""
    absent: bool = False
    """Its Node is missing."""

    @cached_property
    def leaving(self) -> bool:
        return self.entry.state == "leaving"

    @cached_property
    def staying(self) -> bool:
        return self.entry.state == "joined"

    @cached_property
    def dated(self) -> bool:
        """Its entry says since when its Node is missing, if and only if it is."""
        return self.absent is (self.entry.absent_since is not None)

    @cached_property
    def alive(self) -> bool:
        return self.pod is not None and not terminating(self.pod)

    @cached_property
    def ready(self) -> bool:
        return self.pod is not None and ready(self.pod)

    @cached_property
    def drained(self) -> bool:
        return self.pod is not None and drained(self.pod)

    @cached_property
    def available(self) -> bool:
        """Jobs can be run there, now and later."""
        return self.ready and not self.going

    @cached_property
    def going(self) -> bool:
        """Its Pod carries the mark that it has to go."""
        return self.pod is not None and pending_deletion(self.pod) is not None

    @cached_property
    def revision(self) -> str:
        """The template that its Pod was made from; empty if there is none."""
        return "" if self.pod is None else revision(self.pod)

    @cached_property
    def described(self) -> bool:
        """Its Pod carries the features that it shall."""
        return self.pod is None or self.features in {None, self.pod.metadata.annotations.get(FEATURES, "")}

    @cached_property
    def ended(self) -> bool:
        return self.pod is not None and finished(self.pod)

    @cached_property
    def to_restart(self) -> bool:
        """The syncer has asked for a new Pod in its place, be it lately or long ago."""
        return self.pod is not None and RESTART in self.pod.metadata.annotations

    @cached_property
    def calm(self) -> bool:
        """It is to stay and has a Pod that runs: unless the template is another by now, nothing has to be done."""
        return self.staying and self.alive and not self.going and not self.ended and not self.to_restart
