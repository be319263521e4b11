"""One read of one directory: all of its users and groups, or a Failure.

All searches of a read go to the same server, because two servers may not be equally far. A server that cannot be reached is
passed over for the next; one that answers and says no has the last word.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from sunk.directory.domain.options import SearchBase
from sunk.directory.domain.settings import Domain
from sunk.directory.failure import Failure
from sunk.directory.ldap import tlsprobe
from sunk.directory.ldap.ldif import Entry
from sunk.directory.ldap.names import normal
from sunk.directory.ldap.results import UNKNOWN_METHOD, LdapFailure
from sunk.directory.ldap.search import Connection, Query, search
from sunk.directory.users import groups
from sunk.directory.users.entries import Entries
from sunk.directory.users.records import NO_CONSENT, Consent, Content
from sunk.model import names
from sunk.model.contract import people

log = logging.getLogger(__name__)

MOST_ENTRIES: Final = 500_000
MOST_RANGES: Final = 10_000
FEW: Final = 5
"""So many memberships may always be gone at once."""
_ROOT: Final = Query(
    base="", scope="base", filter="(objectClass=*)", attributes=("defaultNamingContext", "namingContexts")
)


async def read(domain: Domain) -> Content:
    """Read all of it from the first server that answers."""
    passed = list[Failure]()
    for connection in domain.connections:
        if any(isinstance(each, Unconnected) and each.uri == connection.uri for each in passed):
            continue
        try:
            return await _Reading(domain, connection).content()
        except LdapFailure as failure:
            if connection.external and failure.code in UNKNOWN_METHOD:
                passed.append(failure)
            elif failure.is_unconnected:
                passed.append(await explain(failure, connection))
            else:
                raise
    raise _combined(passed)


class Unconnected(Failure):
    """A server that was passed over."""

    def __init__(self, failure: Failure, uri: str, *, state: str, option: str, words: str) -> None:
        super().__init__(state, words, option=option)
        self.uri: Final = uri
        self.__cause__ = failure


async def explain(failure: LdapFailure, connection: Connection) -> Unconnected:
    """Find words for a server that could not be reached, or not in a way that we trust."""
    found = await asyncio.to_thread(tlsprobe.diagnose, connection)
    if found is None:
        return Unconnected(failure, connection.uri, state=failure.state, option=failure.option, words=failure.words)
    words = f"{connection.uri}: {found.words}"
    return Unconnected(failure, connection.uri, state=found.state, option=found.option, words=words)


def _combined(passed: list[Failure]) -> Failure:
    """Tell of all servers, and blame what the first of those who answered says."""
    unconnected = [each for each in passed if isinstance(each, Unconnected)] or passed
    first = next((each for each in unconnected if each.state == people.REFUSED), unconnected[0])
    words = "; ".join(dict.fromkeys(each.words for each in unconnected))
    return Failure(first.state, words, option=first.option)


class _Reading:
    """The searches of one read, at one server."""

    def __init__(self, domain: Domain, connection: Connection) -> None:
        self._domain = domain
        self._connection = connection
        self._entries = Entries(domain, now=datetime.now(UTC))
        self._count = 0
        self._root = ""

    async def content(self) -> Content:
        domain, names, found = self._domain, self._domain.attributes, self._entries
        users = f"(objectClass={names.user_class})({names.user_name}=*)({names.uid}=*)"
        groups_filter = f"(objectClass={names.group_class})({names.group_name}=*)"
        if domain.members_are_names:
            groups_filter += f"({names.group_gid}=*)"
        await self._all(domain.user_bases, users, names.of_users(), found.take_user, option="ldap_user_search_base")
        if domain.access_filter:
            await self._access(users)
        await self._all(
            domain.group_bases, groups_filter, names.of_groups(), found.take_group, option="ldap_group_search_base"
        )
        await self._ranges()
        return self._content()

    async def _all(
        self,
        bases: tuple[SearchBase, ...],
        wanted: str,
        attributes: tuple[str, ...],
        take: Callable[[Entry], None],
        *,
        option: str,
    ) -> None:
        for base in bases or (SearchBase(await self._default_base()),):
            query = Query(base.base, f"(&{wanted}{base.filter})", attributes, base.scope)
            try:
                await self._search(query, take)
            except LdapFailure as failure:
                if failure.option == "ldap_search_base" and bases:
                    raise Failure(failure.state, f"{failure.words}: {base.base}", option=option) from failure
                raise

    async def _search(self, query: Query, take: Callable[[Entry], None]) -> None:
        if self._domain.verbose:
            log.info(
                "%s: search at %s below '%s' (%s) for %s",
                *(self._domain.name, self._connection.uri, query.base, query.scope, query.filter),
            )
        await search(self._connection, query, take=partial(self._counted, take))

    def _counted(self, take: Callable[[Entry], None], entry: Entry) -> None:
        self._count += 1
        if self._count > MOST_ENTRIES:
            words = f"there are more than {MOST_ENTRIES:,} entries: narrow user.searchBase"
            raise Failure(people.INVALID, words, option="ldap_search_base")
        take(entry)

    async def _default_base(self) -> str:
        """Where the server says that its data is."""
        if not self._root:
            found = list[Entry]()
            await self._search(_ROOT, found.append)
            names = [name for entry in found for key in _ROOT.attributes if (name := entry.text(key))]
            if not names:
                words = "not set, and the server does not say where its data is: set it"
                raise Failure(people.INVALID, words, option="ldap_search_base")
            self._root = f"{self._domain.default_base_prefix}{names[0]}"
        return self._root

    async def _access(self, users: str) -> None:
        allowed = set[str]()

        def allow(entry: Entry) -> None:
            allowed.add(normal(entry.dn))

        wanted = f"{users}{self._domain.access_filter}"
        await self._all(
            self._domain.user_bases, wanted, (self._domain.attributes.user_name,), allow, option="ldap_access_filter"
        )
        self._entries.deny_all_but(allowed)

    async def _ranges(self) -> None:
        """Ask for the members that were kept back, as long as there are any."""
        ranges, member, asked = self._entries.ranges, self._domain.attributes.member, set[tuple[str, int]]()
        for _ in range(MOST_RANGES):
            if not ranges:
                return
            part = ranges.pop()
            if (part.key, part.start) in asked:
                words = "the server sends the same members of a group again and again"
                raise Failure(people.SUSPECT, words, option="ldap_uri")
            asked.add((part.key, part.start))
            base = part.dn.decode(errors="surrogateescape")
            query = Query(base, "(objectClass=*)", (f"{member};range={part.start}-*",), "base")
            await self._search(query, self._entries.take_members)
        words = "groups are sent in more parts than can be read: narrow ldap_group_search_base"
        raise Failure(people.INVALID, words, option="ldap_group_search_base")

    def _content(self) -> Content:
        found, domain = self._entries, self._domain
        try:
            resolved = groups.resolve(found, members_are_names=domain.members_are_names)
        except groups.TooManyMembers as error:
            words = (
                "its groups have more members than a ConfigMap holds: narrow ldap_group_search_base in additionalConfig"
            )
            raise Failure(people.INVALID, words, option="ldap_group_search_base") from error
        return Content(tuple(found.users), resolved, found.skips.count, tuple(found.skips.examples))


def believe(content: Content, *, before: Content, canary: str, consent: Consent = NO_CONSENT) -> None:
    """Raise a Failure if the answer is not to be believed: it would take users or groups away by a mistake of the server."""
    if canary:
        if not any(user.name == canary for user in content.users):
            words = (
                f"the user {canary} is not among the {len(content.users):,} users found: nothing is changed until it is"
            )
            raise Failure(people.SUSPECT, words, option="canary")
    elif not content.users and before.users:
        words = f"the directory has no users any more, where there were {len(before.users):,}: nothing is changed. If this is meant, disable the directory"
        raise Failure(people.SUSPECT, words, option="ldap_search_base")
    # Where users are shown groups may not be: what an account may read is set for each of them. One alone may be deleted.
    if not content.groups and len(before.groups) > 1:
        words = f"the directory has no groups any more, where there were {len(before.groups):,}: nothing is changed. If this is meant, disable the directory, and enable it again later"
        raise Failure(people.SUSPECT, words, option="ldap_group_search_base")
    lost, of = _lost_memberships(content, before=before)
    if lost > max(FEW, of // 2, consent.accepted):
        accept = f"kubectl annotate --overwrite {consent.place} {names.ACCEPT_LOSS}={lost}"
        words = f"{lost:,} of {of:,} memberships of groups are gone at once: nothing is changed. Check the directory. If this is meant: {accept}"
        raise Failure(people.SUSPECT, words, option="ldap_group_search_base")


def _lost_memberships(content: Content, *, before: Content) -> tuple[int, int]:
    """How many memberships of users who are still there are gone, and of how many."""
    there = {user.name for user in content.users}
    had = {(group.gid, name) for group in before.groups for name in group.members if name in there}
    have = {(group.gid, name) for group in content.groups for name in group.members}
    return len(had - have), len(had)
