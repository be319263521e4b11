"""`sunk render` as a person runs it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sunk.cli import main

CHART = Path(__file__).parents[5] / "charts" / "slurm"
LOCAL = CHART / "values-local.yaml"


def render(*arguments: str | Path, values: dict[str, Any] | None = None, folder: Path | None = None) -> Result:
    more: tuple[str, ...] = ()
    if values is not None:
        assert folder is not None
        file = folder / "my-values.yaml"
        file.write_text(yaml.safe_dump(values))
        more = ("-f", str(file))
    return CliRunner().invoke(main, ["render", str(CHART), *map(str, arguments), *more])


def test_everything_that_would_be_built_is_shown_as_objects() -> None:
    done = render("-f", LOCAL, "--name", "night", "-n", "team")
    assert done.exit_code == 0
    found = [*yaml.safe_load_all(done.output)]
    assert {(one["kind"], one["metadata"]["name"]) for one in found} >= {
        ("ConfigMap", "night-slurm-conf"),
        ("Deployment", "night-controller"),
        ("StatefulSet", "night-login"),
        ("NodeSet", "night-cpu"),
    }
    assert {one["metadata"]["namespace"] for one in found} == {"team"}
    assert not [one for one in found if one["kind"] == "Secret"]


def test_what_is_shown_is_the_same_every_time() -> None:
    assert render("-f", LOCAL).output == render("-f", LOCAL).output


def test_the_configuration_is_shown_file_by_file() -> None:
    out = render("-f", LOCAL, "--configuration").output
    assert out.startswith("# slurm.conf\nClusterName=slurm\n")
    assert "\n# gres.conf\n" in out
    assert "\n# cgroup.conf\n" in out


def test_definitions_show_values_and_their_layers(tmp_path: Path) -> None:
    node = {"enabled": True, "definitions": ["h100", "las1", "lga1"], "replicas": 2}
    out = render("--definitions", values={"compute": {"nodes": {"gpu": node}}}, folder=tmp_path).output
    assert out.startswith("gpu: base (shipped) → h100 (shipped) → las1 (shipped) → lga1 (shipped) → gpu\n")
    rows = [line.split(maxsplit=1) for line in out.splitlines()[1:]]
    told = {(name, " ".join(rest.split())) for name, rest in rows}
    assert ("affinity", "topology.kubernetes.io/region In [LGA1] lga1 (shipped)") in told
    assert ("gresGpu", "h100:8 h100 (shipped)") in told
    assert ("replicas", "2 gpu") in told
    assert ("enabled", "true gpu") in told
    assert "nodeSelectorTerms" not in out
    assert max(map(len, out.splitlines())) < 140


def test_alternatives_of_node_affinity_are_numbered(tmp_path: Path) -> None:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    node = {"enabled": True, "affinity": {"nodeAffinity": required}}
    out = render("--definitions", values={"compute": {"nodes": {"gpu": node}}}, folder=tmp_path).output
    assert "affinity, term 1 of 2  a Exists" in out
    assert "affinity, term 2 of 2  b Exists" in out


def test_a_long_value_does_not_push_its_layer_out_of_sight(tmp_path: Path) -> None:
    node = {"enabled": True, "env": [{"name": "LONG", "value": "x" * 500}]}
    out = render("--definitions", values={"compute": {"nodes": {"gpu": node}}}, folder=tmp_path).output
    (line,) = [each for each in out.splitlines() if "env[0].value" in each]
    assert line.endswith("x…  gpu")
    assert len(line) < 140


def test_only_enabled_definitions_are_shown_unless_all_are_asked_for() -> None:
    some, everything = (render("-f", LOCAL, "--definitions", *more).output for more in ((), ("--all",)))
    assert [line.split(":")[0] for line in some.splitlines() if line[0] != " "] == ["cpu"]
    assert "\nfaked-gpu, not enabled: base (shipped)" in everything


def test_where_none_is_enabled_it_is_said_what_there_is() -> None:
    out = render("--definitions").output
    assert out.startswith("No definition is enabled. Defined: cpu-epyc, ")
    assert "--all shows them" in out


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"compute": {"nodes": {"a": {"enabled": True, "definitions": ["h10"]}}}}, "no layer h10"),
        ({"compute": {"nodes": {"a": {"enabled": True, "naming": "odd"}}}}, "naming"),
        ({"slurmConfig": {"extraConfig": "Include /etc/passwd"}}, "Include"),
        ({"slurmConfig": {"slurmctld": {}}}, "Did you mean slurmCtld?"),
        ({"controller": {"replicas": 2}}, "controller.replicas is 2: it must be 0 or 1"),
    ],
)
def test_what_would_be_refused_in_a_cluster_is_refused_here(values: dict[str, Any], told: str, tmp_path: Path) -> None:
    done = render(values=values, folder=tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("sunk: ")
    assert told in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--all",), "--all requires --definitions"), (("--definitions", "--configuration"), "choose one")],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], told: str) -> None:
    done = render(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_chart_that_is_none_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["render", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not a chart" in done.stderr


def test_a_password_of_a_directory_is_never_shown(tmp_path: Path) -> None:
    user = {"bindDn": "cn=x", "password": "hunter2"}
    values = {"directoryService": {"directories": [{"ldapUri": "ldaps://a", "user": user}]}}
    for options in ((), ("--configuration",), ("--definitions", "--all")):
        done = render(*options, values=values, folder=tmp_path)
        assert done.exit_code == 0
        assert "hunter2" not in done.output
    found = [*yaml.safe_load_all(render(values=values, folder=tmp_path).output)]
    (agent,) = [one for one in found if (one["kind"], one["metadata"]["name"]) == ("Deployment", "slurm-directory")]
    named = [one["secret"]["secretName"] for one in agent["spec"]["template"]["spec"]["volumes"] if "secret" in one]
    assert named == ["slurm-directory-0"]
