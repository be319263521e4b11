"""Objects of one resource in the namespaces that we look after: one collection if that is all of them, else one each.

Somebody who may list a resource in two namespaces may not therefore list it everywhere, so a single collection with a
filter behind it would ask for more than it needs.
"""

from collections.abc import Mapping
from typing import Final, Generic

from sunk.kube.api.client import Scope
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Index
from sunk.kube.resource import Key, R, Resource
from sunk.service.part import Setting


class Scoped(Generic[R]):
    def __init__(
        self,
        setting: Setting,
        resource: Resource[R],
        *,
        labels: str = "",
        indexes: Mapping[str, Index[R]] | None = None,
    ) -> None:
        self._by_namespace: Final = {
            namespace: Collection(setting.client, resource, Scope(namespace=namespace, labels=labels), indexes=indexes)
            for namespace in setting.scopes
        }

    @property
    def collections(self) -> tuple[Collection[R], ...]:
        return tuple(self._by_namespace.values())

    def covers(self, namespace: str) -> bool:
        return "" in self._by_namespace or namespace in self._by_namespace

    def of(self, key: Key) -> Collection[R]:
        """The collection that an object of this name belongs to: for writes."""
        return self._by_namespace[""] if "" in self._by_namespace else self._by_namespace[key.namespace]

    def get(self, key: Key) -> R | None:
        return self.of(key).store.get(key) if self.covers(key.namespace) else None

    def all(self) -> tuple[R, ...]:
        return tuple(record for collection in self.collections for record in collection.store.all())

    def by(self, index: str, value: str) -> tuple[R, ...]:
        return tuple(record for collection in self.collections for record in collection.store.by(index, value))
