"""The certificates of the hook API: made, brought to compute Pods and to the syncer, renewed, and dropped.

What is made once and never changed needs no right to read or change it: that is how the operator deals with Secrets
(`rollout.secrets`), and it stays so. Each certificate has a Secret of its own, named by a random id, and beside it a
ConfigMap of the same name with what the operator has to know of it: the CA and the dates. The ConfigMap owns the Secret,
so that Kubernetes takes the Secret along when we delete the ConfigMap. To renew is to make another pair, to put its CA
into the bundle `<cluster>-hooks-ca` that compute Pods mount, and when that has reached them (`certificaterule`) to let
the syncer's Deployment mount the other Secret. The rollout costs no call: prologs try again, and find their request.

The writes, in their order, and what a crash after each of them leaves:

1. The ConfigMap of the pair. Without its Secret it is dropped, and another pair is made.
2. The Secret. The pair is there, and the next reconcile goes on with 3.
3. The bundle. It has a CA more than is known to be published, which harms nobody; 4 follows.
4. The time of that, in the ConfigMap of the pair. From here the dates decide.

If the bundle is deleted it is made again, and Pods that run keep the files they have meanwhile. If a Secret is deleted,
see `certificaterule`. If the ConfigMap of a pair is deleted, Kubernetes deletes its Secret, and a pair is made as at the
beginning: prologs are refused for as long as a kubelet takes to bring the bundle, and try again.
"""

import secrets
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.core import CONFIG_MAPS, ConfigMap
from sunk.kube.errors import Conflict, NotFound
from sunk.model import names
from sunk.model.contract import clusterobjects, hooks
from sunk.operator.slurmcluster.builders.metadata import SYNCER, metadata, selector
from sunk.operator.slurmcluster.builders.secrets import hook_certificate
from sunk.operator.slurmcluster.daemons.syncer import TLS_VOLUME
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.apply import DEPLOYMENTS, Known, apply
from sunk.operator.slurmcluster.rollout.certificaterule import CertificatePlan, IssuedCertificate, plan
from sunk.operator.slurmcluster.rollout.issuing import NewCertificate, issue
from sunk.operator.slurmcluster.rollout.secrets import SECRETS, exists
from sunk.operator.slurmcluster.rollout.status import Workload

_ID_BYTES: Final = 4
_BEYOND: Final = 9000
"""A year that nobody means, and near the last that can be counted with."""


class CertificateProgress(Struct, frozen=True):
    active: str = ""
    """The id of the certificate that syncers should serve with."""
    objects: tuple[dict[str, Any], ...] = ()
    """What must not be pruned."""
    again: float | None = None
    """Seconds until the next look. None: there is nothing to look at."""


NONE: Final = CertificateProgress()


