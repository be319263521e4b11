"""Logins to compute nodes (`compute.ssh`): what their Pods and slurm.conf have for it."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, pod, settings

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.compute import scripts
from sunk.operator.slurmcluster.slurmconf.conf import slurm_conf

NODES = ("NodeSet", "slurm-cpu")


def values(*, ssh: bool = True, extra: str = "", node: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    nodes = {"cpu": {"enabled": True} | (node or {})}
    return {"compute": {"ssh": {"enabled": ssh}, "nodes": nodes}, "slurmConfig": {"extraConfig": extra}} | more


def test_sshd_runs_beside_slurmd() -> None:
    first = container(cluster(values()), *NODES)
    assert first["args"][:3] == ["slurmd", "sshd", "--"]
    assert {"name": "ssh", "containerPort": 22} in first["ports"]
    without = container(cluster(values(ssh=False)), *NODES)
    assert without["args"][:2] == ["slurmd", "--"]
    assert len(without["ports"]) == 1


def test_nodes_have_keys_of_their_own_and_know_each_other() -> None:
    made = cluster(values())
    found = {one["name"]: one for one in pod(made, *NODES)["volumes"]}
    assert found["host-keys"]["secret"] == {"secretName": "slurm-ssh-node-keys", "defaultMode": 0o400}
    assert all(one["key"].endswith(".pub") for one in found["node-keys"]["secret"]["items"])
    places = {one["mountPath"] for one in container(made, *NODES)["volumeMounts"]}
    assert {"/etc/ssh/host-keys", "/etc/ssh/node-keys", "/etc/sunk/logins"} <= places


def test_nobody_has_a_password_there() -> None:
    (logins,) = [one for one in pod(cluster(values()), *NODES)["volumes"] if one["name"] == "logins"]
    assert "passwords" not in str(logins)


def test_a_node_without_sshd_has_none_of_it() -> None:
    assert not {"logins", "host-keys", "node-keys"} & {
        one["name"] for one in pod(cluster(values(ssh=False)), *NODES)["volumes"]
    }
    assert "sessions" not in scripts.around_jobs(cluster(values(ssh=False)))["epilog"]


def test_sshd_may_lock_itself_in_and_say_who_comes() -> None:
    """CRI-O gives containers neither of the two."""
    added = container(cluster(values()), *NODES)["securityContext"]["capabilities"]["add"]
    assert {"SYS_CHROOT", "AUDIT_WRITE"} <= set(added)
    assert "AUDIT_WRITE" not in str(container(cluster(values(ssh=False)), *NODES))
    with pytest.raises(Refusal, match=r"securityContext drops SYS_CHROOT, but compute\.ssh needs it"):
        pod(cluster(values(node={"securityContext": {"capabilities": {"drop": ["SYS_CHROOT"]}}})), *NODES)


def test_each_job_has_a_step_from_its_start_to_its_end() -> None:
    assert settings(slurm_conf(cluster(values())))["PrologFlags"] == "Alloc,DeferBatch,Contain"
    assert settings(slurm_conf(cluster(values(ssh=False))))["PrologFlags"] == "Alloc,DeferBatch"


@pytest.mark.parametrize(
    ("extra", "flags"),
    [
        ("PrologFlags=Alloc,DeferBatch,ForceRequeueOnFail", "Contain,Alloc,DeferBatch,ForceRequeueOnFail"),
        ("prologflags = deferbatch,contain", "deferbatch,contain"),
        ("PrologFlags=X11,DeferBatch", "Contain,X11,DeferBatch"),
    ],
)
def test_flags_of_people_stand_beside_it(extra: str, flags: str) -> None:
    text = slurm_conf(cluster(values(extra=extra)))
    (line,) = [line for line in text.splitlines() if line.lower().startswith("prologflags")]
    assert line.partition("=")[2].strip() == flags


def test_without_ssh_flags_of_people_are_left_as_they_are() -> None:
    text = slurm_conf(cluster(values(ssh=False, extra="PrologFlags=X11", syncer={"enabled": False})))
    assert settings(text)["PrologFlags"] == "X11"


@pytest.mark.parametrize(
    ("extra", "syncer", "said"),
    [
        ("Epilog=/mine", True, "Epilog cannot be set with compute.ssh.enabled"),
        ("epilog=/mine", False, "slurmConfig.slurmd.epilogConfigMap. Put yours there"),
        ("Prolog=/mine", False, "slurmConfig.slurmd.prologConfigMap. Put yours there"),
        ("PrologFlags=DeferBatch,Alloc,nohold", True, "must not contain NoHold with compute.ssh.enabled"),
    ],
)
def test_prolog_and_epilog_are_ours(extra: str, said: str, *, syncer: bool) -> None:
    with pytest.raises(Refusal, match=r"^slurmConfig\.extraConfig: ") as refused:
        slurm_conf(cluster(values(extra=extra, syncer={"enabled": syncer})))
    assert said in str(refused.value)
    slurm_conf(cluster(values(ssh=False, extra="Epilog=/mine")))


def test_on_the_network_of_a_node_there_is_no_port_for_it() -> None:
    with pytest.raises(Refusal, match=r"^compute\.nodes\.cpu\.hostNetwork: compute\.ssh\.enabled runs sshd on port 22"):
        slurm_conf(cluster(values(node={"hostNetwork": True})))


def test_sessions_begin_before_the_lock_and_end_before_peoples_epilogs() -> None:
    made = cluster(values())
    around = scripts.around_jobs(made)
    lines = around["prolog"].splitlines()
    assert lines.index("/etc/sunk/scripts/sessions begin") < lines.index("/etc/sunk/scripts/prelock || exit")
    lines = around["epilog"].splitlines()
    assert lines.index("/etc/sunk/scripts/sessions end || exit") < lines.index("for script in /etc/sunk/epilog.d/*; do")
    assert settings(slurm_conf(made))["Epilog"] == "/etc/sunk/scripts/epilog"
    assert "sessions" in built(made, "ConfigMap", "slurm-compute-scripts")["data"]
