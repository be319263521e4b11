"""What the directory agent says, and what of it is to be told: the condition DirectoriesAvailable and its Events.

The agent reports in the ConfigMap in which it publishes users. Of that the operator keeps nothing but the report: it may be
nearly a mebibyte, and there is one for each cluster.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract import conditions, people
from sunk.model.contract.people import DirectoryReport, PeopleReport
from sunk.model.nodeset import Condition
from sunk.model.wording import counted
from sunk.operator.conditions import DraftCondition
from sunk.operator.slurmcluster.builders import directories
from sunk.operator.slurmcluster.builders.metadata import DIRECTORY

KIND: Final = conditions.DIRECTORIES_AVAILABLE
UNREADABLE: Final = "Unreadable"
WAITING: Final = "Waiting"
SELECTOR: Final = f"{names.MANAGED_BY}={names.SUNK},{names.COMPONENT}={DIRECTORY.name}"
"""Finds the ConfigMaps with reports, and no others."""
_STATES: Final = (people.AVAILABLE, people.UNREACHABLE, people.REFUSED, people.INVALID, people.SUSPECT, UNREADABLE)
"""Reasons that tell something of a directory, and not of the agent's Pod."""
_STAY: Final = "users who are known stay known"
_FEW: Final = 3


class PublishedData(Struct, frozen=True, gc=False):
    report: str = ""


class PublishedPeople(Record, frozen=True, gc=False):
    """The ConfigMap of an agent, as far as the operator reads it."""

    data: PublishedData = PublishedData()


PUBLISHED: Final = Resource(PublishedPeople, version="v1", plural="configmaps")


class AgentObservation(Struct, frozen=True):
    """What there is of the agent of a cluster."""

    report: str = ""
    """The text that it has published."""
    settings: str = ""
    """Hash of the settings that it should go by: what it has said of others is no longer true."""


def condition(spec: SlurmClusterSpec, *, agent: DraftCondition, observed: AgentObservation) -> DraftCondition:
    """What people see of their directories. `agent` is what holds of its Deployment."""
    wanted = directories.in_use(spec.directory_service)
    if not wanted:
        return KIND, True, "NotWanted", "no directory is enabled"
    _, there, reason, message = agent
    if not there:
        return KIND, False, reason, f"{message}; {_STAY}"
    if not observed.report:
        return KIND, False, WAITING, "the directory agent has not reported yet"
    try:
        found = msgspec.json.decode(observed.report, type=PeopleReport)
    except (msgspec.DecodeError, msgspec.ValidationError) as wrong:
        told = f"the report of the directory agent cannot be read: {wrong}. Are operator and agent of the same version?"
        return KIND, False, UNREADABLE, f"{told} {_STAY.capitalize()}"
    if found.settings != observed.settings:
        return KIND, False, WAITING, f"the directory agent has not read the latest values yet; {_STAY}"
    return _judged(found.directories)


def _judged(reports: Sequence[DirectoryReport]) -> DraftCondition:
    lacking = [each for each in reports if each.state != people.AVAILABLE]
    if not lacking:
        return KIND, True, people.AVAILABLE, _counts(reports)
    first, *others = lacking
    told = f"{first.name}: {first.message or first.state}"
    told += f"; {', '.join(f'{each.name}: {each.state}' for each in others)}" if others else ""
    return KIND, False, first.state, f"{told}; {_STAY}"


def _counts(reports: Sequence[DirectoryReport]) -> str:
    users, groups = sum(each.users for each in reports), sum(each.groups for each in reports)
    told = f"{counted(users, 'user')} and {counted(groups, 'group')} of {', '.join(each.name for each in reports)}"
    skipped = sum(each.skipped for each in reports)
    if not skipped:
        return told
    examples = [example for each in reports for example in each.examples]
    shown = f": {'; '.join(examples[:_FEW])}" if examples else ""
    return f"{told}; {skipped} {'entry' if skipped == 1 else 'entries'} left out{shown}"


def news(before: Iterable[Condition], now: Iterable[Condition]) -> Condition | None:
    """The condition, if it says something new of a directory that is worth an Event."""
    held, found = _of(before), _of(now)
    if found is None or found.reason not in _STATES:
        return None
    if found.status == "True":
        return found if held is not None and held.reason in _STATES and held.status != "True" else None
    return found if held is None or (held.reason, held.message) != (found.reason, found.message) else None


def _of(found: Iterable[Condition]) -> Condition | None:
    return next((each for each in found if each.type == KIND), None)
