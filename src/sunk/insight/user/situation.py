"""Everything that was seen about one name, and the shape of a verdict.

A verdict is given for what was seen. Where something could not be seen, and nothing else decides, there is none.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from sunk.insight.user.person import Person
from sunk.insight.user.rules import RuleView
from sunk.insight.user.slurm import PodView, SlurmView
from sunk.model.cluster.directory import Directory
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract.people import DirectoryReport, PeopleReport

LOGIN: Final = "login"
CONTROLLER: Final = "controller"
"""Components, as Pods are labelled with."""
BY_CONFIG_MAP: Final = "Kubelets bring new users to Pods within about a minute"


class Situation(Struct, frozen=True):
    """Everything that was seen about one name."""

    name: str
    cluster: str
    spec: SlurmClusterSpec
    person: Person | None = None
    people_seen: bool = True
    """Whether the files with users could be read."""
    passwords: dict[str, str] | None = None
    """By directory: `tls`, `starttls` or `plain`, as logins are told. None: not known."""
    report: PeopleReport | None = None
    pods: tuple[PodView, ...] = ()
    slurm: SlurmView = SlurmView()
    rules: tuple[RuleView, ...] = ()

    @property
    def directories(self) -> tuple[Directory, ...]:
        return tuple(one for one in self.spec.directory_service.directories if one.enabled)

    @property
    def directory_names(self) -> tuple[str, ...]:
        return tuple(name_of(one) for one in self.directories)

    def state_of(self, directory: str) -> DirectoryReport | None:
        told = self.report.directories if self.report else ()
        return next((one for one in told if one.name == directory), None)

    def of(self, component: str) -> tuple[PodView, ...]:
        return tuple(pod for pod in self.pods if pod.component == component)


def name_of(directory: Directory) -> str:
    return directory.name or Directory().name


class Reason(Struct, frozen=True, omit_defaults=True):
    """One thing that matters. `refuses` if it alone is enough for a refusal."""

    text: str
    refuses: bool = False
    advice: str = ""


class Verdict(Struct, frozen=True):
    allowed: bool | None
    """None: it cannot be told."""
    reasons: tuple[Reason, ...] = ()

    @property
    def text(self) -> str:
        return {True: "nothing speaks against it", False: "refused", None: "cannot be told"}[self.allowed]


def verdict(reasons: Iterable[Reason], *, blind: bool = False) -> Verdict:
    """What these reasons come to; `blind` if what would decide otherwise was not seen."""
    found = tuple(dict.fromkeys(reasons))
    refused = any(one.refuses for one in found)
    return Verdict(False if refused else None if blind else True, found)
