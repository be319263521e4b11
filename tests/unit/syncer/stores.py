"""Fill a store as a watch would."""

from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from sunk.kube.cache.store import Store
from sunk.kube.cache.view import Changed, Deleted, Synced
from sunk.kube.resource import Record

R = TypeVar("R", bound=Record)
_versions = count(1)


def put(store: Store[R], *records: R) -> None:
    for record in records:
        store.take(Changed(_next(record)), version="")


def remove(store: Store[R], *records: R) -> None:
    for record in records:
        store.take(Deleted(_next(record)), version="")


def newest() -> str:
    """A version that is later than all before it."""
    return str(next(_versions))


def complete(store: Store[R]) -> None:
    store.take(Synced(), version=newest())


def _next(record: R) -> R:
    return replace(record, metadata=replace(record.metadata, resource_version=newest()))
