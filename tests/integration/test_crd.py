"""What a real API server makes of the definitions that are written from our structs."""

import asyncio
import secrets
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec import Struct, json
from tests.conftest import Kube
from tests.unit.model.schema.fuzz import specs
from tests.unit.model.schema.samples import GANG, Colour, GangSpec, GangStatus, Member, Range

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Apply, Merge
from sunk.kube.core import Condition, condition
from sunk.kube.custom import Custom, resource
from sunk.kube.errors import ApiError, Invalid, NotFound, TooManyRequests
from sunk.kube.resource import Record, Resource
from sunk.local.kubernetes import assets
from sunk.model.generate import crd_yaml
from sunk.model.schema.crd import definition
from sunk.model.schema.kind import Kind, NoStatus, Version


class DefinitionStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] | None = None


class Definition(Record, frozen=True, gc=False):
    status: DefinitionStatus = DefinitionStatus()


DEFINITIONS: Final = Resource(
    Definition, version="v1", plural="customresourcedefinitions", group="apiextensions.k8s.io", namespaced=False
)
GANGS: Final = resource(GANG)
DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
STRICT: Final = {"fieldValidation": "Strict"}


async def _install(client: Client, kind: Kind[Any, Any]) -> None:
    """Create the definition if it is not there, and wait until objects of the kind can be written."""
    made = definition(kind)
    await client.patch(DEFINITIONS, made["metadata"]["name"], Apply(made, manager="test", force=True))
    for _ in range(1200):
        if await _served(client, kind) and await _discovered(client, kind):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{kind.plural} were accepted, and not served within 60 s")


async def _served(client: Client, kind: Kind[Any, Any]) -> bool:
    found = await client.get(DEFINITIONS, f"{kind.plural}.{kind.group}")
    said = condition(found.status.conditions or (), "Established")
    try:
        await client.request("GET", f"/apis/{kind.api_version}/{kind.plural}")
    except (NotFound, TooManyRequests):  # accepted, and its storage still being set up
        return False
    return said is not None and said.status == "True"


async def _discovered(client: Client, kind: Kind[Any, Any]) -> bool:
    """Whether kubectl would know its names, which come a moment after the kind itself."""
    read = json.decode(await client.read("/apis", accept=DISCOVERY))
    groups = {one["metadata"]["name"]: one["versions"] for one in read["items"]}
    found = (each["resource"] for version in groups.get(kind.group, ()) for each in version.get("resources", ()))
    return kind.plural in found


