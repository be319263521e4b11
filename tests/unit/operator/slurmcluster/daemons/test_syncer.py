"""The syncer's Pod and account, and the budget that goes with them."""

import re
from inspect import signature

import pytest
import yaml
from msgspec.structs import replace
from tests.helm import CHART
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, pod

from sunk.model import names
from sunk.model.cluster.daemons import SyncerSettings
from sunk.operator.slurmcluster.daemons import directory
from sunk.operator.slurmcluster.daemons.syncer import arguments, rules, variables
from sunk.operator.slurmcluster.objects import NEVER_MET
from sunk.syncer.commands import HookOptions, syncer as command
from sunk.syncer.hooks.api import HookSettings
from sunk.syncer.hooks.reboot import RebootSettings

SYNCER = ("Deployment", "slurm-syncer")


def test_it_runs_as_slurm_user_and_only_sackd_sees_the_key() -> None:
    made = cluster()
    whole = pod(made, *SYNCER)
    assert whole["securityContext"]["runAsUser"] == 64030
    _, sackd = whole["initContainers"]
    assert sackd["restartPolicy"] == "Always"
    mounts = {one["name"]: {each["name"] for each in one["volumeMounts"]} for one in (*whole["containers"], sackd)}
    assert mounts == {"syncer": {"run", "token", "hooks-tls"}, "sackd": {"run", "keys"}}
    assert whole["automountServiceAccountToken"] is False
    assert container(made, *SYNCER)["image"] == "localhost/sunk:24.11"


def test_it_serves_the_hook_api_with_the_certificate_in_force() -> None:
    made = replace(cluster(), certificate="0a1b2c3d")
    first = container(made, *SYNCER)
    assert {"name": "hooks", "containerPort": 8443} in first["ports"]
    assert {"name": "hooks", "port": 8443, "targetPort": 8443} in built(made, "Service", "slurm-syncer")["spec"][
        "ports"
    ]
    (volume,) = [one for one in pod(made, *SYNCER)["volumes"] if one["name"] == "hooks-tls"]
    assert volume["secret"] == {"secretName": "slurm-hooks-0a1b2c3d", "defaultMode": 0o440}
    (mount,) = [one for one in first["volumeMounts"] if one["name"] == "hooks-tls"]
    assert mount == {"name": "hooks-tls", "mountPath": "/run/sunk/hooks-tls", "readOnly": True}


def test_it_is_told_of_the_hook_api_by_variables_so_that_an_older_one_starts_too() -> None:
    wanted = {
        "hooksAPI": {"timeout": 90, "nodeRebootCondition": "Boot", "nodeRebootReason": "again"},
        "nodePermissions": {"enabled": True},
    }
    told = variables(cluster({"syncer": wanted}))
    assert {key: told[key] for key in told if "HOOKS" in key or "NODE_REBOOT" in key or "PERMISSIONS" in key} == {
        "SUNK_HOOKS_PORT": "8443",
        "SUNK_HOOKS_TIMEOUT": "90",
        "SUNK_NODE_REBOOT_CONDITION": "Boot",
        "SUNK_NODE_REBOOT_REASON": "again",
        "SUNK_NODE_PERMISSIONS": "true",
    }
    assert not any("hooks" in argument for argument in arguments(cluster()))


def test_what_it_is_told_of_the_hook_api_reaches_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"hooksAPI": {"timeout": 90, "nodeRebootReason": "again"}, "nodePermissions": {"enabled": True}}
    bare = command.make_context("syncer", ["--cluster=slurm"]).params
    assert bare["hooks_port"] == 0, "outside of Pods nothing is served unless it is asked for"
    for name, value in variables(cluster({"syncer": wanted})).items():
        monkeypatch.setenv(name, value)
    read = command.make_context("syncer", arguments(cluster())).params
    settings = HookOptions(**{name: read[name] for name in signature(HookOptions).parameters}).settings()
    assert settings == HookSettings(
        port=8443, timeout=90.0, reboot=RebootSettings(allowed=True, condition="PhaseState", reason="again")
    )


def test_another_slurm_user_is_followed() -> None:
    made = cluster({"controller": {"securityContext": {"runAsUser": 5000, "runAsGroup": 5000}}})
    assert pod(made, *SYNCER)["securityContext"]["runAsUser"] == 5000


