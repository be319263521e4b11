"""Why nobody knows a user of this name."""

import re
from collections.abc import Iterator

from sunk.insight.user.situation import Reason, Situation, Verdict
from sunk.model.contract import clusterobjects, people
from sunk.model.contract.people import DirectoryReport


def unknown(seen: Situation) -> Verdict:
    """Of a login and of a job alike."""
    if not seen.people_seen:
        return Verdict(None, (Reason("the users of the cluster could not be read"),))
    found = tuple(dict.fromkeys(_why_unknown(seen)))
    return Verdict(allowed=False, reasons=found)


def _why_unknown(seen: Situation) -> Iterator[Reason]:
    name = seen.name
    if not seen.directories:
        why = f"{name} is not among the users of the values, and no directory is enabled"
        yield Reason(why, refuses=True, advice="Add the user to users.passwd, or a directory to directoryService")
        return
    left_out = [
        Reason(
            f"directory {directory} has the user, but the entry is left out: {example}",
            refuses=True,
            advice=f"Correct the entry in directory {directory}",
        )
        for directory, example in skipped(seen)
    ]
    yield from left_out
    down = [*_not_read(seen)]
    yield from down
    if not left_out and not down:
        yield _in_no_directory(seen)


def skipped(seen: Situation) -> Iterator[tuple[str, str]]:
    """Entries with this name that the agent has left out, among those that it names as examples, by directory.

    An example is `user NAME: why`, or a DN in place of the name; groups are told in the same way, and the reason may name
    somebody else.
    """
    named = re.compile(rf"(?<![\w.-]){re.escape(seen.name)}(?![\w.-])", re.IGNORECASE)
    for told in seen.report.directories if seen.report else ():
        for example in told.examples:
            about = example.partition(": ")[0]
            if named.search(about) and not about.startswith("group "):
                yield told.name, example


def _not_read(seen: Situation) -> Iterator[Reason]:
    if seen.report is None:
        yield Reason(
            "the directory agent has not reported anything yet",
            refuses=True,
            advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, people.AGENT)}",
        )
        return
    for name in seen.directory_names:
        told = seen.state_of(name)
        if told is None:
            yield Reason(
                f"the directory agent has not read directory {name} yet",
                refuses=True,
                advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, people.AGENT)}",
            )
        elif told.state != people.AVAILABLE:
            yield Reason(
                f"directory {name} is {told.state}{_because(told.message)}. {seen.name} was not among its users when "
                "it was last read",
                refuses=True,
                advice=_repair(told),
            )


def _in_no_directory(seen: Situation) -> Reason:
    text = f"neither the values nor a directory ({', '.join(seen.directory_names)}) have a user {seen.name}"
    left_out = sum(one.skipped for one in seen.report.directories) if seen.report else 0
    if left_out:
        text += f". {'1 entry is' if left_out == 1 else f'{left_out} entries are'} left out, and at most ten of them are listed"
    return Reason(
        text,
        refuses=True,
        advice="Check that the entry is below the search base, has the object class of users, a uid and a gid",
    )


def _repair(told: DirectoryReport) -> str:
    match told.state:
        case people.UNREACHABLE:
            return f"Check that the cluster reaches directory {told.name}, and that it runs"
        case people.REFUSED:
            return f"Check bind DN, password and certificates of directory {told.name}"
        case people.SUSPECT:
            return f"Check the canary and the search base of directory {told.name}, and what its account may read"
    return f"Correct the values of directory {told.name}"


def _because(text: str) -> str:
    return f" ({text})" if text else ""
