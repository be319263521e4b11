"""Values without Helm: what stands above, what null takes away, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.render.values import over, over_chart, read, spec, values

CHART = Path(__file__).parents[5] / "charts" / "slurm"


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart with few values and two layers."""
    made = tmp_path / "chart"
    (made / "compute-defs").mkdir(parents=True)
    (made / "values.yaml").write_text("controller: {replicas: 1}\ncompute: {layers: {}, reservedMemory: 4Gi}\n")
    (made / "compute-defs" / "a.yaml").write_text("base: {features: [linux]}\nh100: {gresGpu: 'h100:8', skuCpu: 9}\n")
    return made


def given(folder: Path, *trees: dict[str, Any] | str) -> list[Path]:
    files = [folder / f"values-{number}.yaml" for number, _ in enumerate(trees)]
    for file, tree in zip(files, trees, strict=True):
        file.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return files


def test_maps_are_merged_and_everything_else_is_replaced() -> None:
    below = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}
    above = {"a": {"y": [3]}, "b": {"now": "a map"}, "c": "now a text"}
    expected = {"a": {"x": 1, "y": [3]}, "b": {"now": "a map"}, "c": "now a text"}
    assert over(below, above) == expected
    assert over_chart(below, above) == expected


def test_null_takes_away_what_the_chart_has_and_stays_where_it_has_nothing() -> None:
    chart = {"a": {"x": 1, "y": 2}, "b": 1}
    found = over_chart(chart, {"a": {"x": None, "new": None}, "b": None, "other": {"deep": None}})
    assert found == {"a": {"y": 2, "new": None}, "other": {"deep": None}}


def test_every_unknown_value_is_named_at_once(tmp_path: Path) -> None:
    wrong = {"controler": {}, "compute": {"nodes": {"cpu": {"definitons": []}}, "mounts": [{"mountPath": "/home"}]}}
    with pytest.raises(Refusal) as said:
        spec(CHART, given(tmp_path, wrong))
    for path in ("controler: ", "compute.nodes.cpu.definitons: ", "compute.mounts[0].mountPath: "):
        assert f"\n  {path}" in str(said.value)


def test_files_meet_each_other_before_they_meet_the_chart(chart: Path, tmp_path: Path) -> None:
    # Taken one by one, the first would leave nothing of the chart's map for the second.
    files = given(tmp_path, {"controller": None}, {"controller": {"priorityClassName": "high"}})
    assert values(chart, files)["controller"] == {"replicas": 1, "priorityClassName": "high"}


def test_nothing_is_changed_in_what_was_given() -> None:
    below: dict[str, Any] = {"a": {"x": 1}}
    above: dict[str, Any] = {"a": {"y": 2}}
    over(below, above)
    over_chart(below, above)
    assert (below, above) == ({"a": {"x": 1}}, {"a": {"y": 2}})


def test_layers_of_the_chart_are_there_and_one_of_somebodys_own_takes_the_whole_place(
    chart: Path, tmp_path: Path
) -> None:
    assert set(values(chart)["compute"]["layers"]) == {"base", "h100"}
    files = given(tmp_path, {"compute": {"layers": {"h100": {"gresGpu": "h100:4"}, "mine": {}}}})
    found = values(chart, files)["compute"]["layers"]
    assert found == {"base": {"features": ["linux"]}, "h100": {"gresGpu": "h100:4"}, "mine": {}}


def test_without_compute_there_are_still_the_layers(chart: Path, tmp_path: Path) -> None:
    assert set(values(chart, given(tmp_path, {"compute": None}))["compute"]) == {"layers"}


def test_what_a_parent_chart_shares_is_no_part_of_a_cluster(chart: Path, tmp_path: Path) -> None:
    assert "global" not in values(chart, given(tmp_path, {"global": {"x": 1}}))


def test_times_and_dates_are_texts_and_keys_too_as_for_helm(tmp_path: Path) -> None:
    (file,) = given(tmp_path, "{a: 24:00:00, b: 2026-01-02, c: 1e3, 1: {y: no}}\n")
    assert read(file) == {"a": "24:00:00", "b": "2026-01-02", "c": 1000, "1": {"true": False}}


