"""The blocking calls about associations: what slurmdbd has, and how it is changed.

Everything here runs on a thread of `library`. libslurm talks to slurmdbd over one connection at a time, so all calls to
it share a lock; nobody but who asks slurmdbd ever waits for it.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, msgpack

from sunk.slurm.errors import NO_CHANGE, SlurmError, refusal
from sunk.slurm.libslurm.wire import LEAVE, Unpacker, Wire
from sunk.slurm.records import Association, KnownUser, Qos, Table

OF_THE_ACCOUNT: Final = 0xFFFFFFFF
"""INFINITE, as the number of a default QOS: the one that the account has."""


class Grant(Struct, frozen=True):
    """What is to be told to slurmdbd about users in an account. What a call does not use is left out."""

    cluster: str
    account: str
    users: tuple[str, ...] = ()
    comment: str | None = None
    description: str | None = None
    is_default: bool = False
    qos: tuple[str, ...] = ()
    """Numbers. A single empty text means: those of the account again."""
    default_qos: int = LEAVE
    ids: tuple[int, ...] = ()


class AccountWire:
    """The part of libslurm that is about slurmdbd's associations."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._associations = Unpacker(Association)
        self._qos = Unpacker(Qos)
        self._known = Unpacker(KnownUser)

    def associations(self, cluster: str) -> Table[Association]:
        name = self._wire.text(cluster)
        return self._table(lambda buffer: self._lib.sunk_associations(name, buffer), self._associations, "associations")

    def qos(self) -> Table[Qos]:
        return self._table(self._lib.sunk_qos, self._qos, "QOS")

    def known_users(self) -> Table[KnownUser]:
        """Asked of slurmctld, not of slurmdbd."""
        asked = "read the users that slurmctld knows"
        found: Table[KnownUser] | None = self._wire.decoded(self._lib.sunk_known_users, self._known, asked=asked)
        return found or Table(rows=(), updated=0)

    def add_account(self, grant: Grant) -> None:
        self._tell(self._lib.sunk_add_account, grant, f"add account {grant.account}")

    def add_users(self, grant: Grant) -> None:
        self._tell(self._lib.sunk_add_users, grant, f"add {_named(grant.users)} to account {grant.account}")

    def change(self, grant: Grant) -> None:
        self._tell(
            self._lib.sunk_change_associations, grant, f"change {_named(grant.users)} in account {grant.account}"
        )

    def remove(self, grant: Grant) -> None:
        self._tell(
            self._lib.sunk_remove_associations, grant, f"remove {_named(grant.users)} from account {grant.account}"
        )

    def set_default(self, grant: Grant) -> None:
        self._tell(
            self._lib.sunk_set_default_account,
            grant,
            f"make account {grant.account} the default of {_named(grant.users)}",
        )

    @property
    def _lib(self) -> Any:
        return self._wire.lib

    def _table(self, read: Callable[[Any], int], unpacker: Unpacker[Any], what: str) -> Table[Any]:
        with self._wire.slurmdbd:
            found: Table[Any] | None = self._wire.decoded(read, unpacker, asked=f"read {what} from slurmdbd")
        return found or Table(rows=(), updated=0)

    def _tell(self, send: Callable[[Any, Any], int], grant: Grant, asked: str) -> None:
        message, _held = self._message(grant)
        ffi = self._wire.ffi
        said = ffi.new("sunk_buffer *")
        try:
            with self._wire.slurmdbd:
                code = send(message, said)
            if code:
                raise self._refusal(code, said, asked=asked)
        finally:
            if said.data:
                self._lib.sunk_free(said)

    def _refusal(self, code: int, said: Any, *, asked: str) -> SlurmError:
        """With slurmdbd's own words, where it has some."""
        plain = self._wire.refusal(code, asked=asked)
        if not said.size or code == NO_CHANGE:
            return plain
        words = msgpack.decode(self._wire.ffi.buffer(said.data, said.size), type=str)
        return refusal(code, asked=asked, text=f"{plain.text}: {' '.join(words.split())}", name=plain.name)

    def _message(self, grant: Grant) -> tuple[Any, list[Any]]:
        """A grant for C, and its texts, which have to be held until the call is over."""
        ffi, text = self._wire.ffi, self._wire.text
        message = ffi.new("sunk_grant *")
        held: list[Any] = []
        for name in ("cluster", "account", "comment", "description"):
            held.append(text(getattr(grant, name)))
            setattr(message, name, held[-1])
        lists = {"users": grant.users, "qos": grant.qos, "ids": tuple(map(str, grant.ids))}
        counts = {"users": "user_count", "qos": "qos_count", "ids": "id_count"}
        for name, values in lists.items():
            items = [text(value) for value in values]
            array = ffi.new("char *[]", items)
            held += [*items, array]
            setattr(message, name, array)
            setattr(message, counts[name], len(items))
        message.is_default = int(grant.is_default)
        message.default_qos = grant.default_qos
        return message, held


def _named(users: tuple[str, ...]) -> str:
    if len(users) == 1:
        return f"user {users[0]}"
    return f"{len(users)} users ({', '.join(users[:3])}, ...)"