class CertificateRollout:
    """Keeps a cluster's syncer in certificates."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def proceed(self, cluster: ResolvedCluster, *, known: Known) -> CertificateProgress:
        """Make, publish and drop what is due. `cluster` need not be one that could be built."""
        if not cluster.spec.syncer.enabled:
            return NONE
        decided = plan(await self._issued(cluster), now=self._now())
        if decided.issue:
            await self._issue(cluster)
            decided = plan(await self._issued(cluster), now=self._now())
        bundle = _bundle(cluster, decided)
        await apply(self._client, [bundle], known=known)
        for certificate in decided.unpublished:
            await self._publish(cluster, certificate)
        for certificate in decided.dropped:
            await self._drop(cluster, certificate)
        kept = (_record(cluster, certificate.id) for certificate in decided.kept)
        return CertificateProgress(active=decided.active, objects=(bundle, *kept), again=decided.again.total_seconds())

    async def switch(self, cluster: ResolvedCluster, deployment: Workload | None, *, active: str) -> None:
        """Let syncers serve with that certificate though nothing else of the cluster can be applied.

        A spec may be refused for months. The certificate must not expire over that.
        """
        if deployment is None or not active:
            return
        volume = {"name": TLS_VOLUME, "secret": {"secretName": hook_certificate(cluster, active)}}
        body = {"metadata": {"uid": deployment.metadata.uid}, "spec": {"template": {"spec": {"volumes": [volume]}}}}
        try:
            # One that an earlier release has made has no such volume, and would have one that nobody mounts.
            await self._client.patch(
                DEPLOYMENTS, deployment.metadata.name, Strategic(body), namespace=cluster.namespace
            )
        except (Conflict, NotFound):
            return

    def _now(self) -> datetime:
        return self._client.clock.now()

    async def _issued(self, cluster: ResolvedCluster) -> list[IssuedCertificate]:
        chosen = ",".join(f"{key}={value}" for key, value in selector(cluster, SYNCER).items())
        found = await self._client.list(CONFIG_MAPS, Scope(namespace=cluster.namespace, labels=chosen))
        return [
            IssuedCertificate(
                id=identity,
                ca=record.data[hooks.CA],
                not_after=not_after,
                published=_time(record, names.CERTIFICATE_PUBLISHED),
                lost=not await exists(self._client, record.metadata.name, namespace=cluster.namespace),
            )
            for identity, not_after, record in _records(cluster, found.items)
        ]

    async def _issue(self, cluster: ResolvedCluster) -> None:
        made = issue(dns_names(cluster), now=self._now())
        identity = secrets.token_hex(_ID_BYTES)
        record = _record(cluster, identity)
        record["metadata"]["annotations"] = {names.CERTIFICATE_EXPIRES: made.not_after.isoformat()}
        created = await self._client.create(
            CONFIG_MAPS, record | {"data": {hooks.CA: made.ca}}, namespace=cluster.namespace
        )
        await self._client.create(SECRETS, _secret(created, made), namespace=cluster.namespace)

    async def _publish(self, cluster: ResolvedCluster, certificate: IssuedCertificate) -> None:
        note = Merge({"metadata": {"annotations": {names.CERTIFICATE_PUBLISHED: self._now().isoformat()}}})
        await self._client.patch(
            CONFIG_MAPS, hook_certificate(cluster, certificate.id), note, namespace=cluster.namespace
        )

    async def _drop(self, cluster: ResolvedCluster, certificate: IssuedCertificate) -> None:
        name = hook_certificate(cluster, certificate.id)
        try:
            found = await self._client.get(CONFIG_MAPS, name, namespace=cluster.namespace)
            only = Deletion(preconditions=Preconditions(uid=found.metadata.uid), propagation_policy="Background")
            await self._client.delete(CONFIG_MAPS, name, only, namespace=cluster.namespace)
        except NotFound:
            return


def dns_names(cluster: ResolvedCluster) -> tuple[str, ...]:
    """What the syncer's Service is called, by whoever asks."""
    short, space = cluster.named(clusterobjects.SYNCER), cluster.namespace
    full = f"{short}.{space}.svc.{cluster.spec.cluster_domain}"
    return short, f"{short}.{space}", hooks.server_name(space, cluster.name), full


def _bundle(cluster: ResolvedCluster, decided: CertificatePlan) -> dict[str, Any]:
    meta = metadata(cluster, SYNCER, name=clusterobjects.HOOKS_CA)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {hooks.CA: decided.bundle}}


def _record(cluster: ResolvedCluster, identity: str) -> dict[str, Any]:
    meta = metadata(cluster, SYNCER) | {"name": hook_certificate(cluster, identity)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _secret(owner: ConfigMap, made: NewCertificate) -> dict[str, Any]:
    """Never changed, and gone when its ConfigMap is."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid}
    texts = {hooks.CERTIFICATE: made.certificate, hooks.KEY: made.key, hooks.CA: made.ca}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": owner.metadata.name,
            "labels": dict(owner.metadata.labels),
            "ownerReferences": [reference],
        },
        "type": "kubernetes.io/tls",
        "immutable": True,
        "data": {key: b64encode(text.encode()).decode() for key, text in texts.items()},
    }


def _records(cluster: ResolvedCluster, found: tuple[ConfigMap, ...]) -> Iterator[tuple[str, datetime, ConfigMap]]:
    """Those that are of this cluster and can be read. Others are pruned with what nobody wants."""
    prefix = hook_certificate(cluster, "")
    for record in found:
        name, not_after = record.metadata.name, _time(record, names.CERTIFICATE_EXPIRES)
        ours = any(owner.uid == cluster.uid and owner.controller for owner in record.metadata.owner_references)
        if ours and not_after and name.startswith(prefix) and hooks.CA in record.data:
            yield name.removeprefix(prefix), not_after, record


def _time(record: ConfigMap, key: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(record.metadata.annotations.get(key, ""))
    except ValueError:
        return None
    if found.year >= _BEYOND:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
