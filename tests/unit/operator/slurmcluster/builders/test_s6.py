"""Scripts of s6: their files, and what is refused before a Pod has to."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.unit.operator.slurmcluster.clusters import built, cluster

from sunk.model.cluster.parts import S6Service
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import s6
from sunk.operator.slurmcluster.objects import objects

SERVICES = Path(__file__).parents[5] / "images" / "slurm" / "services"
NAMES = ("a", "b", "c", "d")


def scripts(**needs: tuple[str, ...]) -> dict[str, S6Service]:
    return {name: S6Service(type="oneshot", script="true", dependencies=found) for name, found in needs.items()}


def said(found: dict[str, S6Service]) -> str:
    with pytest.raises(Refusal) as refused:
        s6.check(found, at="compute.s6")
    return str(refused.value)


def test_dependencies_are_a_file_with_a_name_a_line() -> None:
    rows = {path: text for _, path, text in s6.files(scripts(a=("b", "c"), b=(), c=()))}
    assert rows["a/dependencies"] == "b\nc\n"
    assert "b/dependencies" not in rows
    assert rows["b/type"] == "oneshot"


def test_an_empty_script_is_a_file_too() -> None:
    rows = {path: text for _, path, text in s6.files({"a": S6Service(type="oneshot", script="")})}
    assert rows == {"a/type": "oneshot", "a/script": ""}


def test_a_script_that_is_not_there_cannot_be_needed() -> None:
    assert said(scripts(a=("b",), c=())) == (
        "compute.s6.a.dependencies[0]: compute.s6 has no script b. There is c. "
        "Daemons start after all scripts by themselves."
    )
    assert "There is no other." in said(scripts(a=("slurmd",)))


@pytest.mark.parametrize(
    ("needs", "circle"),
    [
        ({"a": ("a",)}, "a needs a"),
        ({"a": ("b",), "b": ("a",)}, "a needs b needs a"),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, "b needs c needs b"),
        ({"z": (), "a": ("z", "b"), "b": ("a",)}, "a needs b needs a"),
    ],
)
def test_a_circle_is_refused_with_its_names(needs: dict[str, tuple[str, ...]], circle: str) -> None:
    assert said(scripts(**needs)) == (
        f"compute.s6.{circle[0]}.dependencies go round in a circle: {circle}. Remove one of them."
    )


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)), min_size=len(NAMES)))
def test_exactly_what_has_no_order_is_refused(needs: dict[str, set[str]]) -> None:
    left = dict(needs)
    while startable := {name for name, found in left.items() if not found & set(left)}:
        left = {name: found for name, found in left.items() if name not in startable}
    found = scripts(**{name: tuple(sorted(each)) for name, each in needs.items()})
    if left:
        assert "go round in a circle" in said(found)
    else:
        s6.check(found, at="compute.s6")


def test_the_names_of_daemons_are_taken() -> None:
    known = {path.name for path in SERVICES.iterdir()} - {"sssd"}
    for name in known:
        told = said({name: S6Service(type="longrun", script="x")})
        assert told == f"compute.s6.{name}: the image has a service of this name. Choose another."


def test_a_name_may_begin_with_the_number_by_which_it_is_ordered() -> None:
    s6.check({name: S6Service(type="oneshot", script="x") for name in ("10-mount", "20-fill", "0")}, at="compute.s6")


def test_the_names_of_our_own_scripts_are_taken() -> None:
    told = said({"0-sunk-environment": S6Service(type="oneshot", script="x")})
    assert told == "compute.s6.0-sunk-environment: names that begin with 0-sunk are SUNK's own. Choose another."


@pytest.mark.parametrize("name", ["Upper", "a_b", "../x", "-a", "a.b"])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    assert said({name: S6Service(type="oneshot", script="x")}).startswith(f"compute.s6.{name}: names of scripts")


@pytest.mark.parametrize("part", ["compute", "login"])
def test_both_kinds_of_pods_are_checked(part: str) -> None:
    wrong = {part: {"s6": {"a": {"type": "oneshot", "script": "x", "dependencies": ["b"]}}}}
    with pytest.raises(Refusal, match=rf"^{part}\.s6\.a\.dependencies\[0\]"):
        objects(cluster(wrong))


def test_login_pods_have_their_own_scripts() -> None:
    def template(values: dict[str, Any]) -> Any:
        return built(cluster({"login": values}), "StatefulSet", "slurm-login")["spec"]["template"]

    with_scripts = {"s6": {"a": {"type": "longrun", "script": "x"}}}
    other = {"s6": {"a": {"type": "longrun", "script": "y"}}}
    assert "s6" not in msgspec.json.encode(template({})).decode()
    (volume,) = [one for one in template(with_scripts)["spec"]["volumes"] if one["name"] == "s6"]
    assert volume["configMap"]["name"] == "slurm-login-s6"
    assert {"key": "a.script", "path": "a/script"} in volume["configMap"]["items"]
    mounts = {one["name"]: one["mountPath"] for one in template(with_scripts)["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["s6"] == "/etc/sunk/s6"
    assert template(with_scripts)["metadata"] != template(other)["metadata"], "Pods are replaced"
    data = built(cluster({"login": with_scripts}), "ConfigMap", "slurm-login-s6")["data"]
    assert data == {"a.type": "longrun", "a.script": "x"}
