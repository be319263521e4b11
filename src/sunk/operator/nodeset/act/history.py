"""Keep the templates of a NodeSet that were in use, so that there is something to go back to."""

from collections.abc import Iterable
from contextlib import suppress

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.core import Pod
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.objects.members import ControllerRevision, NodeSet, index_value
from sunk.objects.standing import revision as of_pod
from sunk.operator.nodeset.act.revision import forgettable, newest, object_name, revision_body
from sunk.service.scoped import Scoped


class History:
    def __init__(self, revisions: Scoped[ControllerRevision]) -> None:
        self._revisions = revisions

    async def keep(self, owner: NodeSet, revision: str, *, pods: Iterable[Pod]) -> None:
        """Have this revision be the newest, and forget those that are too old and that no Pod was made from."""
        history = self._revisions.by("owner", index_value(owner))
        key = Key(owner.metadata.namespace, object_name(owner, revision))
        # By owner: one of the same name may be left of a NodeSet that was deleted and made again.
        present = next((one for one in history if one.metadata.name == key.name), None)
        last = newest(history)
        if present is None:
            body = revision_body(owner, revision, number=last + 1)
            await self._revisions.of(key).create(key, body)
        elif present.revision < last:
            version = {"resourceVersion": present.metadata.resource_version}
            await self._revisions.of(key).patch(key, Merge({"metadata": version, "revision": last + 1}))
        if len(history) > owner.spec.revision_history_limit:
            await self._forget(owner, history, used={key.name} | {object_name(owner, of_pod(pod)) for pod in pods})

    async def _forget(self, owner: NodeSet, history: tuple[ControllerRevision, ...], *, used: set[str]) -> None:
        for old in forgettable(history, used=used, limit=owner.spec.revision_history_limit):
            with suppress(NotFound):
                how = Deletion(preconditions=Preconditions(uid=old.metadata.uid))
                await self._revisions.of(old.key).delete(old.key, how)