def test_what_is_passed_on_unread_is_kept(chart: Path, tmp_path: Path) -> None:
    files = given(tmp_path, {"compute": {"volumes": [{"name": "scratch", "emptyDir": {}}]}})
    assert [bytes(one) for one in spec(chart, files).compute.volumes] == [b'{"emptyDir":{},"name":"scratch"}']


@pytest.mark.parametrize("shipped", ["values-local.yaml", "values-coreweave.yaml"])
def test_the_values_that_we_ship_make_a_cluster(shipped: str) -> None:
    assert spec(CHART, [CHART / shipped]).controller.replicas == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("contoller: {}", "contoller: no such value. Did you mean controller?"),
        ("compute: {nodes: {a: {enable: true}}}", r"compute\.nodes\.a\.enable: no such .* enabled\?"),
        ("compute: {mounts: [{name: /home, pvcs: x}]}", r"compute\.mounts\[0\]\.pvcs: .* Did you mean pvc\?"),
        ("zzz: 1", "Known: accounting, clusterDomain, compute"),
        ("controller: {replicas: many}", r"Expected `int`, got `str` - at `\$\.controller\.replicas`"),
        ("compute: many", "compute must be a map, found 'many'"),
        ("a: [", "is not YAML"),
        ("- a", "values must be a map, found list"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(chart: Path, tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Refusal, match=told):
        spec(chart, given(tmp_path, text))


def test_a_file_that_is_not_there_and_a_folder_that_is_no_chart_are_refused(chart: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"nowhere\.yaml cannot be read: No such file"):
        spec(chart, [tmp_path / "nowhere.yaml"])
    with pytest.raises(Refusal, match=r"is not a chart: it has no values\.yaml"):
        spec(tmp_path)


def test_a_layer_in_two_files_is_refused(chart: Path) -> None:
    (chart / "compute-defs" / "b.yaml").write_text("h100: {}\n")
    with pytest.raises(Refusal, match="layer h100 is also defined in another file"):
        values(chart)


DIRECTORIES = """\
directoryService:
  sudoGroups: ""
  directories:
    - {name: a, ldapUri: "ldaps://a", user: {bindDn: cn=x, password: hunter2}}
    - {name: b, enabled: null, user: null, sudoGroups: null, schema: "", defaultShell: null}
    - {name: null, user: {password: ""}, sudoGroups: ""}
"""


def test_a_password_of_a_directory_is_left_behind_and_its_secret_named(tmp_path: Path) -> None:
    found = spec(CHART, given(tmp_path, DIRECTORIES), name="night")
    first, second, third = found.directory_service.directories
    assert (first.user.password, first.user.password_secret) == (None, "night-directory-0")
    assert first.user.bind_dn == "cn=x"
    assert (third.user.password, third.user.password_secret) == (None, None)
    assert (second.enabled, second.sudo_groups, third.name) == (True, (), "default"), "null means that it is not set"
    assert (found.directory_service.sudo_groups, third.sudo_groups) == ((), ()), "and so does an empty text"
    assert "hunter2" not in repr(found)


def test_a_password_and_a_secret_with_one_exclude_each_other(tmp_path: Path) -> None:
    both = "directoryService: {directories: [{user: {password: hunter2, passwordSecret: mine}}]}"
    with pytest.raises(
        Refusal, match=r"^directoryService\.directories\[0\]\.user: password and passwordSecret"
    ) as told:
        spec(CHART, given(tmp_path, both))
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "directoryService:\n  directories:\n    - user: {password: @hunter2}\n",
        "directoryService: {directories: [{user: {password: 'hunter2'",
        "directoryService: {directories: [{user: {password: {hunter2: 1}}}]}",
        "directoryService: {directories: [{user: {password: [hunter2], bindDn: 1}}]}",
        "directoryService: {directories: {user: {password: hunter2}}}",
        "directoryService: hunter2",
    ],
)
def test_no_complaint_quotes_a_password(tmp_path: Path, text: str) -> None:
    try:
        found = repr(spec(CHART, given(tmp_path, text)))
    except Refusal as told:
        found = str(told)
    assert "hunter2" not in found