def test_every_manner_can_be_set_and_reaches_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "notReadyAfter": 1,
        "waveShare": 0.5,
        "waveDelay": 2,
        "clockSkew": 3,
        "calm": 4,
        "gather": 0.25,
        "restartUnknownAfter": 6,
        "forgetAfter": 7,
        "slurmNodeCleanUp": False,
    }
    made = cluster({"syncer": {"config": {"syncer": given}}})
    for name, value in variables(made).items():
        monkeypatch.setenv(name, value)
    read = command.make_context("syncer", arguments(made), resilient_parsing=False).params
    settings = SyncerSettings(**{name: read[name] for name in signature(SyncerSettings).parameters})
    assert settings == SyncerSettings(
        slurm_node_clean_up=False,
        not_ready_after=1,
        wave_share=0.5,
        wave_delay=2,
        clock_skew=3,
        calm=4,
        gather=0.25,
        restart_unknown_after=6,
        forget_after=7,
    )


def test_values_and_command_line_have_the_same_defaults() -> None:
    read = command.make_context("syncer", arguments(cluster())).params
    bare = command.make_context("syncer", ["--cluster=slurm"]).params
    named = signature(SyncerSettings).parameters
    assert {name: read[name] for name in named} == {name: bare[name] for name in named}
    assert SyncerSettings(**{name: read[name] for name in named}) == SyncerSettings()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--skew=9", "--no-clean-up"), (9.0, False)),
        (("--clock-skew=8", "--slurm-node-clean-up"), (8.0, True)),
    ],
)
def test_an_operator_of_an_earlier_release_is_understood(words: tuple[str, ...], expected: tuple[float, bool]) -> None:
    read = command.make_context("syncer", ["--cluster=slurm", *words]).params
    assert (read["clock_skew"], read["slurm_node_clean_up"]) == expected


def granted() -> list[dict[str, list[str]]]:
    """What the chart lets the operator do where Slurm clusters are."""
    text = (CHART / "templates" / "_names.tpl").read_text()
    body = text.split('define "sunk.rules" -}}')[1].split("{{- end }}")[0]
    lines = [line for line in body.splitlines() if not line.startswith("{{")]
    everywhere = (CHART / "templates" / "rbac.yaml").read_text()
    pods = re.search(r"resources: \[pods\]\n\s+verbs: \[(.*)\]", everywhere)
    assert pods
    events = [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]
    read = [{"apiGroups": [""], "resources": ["pods"], "verbs": pods[1].split(", ")}]
    return [*yaml.safe_load("\n".join(lines)), *events, *read]


@pytest.mark.parametrize(
    "rule", [*rules(cluster()), *directory.rules(cluster())], ids=lambda rule: "-".join(rule["resources"])
)
def test_the_operator_holds_what_it_grants(rule: dict[str, list[str]]) -> None:
    """Kubernetes refuses a Role with more rights than its author has."""
    for resource in rule["resources"]:
        held = {
            verb
            for one in granted()
            if one["apiGroups"] == rule["apiGroups"] and resource in one["resources"]
            for verb in one["verbs"]
        }
        assert set(rule["verbs"]) <= held, resource


def test_its_rights_name_what_they_are_for() -> None:
    maps = {"slurm-slurm-conf", "slurm-directory", "slurm-users", "slurm-user-accounts"}
    by_name = {"slurmclusters": {"slurm"}, "configmaps": maps}
    for resource, wanted in by_name.items():
        found = [rule for rule in rules(cluster()) if resource in rule["resources"]]
        assert {name for rule in found for name in rule["resourceNames"]} == wanted
        # A list or watch can be granted by name for one object at a time only.
        assert all(len(rule["resourceNames"]) == 1 for rule in found)
    assert not any("nodes" in rule["resources"] or "secrets" in rule["resources"] for rule in rules(cluster()))


def test_of_configmaps_it_writes_only_its_note_about_accounts() -> None:
    written = [rule for rule in rules(cluster()) if "configmaps" in rule["resources"] and "patch" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in written] == [["slurm-user-accounts"]]
    assert "data" not in built(cluster(), "ConfigMap", "slurm-user-accounts"), "what is not applied is not overwritten"


def test_it_reads_users_where_the_values_say_they_are() -> None:
    made = cluster({"users": {"configMap": "people"}})
    assert variables(made)["SUNK_USERS_CONFIG_MAP"] == "people"
    assert ["people"] in [rule.get("resourceNames") for rule in rules(made)]
    assert variables(cluster())["SUNK_USERS_CONFIG_MAP"] == "slurm-users"
    read = command.make_context("syncer", ["--cluster=slurm"]).params
    assert read["users_config_map"] == ""


def test_the_budget_spans_compute_pods_that_are_not_known_to_be_idle() -> None:
    spec = built(cluster(), "PodDisruptionBudget", "slurm-compute")["spec"]
    assert spec["minAvailable"] == NEVER_MET
    assert spec["selector"]["matchLabels"] == {names.CLUSTER: "slurm", names.COMPONENT: "compute"}
    assert spec["selector"]["matchExpressions"] == [{"key": names.EVICTABLE, "operator": "NotIn", "values": ["true"]}]
