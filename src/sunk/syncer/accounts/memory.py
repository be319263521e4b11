"""Who has had an account by the rules: noted in a ConfigMap, one key for each account with the users in it.

It is what tells an association that an administrator has removed from one that was never there. Only what a read of slurmdbd
has shown is noted, never what it was told: an order that was taken and came to nothing must not look like a removal. So
after every addition slurmdbd is read again. One that is removed in just that moment comes back once.

A process that has just begun to lead must know what the one before it has noted a moment ago. So the note is read for every
decision, and written only over what was read.

The operator makes the ConfigMap, empty, and never writes its data. Without it nothing is given to anybody.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sunk.syncer.accounts.plan import Pair

LARGEST: Final = 900_000
"""Bytes. An object may have a mebibyte and a half, a ConfigMap one."""


def changed(before: Mapping[str, str], after: Collection[Pair]) -> dict[str, Any]:
    """What has to be merged into the data for it to say this; empty if it does."""
    wanted: dict[str, list[str]] = {}
    for user, account in after:
        wanted.setdefault(account, []).append(user)
    texts = {account: " ".join(sorted(users)) for account, users in wanted.items()}
    if sum(len(account) + len(text) for account, text in texts.items()) > LARGEST:
        raise ValueError(f"{len(after)} associations are more than can be noted; shorten the rules")
    written = {account: text for account, text in texts.items() if before.get(account) != text}
    return written | dict.fromkeys(before.keys() - texts.keys(), None)