def _gang(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": GANG.api_version, "kind": GANG.name, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def gangs(kube: Kube) -> Kube:
    await _install(kube.client, GANG)
    return kube


async def _create(
    kube: Kube, body: Mapping[str, Any], *, query: Mapping[str, str] = STRICT
) -> Custom[GangSpec, GangStatus]:
    reply = await kube.client.request("POST", GANGS.path(kube.namespace), query=query, body=body)
    return kube.client.decode(GANGS, reply)


async def test_the_api_server_finds_no_fault_with_the_schema(gangs: Kube) -> None:
    found = await gangs.client.get(DEFINITIONS, "gangs.test.sunk.coreweave.com")
    unstructural = condition(found.status.conditions or (), "NonStructuralSchema")
    assert unstructural is None


async def test_the_yaml_is_read_by_kubectl_as_we_mean_it(kube: Kube) -> None:
    kind = msgspec.structs.replace(GANG, name="Troop", plural="troops", short_names=(), categories=())
    _kubectl(kube, "apply", "--filename=-", stdin=crd_yaml(kind))
    stored = json.decode(await kube.client.request("GET", DEFINITIONS.path(name="troops.test.sunk.coreweave.com")))
    wanted = definition(kind)["spec"]["versions"][0]["schema"]
    assert stored["spec"]["versions"][0]["schema"] == wanted


async def test_an_object_that_says_nothing_gets_our_defaults(gangs: Kube) -> None:
    made = await _create(gangs, {**_gang(), "spec": {}})
    unsaid = {name: value for name, value in _gang("b").items() if name != "spec"}
    assert _comparable(made.spec) == _comparable((await _create(gangs, unsaid)).spec) == _comparable(GangSpec())


async def test_defaults_reach_into_what_was_only_begun(gangs: Kube) -> None:
    made = await _create(gangs, _gang(members=[{"name": "m"}], span={}))
    assert made.spec.members == (Member(name="m", weight=1.5, span=Range(least=1, most=5)),)
    assert made.spec.span == Range()


async def test_what_we_write_whole_is_what_we_read(gangs: Kube) -> None:
    spec = GangSpec(colour=Colour.BLUE, priority=None, members=(Member(name="m"),), settings={"a": [None]})
    made = await _create(gangs, {**_gang(), "spec": spec})
    assert _comparable(made.spec) == _comparable(spec)


async def test_a_template_passes_through_untouched(gangs: Kube) -> None:
    template = {"spec": {"containers": [{"name": "x", "noSuchField": None}], "anything": {"1": []}}}
    made = await _create(gangs, _gang(template=template))
    assert json.decode(made.spec.template) == template


REFUSED: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "no such choice": ({"colour": "green"}, "spec.colour", 'supported values: "red", "blue"'),
    "out of bounds": ({"replicas": 1001}, "spec.replicas", "less than or equal to 1000"),
    "a rule, inside a list": (
        {"members": [{"name": "m", "span": {"least": 10}}]},
        "spec.members[0].span.least",
        "least 10 exceeds most 9",
    ),
    "a pattern, with a newline at the end": ({"linger": "30s\n"}, "spec.linger", "should match"),
    "a format": ({"address": "1.2.3"}, "spec.address", "ipv4"),
    "neither number nor text": ({"maxUnavailable": True}, "spec.maxUnavailable", "integer,string"),
    "no quantity": ({"memory": "lots"}, "spec.memory", "should match"),
    "something required": ({"members": [{}]}, "spec.members[0].name", "Required"),
    "a key twice": ({"members": [{"name": "m"}, {"name": "m"}]}, "spec.members[1]", "Duplicate"),
    "an item twice": ({"tags": ["a", "a"]}, "spec.tags[1]", "Duplicate"),
    "an embedded object without a kind": ({"embedded": {"apiVersion": "v1"}}, "spec.embedded.kind", "Required"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_value_that_does_not_fit_is_refused_with_its_path(gangs: Kube, what: str) -> None:
    spec, path, said = REFUSED[what]
    with pytest.raises(Invalid) as refused:
        await _create(gangs, _gang(**spec))
    assert (path, True) in {(cause.field, said in cause.message) for cause in refused.value.causes}


async def test_a_rule_about_the_whole_object_reads_its_name(gangs: Kube) -> None:
    with pytest.raises(Invalid, match="20 letters or fewer"):
        await _create(gangs, _gang("a" * 21))


async def test_a_rule_about_change_holds_the_old_value_against_the_new(gangs: Kube) -> None:
    await _create(gangs, _gang(queue="one"))
    with pytest.raises(Invalid, match=r"spec\.queue.*a gang keeps its queue"):
        await gangs.client.patch(GANGS, "a", Merge({"spec": {"queue": "two"}}), namespace=gangs.namespace)


class TestTypos:
    """An unknown field is no business of the schema: what happens depends on who asks, and how."""

    async def test_our_creates_are_refused_with_the_path(self, gangs: Kube) -> None:
        body = _gang(members=[{"name": "m"}, {"name": "n", "span": {"lest": 1}}])
        with pytest.raises(ApiError, match=r'unknown field "spec\.members\[1\]\.span\.lest"') as refused:
            await gangs.client.create(GANGS, body, namespace=gangs.namespace)
        assert refused.value.status == 400

    async def test_our_patches_are_refused_with_the_path(self, gangs: Kube) -> None:
        await _create(gangs, _gang())
        with pytest.raises(Invalid, match=r'unknown field \\?"spec\.replcas'):
            await gangs.client.patch(GANGS, "a", Merge({"spec": {"replcas": 3}}), namespace=gangs.namespace)

    async def test_other_requests_lose_the_field_without_a_word_in_the_answer(self, gangs: Kube) -> None:
        made = await _create(gangs, _gang(replcas=3), query={})
        assert made.spec.replicas == 1
        assert b"replcas" not in await gangs.client.request("GET", GANGS.path(gangs.namespace, "a"))

    async def test_server_side_apply_refuses_what_the_server_calls_an_error_of_its_own(self, gangs: Kube) -> None:
        apply = Apply(_gang(replcas=3), manager="test")
        with pytest.raises(Invalid, match=r"\.spec\.replcas: field not declared in schema"):
            await gangs.client.patch(GANGS, "a", apply, namespace=gangs.namespace)

    async def test_kubectl_refuses_by_itself(self, gangs: Kube) -> None:
        body = json.encode(_gang(replcas=3)).decode()
        done = _kubectl(gangs, "create", "--filename=-", stdin=body, check=False)
        assert 'unknown field "spec.replcas"' in done.stderr
        assert done.returncode == 1


def _kubectl(kube: Kube, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    program = assets.fill(images=False).parts.kubectl
    where = ("--kubeconfig", str(kube.kubeconfig), "--namespace", kube.namespace)
    done = subprocess.run(
        [program, *where, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


async def test_columns_show_what_they_point_at(gangs: Kube) -> None:
    await _create(gangs, _gang(replicas=3, queue="fast"))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await gangs.client.patch(GANGS, "a", Merge(ready), namespace=gangs.namespace, subresource="status")
    header, row = _kubectl(gangs, "get", "gg", "--output=wide").stdout.splitlines()
    assert header.split() == ["NAME", "REPLICAS", "READY", "QUEUE", "AGE"]
    assert row.split()[:4] == ["a", "3", "True", "fast"]
    narrow = _kubectl(gangs, "get", "tests").stdout.splitlines()[0]
    assert narrow.split() == ["NAME", "REPLICAS", "READY", "AGE"]


async def test_descriptions_are_there_to_be_explained(gangs: Kube) -> None:
    words = ("explain", "gangs.spec.replicas")
    async with asyncio.timeout(120):  # of all that is said of a kind this is known last
        while "How many. Written over two lines." not in _kubectl(gangs, *words, check=False).stdout:
            await asyncio.sleep(0.5)


async def test_the_scale_subresource_sets_replicas_within_their_bounds(gangs: Kube) -> None:
    await _create(gangs, _gang())
    await gangs.client.patch(
        GANGS,
        "a",
        Merge({"status": {"replicas": 2, "selector": "x=y"}}),
        namespace=gangs.namespace,
        subresource="status",
    )
    _kubectl(gangs, "scale", "gang/a", "--replicas=4")
    scale = json.decode(await gangs.client.request("GET", GANGS.path(gangs.namespace, "a", subresource="scale")))
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 2, "selector": "x=y"})
    assert (await gangs.client.get(GANGS, "a", namespace=gangs.namespace)).spec.replicas == 4
    assert "1000" in _kubectl(gangs, "scale", "gang/a", "--replicas=1001", check=False).stderr


async def test_spec_and_status_are_written_apart(gangs: Kube) -> None:
    made = await _create(gangs, {**_gang(), "status": {"replicas": 9}})
    assert made.status == GangStatus()
    both = Merge({"spec": {"replicas": 7}, "status": {"replicas": 8}})
    by_status = await gangs.client.patch(GANGS, "a", both, namespace=gangs.namespace, subresource="status")
    assert (by_status.spec.replicas, by_status.status.replicas) == (1, 8)
    by_spec = await gangs.client.patch(
        GANGS, "a", Merge({"spec": {"replicas": 7}, "status": {"replicas": 6}}), namespace=gangs.namespace
    )
    assert (by_spec.spec.replicas, by_spec.status.replicas) == (7, 8)
    assert by_spec.metadata.generation == by_status.metadata.generation + 1


def _comparable(value: Any) -> Any:
    """JSON without null for what is absent: Raw has no equality by meaning."""
    found = json.decode(json.encode(value, order="deterministic"))
    return {name: one for name, one in found.items() if one is not None or name == "priority"}


@settings(
    deadline=None,
    max_examples=4,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=specs(size=12, tries=6))
async def test_the_api_server_takes_what_our_structs_take(kube: Kube, case: tuple[type[Struct], list[Any]]) -> None:
    spec, values = case
    kind = Kind(
        "Random",
        # A definition that is replaced is served by its old schema for a moment, so each has a group of its own.
        group=f"{secrets.token_hex(4)}.test.sunk.coreweave.com",
        plural="randoms",
        description="A kind by chance.",
        stored=Version("v1", spec=spec, status=NoStatus),
    )
    await _install(kube.client, kind)
    for value in values:
        await _agrees(kube, value, kind=kind)


async def _agrees(kube: Kube, value: Any, *, kind: Kind[Any, Any]) -> None:
    """Both refuse the value, or both take it and fill it in alike."""
    ours, theirs = _read(value, kind.stored.spec), await _written(kube, value, kind=kind)
    if ours is None or theirs is None:
        assert (ours, theirs) == (None, None), value
        return
    assert _read(theirs, kind.stored.spec) == ours, value


def _read(value: Any, spec: type[Struct]) -> Struct | None:
    try:
        return msgspec.convert(value, type=spec)
    except msgspec.ValidationError:
        return None


async def _written(kube: Kube, value: Any, *, kind: Kind[Any, Any]) -> Any:
    path = f"/apis/{kind.api_version}/namespaces/{kube.namespace}/{kind.plural}"
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a"}, "spec": value}
    try:
        reply = await kube.client.request("POST", path, query={**STRICT, "dryRun": "All"}, body=body)
    except ApiError as refused:
        if refused.status not in {400, 422}:
            raise
        return None
    return json.decode(reply)["spec"]
