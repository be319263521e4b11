"""The certificates of the hook API on a real API server, with no more rights than the operator has."""

import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from msgspec import json
from msgspec.structs import replace
from tests import crds, policies
from tests.conftest import Kube
from tests.integration.nodeset.stage import eventually

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import Forbidden, NotFound
from sunk.model import names
from sunk.model.cluster.daemons import Syncer
from sunk.model.cluster.kind import SLURMCLUSTER, SlurmClusterSpec
from sunk.model.refusal import Refusal
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.apply import ACCOUNTS, BINDINGS, ROLES
from sunk.operator.slurmcluster.rollout.certificaterule import REACHES_PODS, RENEWED
from sunk.operator.slurmcluster.rollout.certificates import NONE, CertificateProgress, CertificateRollout
from sunk.operator.slurmcluster.rollout.secrets import SECRETS

BUNDLE = "slurm-hooks-ca"
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
]
"""Of the operator's rights (charts/sunk/templates/_names.tpl) those that are needed here."""


class Stage:
    """One SlurmCluster without an operator, and what people may do to its objects."""

    def __init__(self, kube: Kube, operator: Client, cluster: ResolvedCluster) -> None:
        self.kube, self.cluster, self.operator = kube, cluster, operator

    async def proceed(self, *, by: Any = None) -> CertificateProgress:
        return await CertificateRollout(by or self.operator).proceed(self.cluster, known={})

    async def bundle(self) -> str:
        return (await self.kube.client.get(CONFIG_MAPS, BUNDLE, namespace=self.kube.namespace)).data["ca.crt"]

    async def secret(self, identity: str) -> dict[str, Any]:
        path = SECRETS.path(self.kube.namespace, f"slurm-hooks-{identity}")
        found: dict[str, Any] = json.decode(await self.kube.client.request("GET", path))
        return found

    async def pairs(self) -> tuple[set[str], set[str]]:
        """The ids of all that there are, by ConfigMaps and by Secrets."""
        here = Scope(namespace=self.kube.namespace)
        found = [await self.kube.client.list(kind, here) for kind in (CONFIG_MAPS, SECRETS)]
        maps, secrets = ({one.metadata.name for one in each.items} - {BUNDLE} for each in found)
        begin = "slurm-hooks-"
        return (
            {name.removeprefix(begin) for name in maps if name.startswith(begin)},
            {name.removeprefix(begin) for name in secrets if name.startswith(begin)},
        )

    async def date(self, identity: str, **dates: datetime) -> None:
        """Move a certificate in time."""
        keys = {"expires": names.CERTIFICATE_EXPIRES, "published": names.CERTIFICATE_PUBLISHED}
        notes = {keys[key]: moment.isoformat() for key, moment in dates.items()}
        patch = Merge({"metadata": {"annotations": notes}})
        await self.kube.client.patch(CONFIG_MAPS, f"slurm-hooks-{identity}", patch, namespace=self.kube.namespace)

    async def settle(self, identity: str) -> None:
        await self.date(identity, published=now() - 2 * REACHES_PODS)


def now() -> datetime:
    return datetime.now(UTC)


def certificates(pem: str) -> int:
    return pem.count("BEGIN CERTIFICATE")


@pytest_asyncio.fixture
async def stage(kube: Kube) -> AsyncIterator[Stage]:
    await crds.install(kube.cluster)
    kind = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name}
    body = kind | {"metadata": {"name": "slurm"}, "spec": {}}
    made = await kube.client.create(SLURMCLUSTERS, body, namespace=kube.namespace)
    cluster = ResolvedCluster(name="slurm", namespace=kube.namespace, uid=made.metadata.uid, spec=SlurmClusterSpec())
    await _account(kube)
    token = await policies.token_of(kube.client, kube.namespace, account="operator")
    async with policies.granted(kube.kubeconfig, token, namespace=kube.namespace) as operator:
        yield Stage(kube, operator, cluster)


async def _account(kube: Kube) -> None:
    meta, group = {"metadata": {"name": "operator"}}, "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": kube.namespace}
    role = {"apiGroup": group, "kind": "Role", "name": "operator"}
    await kube.client.create(ACCOUNTS, meta, namespace=kube.namespace)
    await kube.client.create(ROLES, meta | {"rules": RULES}, namespace=kube.namespace)
    await kube.client.create(BINDINGS, meta | {"roleRef": role, "subjects": [subject]}, namespace=kube.namespace)


async def test_the_first_one_is_there_at_once(stage: Stage) -> None:
    first = await stage.proceed()
    secret = await stage.secret(first.active)
    assert secret["immutable"] is True
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ConfigMap", f"slurm-hooks-{first.active}")
    data = {key: b64decode(text).decode() for key, text in secret["data"].items()}
    assert set(data) == {"tls.crt", "tls.key", "ca.crt"}
    assert await stage.bundle() == data["ca.crt"]
    ssl.create_default_context(cadata=await stage.bundle())
    assert "KEY" not in await stage.bundle()
    assert {one["metadata"]["name"] for one in first.objects} == {BUNDLE, f"slurm-hooks-{first.active}"}


async def test_it_stays_the_same_however_often_it_is_looked_at(stage: Stage) -> None:
    first = await stage.proceed()
    assert [(await stage.proceed()).active for _ in range(3)] == [first.active] * 3
    assert await stage.pairs() == ({first.active}, {first.active})


async def test_the_operator_still_cannot_read_it(stage: Stage) -> None:
    first = await stage.proceed()
    with pytest.raises(Forbidden):
        await stage.operator.get(SECRETS, f"slurm-hooks-{first.active}", namespace=stage.kube.namespace)


async def test_a_renewal_reaches_the_pods_before_the_syncer(stage: Stage) -> None:
    first = (await stage.proceed()).active
    await stage.settle(first)
    await stage.date(first, expires=now() + RENEWED - timedelta(hours=1))
    waiting = await stage.proceed()
    assert waiting.active == first
    assert waiting.again is not None
    assert waiting.again <= REACHES_PODS.total_seconds()
    assert certificates(await stage.bundle()) == 2
    (second,) = (await stage.pairs())[0] - {first}
    await stage.settle(second)
    assert (await stage.proceed()).active == second
    assert certificates(await stage.bundle()) == 2, "the old syncer may still serve"

    await stage.date(first, expires=now() - timedelta(seconds=1))
    assert (await stage.proceed()).active == second
    assert certificates(await stage.bundle()) == 1
    await eventually(stage.pairs, lambda found: found == ({second}, {second}))


async def test_a_deleted_secret_is_replaced_by_another_and_its_ca_believed_meanwhile(stage: Stage) -> None:
    first = (await stage.proceed()).active
    await stage.settle(first)
    old = await stage.bundle()
    await stage.kube.client.delete(SECRETS, f"slurm-hooks-{first}", namespace=stage.kube.namespace)
    assert (await stage.proceed()).active == first, "syncers that run have it"
    assert old in await stage.bundle()
    assert certificates(await stage.bundle()) == 2
    (second,) = (await stage.pairs())[1]
    await stage.settle(second)
    assert (await stage.proceed()).active == second
    assert len((await stage.pairs())[1]) == 1


async def test_a_deleted_bundle_comes_back_as_it_was(stage: Stage) -> None:
    first = await stage.proceed()
    old = await stage.bundle()
    await stage.kube.client.delete(CONFIG_MAPS, BUNDLE, namespace=stage.kube.namespace)
    assert (await stage.proceed()).active == first.active
    assert await stage.bundle() == old


async def test_a_deleted_record_takes_its_secret_along_and_another_pair_is_made(stage: Stage) -> None:
    first = (await stage.proceed()).active
    await stage.kube.client.delete(CONFIG_MAPS, f"slurm-hooks-{first}", namespace=stage.kube.namespace)
    await eventually(stage.pairs, lambda found: found == (set(), set()))
    second = (await stage.proceed()).active
    assert await stage.pairs() == ({second}, {second})


async def test_an_operator_that_dies_between_the_writes_leaves_nothing_that_harms(stage: Stage) -> None:
    """After each of its writes, in turn; the next one finds what is left."""
    for number in range(1, 6):
        for pair in (await stage.pairs())[0]:
            await stage.kube.client.delete(CONFIG_MAPS, f"slurm-hooks-{pair}", namespace=stage.kube.namespace)
        with suppress(NotFound):
            await stage.kube.client.delete(CONFIG_MAPS, BUNDLE, namespace=stage.kube.namespace)
        await eventually(stage.pairs, lambda found: found == (set(), set()))
        with suppress(Dead):
            await stage.proceed(by=Dying(stage.operator, after=number))
        found = await stage.proceed()
        assert found.active
        again = await stage.proceed()
        assert again.active == found.active
        assert await stage.pairs() == ({found.active}, {found.active})
        assert certificates(await stage.bundle()) == 1


class Dead(Exception):  # noqa: N818 - it is no error
    """It has died here."""


class Dying:
    """A client whose process is killed right after some write."""

    def __init__(self, client: Client, *, after: int) -> None:
        self._client, self._left = client, after

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)
        if name not in {"create", "patch", "delete"}:
            return act

        async def then_die(*words: Any, **options: Any) -> Any:
            done = await act(*words, **options)
            self._left -= 1
            if not self._left:
                raise Dead
            return done

        return then_die


async def test_a_bundle_of_somebody_else_is_left_as_it_is(stage: Stage) -> None:
    body = {"metadata": {"name": BUNDLE}, "data": {"ca.crt": "theirs"}}
    await stage.kube.client.create(CONFIG_MAPS, body, namespace=stage.kube.namespace)
    with pytest.raises(Refusal, match=f"{BUNDLE} already exists and does not belong"):
        await stage.proceed()
    assert await stage.bundle() == "theirs"


async def test_a_record_that_somebody_has_spoiled_is_passed_over(stage: Stage) -> None:
    first = (await stage.proceed()).active
    patch = Merge({"metadata": {"annotations": {names.CERTIFICATE_EXPIRES: "soon"}}})
    await stage.kube.client.patch(CONFIG_MAPS, f"slurm-hooks-{first}", patch, namespace=stage.kube.namespace)
    second = await stage.proceed()
    assert second.active not in {"", first}
    assert f"slurm-hooks-{first}" not in {one["metadata"]["name"] for one in second.objects}, "it is pruned"


async def test_without_a_syncer_none_is_made(stage: Stage) -> None:
    stage.cluster = replace(stage.cluster, spec=SlurmClusterSpec(syncer=Syncer(enabled=False)))
    assert await stage.proceed() == NONE
    assert await stage.pairs() == (set(), set())
