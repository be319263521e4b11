"""slurm.conf and its companions."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import NODE, cluster, settings, with_nodes

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.daemons.slurmdbd import slurmdbd_conf
from sunk.operator.slurmcluster.slurmconf.conf import (
    beside,
    configuration,
    fingerprint,
    restart_fingerprint,
    slurm_conf,
)


def conf(values: dict[str, Any]) -> dict[str, str]:
    return settings(slurm_conf(cluster(values)))


def partition(values: str, name: str) -> str:
    (line,) = [line for line in values.splitlines() if line.startswith(f"PartitionName={name} ")]
    return line


def test_values_of_the_seeds_reach_slurm_conf() -> None:
    found = conf({})
    wanted = {
        "ClusterName": "slurm",
        "SlurmctldHost": "slurm-controller(slurm-controller)",
        "SlurmctldTimeout": "60",
        "SlurmdTimeout": "30",
        "InactiveLimit": "0",
        "KillWait": "30",
        "WaitTime": "0",
        "SelectTypeParameters": "CR_Core",
        "DefMemPerCPU": "4096",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "ReturnToService": "2",
    }
    assert wanted.items() <= found.items()


def test_nodes_join_by_themselves_and_are_sent_the_configuration() -> None:
    found = conf({"compute": {"maxNodeCount": 12}})
    assert "enable_configless" in found["SlurmctldParameters"]
    assert (found["MaxNodeCount"], found["TreeWidth"]) == ("12", "65533")


def test_slurm_remembers_nobodys_groups_for_long() -> None:
    """By itself for ten minutes: jobs would have the groups of then, and AllowGroups would keep out who has just come."""
    assert conf({})["GroupUpdateTime"] == "60"
    theirs = {"slurmConfig": {"extraConfig": "GroupUpdateTime=600"}}
    assert slurm_conf(cluster(theirs)).count("GroupUpdateTime") == 1


def test_the_old_spellings_count() -> None:
    old = {"slurmCtld": {"prockTrackType": "proctrack/cgroup"}, "slurmd": {"prologConfigmap": "before"}}
    found = conf({"slurmConfig": old})
    assert found["ProctrackType"] == "proctrack/cgroup"
    assert found["Prolog"].startswith("/")


def test_control_groups_are_left_alone_unless_they_are_asked_for() -> None:
    assert configuration(cluster())["cgroup.conf"] == "CgroupPlugin=disabled\n"
    asked = {"slurmCtld": {"taskPlugin": "task/affinity,task/cgroup"}, "cgroupConfig": {"ConstrainCores": "yes"}}
    assert configuration(cluster({"slurmConfig": asked}))["cgroup.conf"] == "ConstrainCores=yes\n"
    theirs = {"cgroupConfig": {"cgroupplugin": "autodetect"}}
    assert configuration(cluster({"slurmConfig": theirs}))["cgroup.conf"] == "cgroupplugin=autodetect\n"


def test_accounting_is_on_unless_told() -> None:
    assert conf({})["AccountingStorageHost"] == "slurm-accounting"
    assert not [key for key in conf({"accounting": {"enabled": False}}) if key.startswith("AccountingStorage")]
    remote = conf({"accounting": {"remoteHost": "dbd.example", "remotePort": 7000}})
    assert (remote["AccountingStorageHost"], remote["AccountingStoragePort"]) == ("dbd.example", "7000")


def test_tokens_are_taken_only_where_there_is_a_rest_service() -> None:
    assert "AuthAltTypes" not in conf({})
    assert conf({"rest": {"enabled": True}})["AuthAltTypes"] == "auth/jwt"


def test_credentials_outlive_the_longest_wait_of_a_prolog() -> None:
    found = conf({"syncer": {"hooksAPI": {"timeout": 1800}}})
    assert "ttl=3600" in found["AuthInfo"]
    assert int(found["BatchStartTimeout"]) > 1800


def test_what_people_set_takes_the_place_of_ours_and_lists_are_joined() -> None:
    extra = "killwait=99\nschedulerparameters=bf_continue\n"
    text = slurm_conf(cluster({"slurmConfig": {"extraConfig": extra}}))
    assert [line for line in text.splitlines() if line.lower().startswith("killwait")] == ["killwait=99"]
    (line,) = [line for line in text.splitlines() if line.lower().startswith("schedulerparameters")]
    assert {"batch_sched_delay=0", "bf_continue"} <= set(line.partition("=")[2].split(","))


def test_a_reboot_is_asked_of_the_syncer_where_it_may_ask_for_one() -> None:
    allowed = {"nodePermissions": {"enabled": True}}
    assert conf({"syncer": allowed})["RebootProgram"] == "/etc/sunk/scripts/reboot"
    assert "RebootProgram" not in conf({})
    assert "RebootProgram" not in conf({"syncer": allowed | {"enabled": False}})
    theirs = {"slurmConfig": {"extraConfig": "RebootProgram=/opt/reboot"}}
    assert conf({"syncer": allowed} | theirs)["RebootProgram"] == "/opt/reboot"


@pytest.mark.parametrize("where", ["schedulerParameters", "extraConfig"])
def test_what_people_say_of_a_parameter_of_ours_is_what_counts(where: str) -> None:
    said = {"schedulerParameters": "sched_interval=60", "extraConfig": "SchedulerParameters=sched_interval=60\n"}[where]
    text = slurm_conf(cluster({"slurmConfig": {where: said}}))
    (line,) = [each for each in text.splitlines() if each.startswith("SchedulerParameters=")]
    assert line == "SchedulerParameters=batch_sched_delay=0,nohold_on_prolog_fail,sched_interval=60"


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"slurmConfig": {"extraConfig": "Include /etc/shadow"}}, "slurmConfig.extraConfig"),
        ({"slurmConfig": {"extraConfig": "SlurmUser=root"}}, "slurmConfig.extraConfig"),
        ({"slurmConfig": {"extraConfig": "NodeName=x"}}, "slurmConfig.extraConfig"),
        ({"slurmConfig": {"gresConfig": "Include x"}}, "slurmConfig.gresConfig"),
        ({"slurmConfig": {"cgroupConfig": {"A": "yes Include x"}}}, "slurmConfig.cgroupConfig.A"),
        ({"slurmConfig": {"cgroupConfig": {"A=1 B": "yes"}}}, "slurmConfig.cgroupConfig"),
        ({"accounting": {"remoteHost": "a b"}}, "accounting.remoteHost"),
        ({"compute": {"partitions": "SlurmUser=root"}}, "compute.partitions"),
        ({"compute": {"partitions": "PartitionName=a\nInclude x"}}, "compute.partitions"),
        (
            {"compute": {"nodes": {"a": NODE | {"partitionConfig": {"MaxTime": "1 Hidden=YES"}}}}},
            "compute.nodes.a.partitionConfig.MaxTime",
        ),
        ({"compute": {"nodes": {"a": NODE | {"partitionConfig": {"X=1 Y": "1"}}}}}, "compute.nodes.a.partitionConfig"),
        (
            {"compute": {"nodes": {"a": NODE | {"partitionConfig": {"nodes": "ALL"}}}}},
            "compute.nodes.a.partitionConfig",
        ),
    ],
)
def test_no_value_brings_in_more_than_itself(values: dict[str, Any], path: str) -> None:
    with pytest.raises(Refusal, match=f"^{path}: "):
        configuration(cluster(values))


@pytest.mark.parametrize(
    ("external", "path"),
    [
        ({"host": "db x"}, "accounting.external.host"),
        ({"host": "db", "user": "u\nStorageLoc=y"}, "accounting.external.user"),
        ({"host": "db", "database": "a#"}, "accounting.external.database"),
    ],
)
def test_the_same_holds_for_slurmdbd(external: dict[str, Any], path: str) -> None:
    secret = {"existingSecret": "there"}
    with pytest.raises(Refusal, match=f"^{path}: "):
        slurmdbd_conf(cluster({"accounting": {"external": secret | external}}))


def test_a_password_is_in_no_file_of_the_configuration() -> None:
    assert "StoragePass" not in slurmdbd_conf(cluster())
    with pytest.raises(Refusal, match=r"^accounting\.extraConfig: StoragePass"):
        slurmdbd_conf(cluster({"accounting": {"extraConfig": "StoragePass=x"}}))


def test_each_enabled_definition_is_a_partition_of_its_own_nodes() -> None:
    made = with_nodes(cpu={"features": ["cpu"]}, big_cpu={"features": ["cpu"], "partitionConfig": {"MaxTime": 60}})
    text = slurm_conf(made)
    sets = {line for line in text.splitlines() if line.startswith("NodeSet=")}
    assert sets == {"NodeSet=cpu Feature=slurm-cpu", "NodeSet=big-cpu Feature=slurm-big-cpu"}
    assert "MaxTime=60" in partition(text, "big-cpu").split()
    assert "Nodes=cpu" in partition(text, "cpu").split()


def test_a_partition_that_people_wrote_is_not_made_again() -> None:
    text = slurm_conf(with_nodes({"partitions": "PartitionName=cpu Nodes=ALL\n"}, cpu={}))
    assert partition(text, "cpu") == "PartitionName=cpu Nodes=ALL"
    off = slurm_conf(with_nodes({"autoPartition": {"enabled": False}}, cpu={}))
    assert "NodeSet=" not in off


def test_a_job_that_names_no_memory_fits_on_every_cpu_of_a_node() -> None:
    limits = {"resources": {"limits": {"cpu": "8", "memory": "12Gi"}}}
    assert "DefMemPerCPU=1024" in partition(slurm_conf(with_nodes(cpu=limits)), "cpu").split()
    large = {"resources": {"limits": {"cpu": "2", "memory": "64Gi"}}}
    assert "DefMemPerCPU" not in partition(slurm_conf(with_nodes(cpu=large)), "cpu")


def test_gpus_are_counted_where_a_definition_has_some() -> None:
    assert "GresTypes" not in settings(slurm_conf(with_nodes(cpu={})))
    made = with_nodes(cpu={}, h={"gresGpu": "h100:8"}, one={"gresGpu": "1", "naming": "ordinal"})
    assert settings(slurm_conf(made))["GresTypes"] == "gpu"
    assert settings(slurm_conf(made))["AccountingStorageTRES"] == "gres/gpu,gres/gpu:h100"
    lines = configuration(made)["gres.conf"].splitlines()
    assert "NodeName=slurm-h-[000-255]-[000-255] Name=gpu Type=h100 File=/dev/nvidia[0-7]" in lines
    assert "NodeName=slurm-one-[0-65535] Name=gpu File=/dev/nvidia0" in lines
    assert not [line for line in lines if "slurm-cpu" in line]


@pytest.mark.parametrize("bad", ["h100", "h100:", ":8", "h100:8:2", "h100:eight", "8 x h100", "h100:-1", "8\n"])
def test_gpus_that_cannot_be_counted_are_refused_with_an_example(bad: str) -> None:
    with pytest.raises(Refusal, match=r"compute\.nodes\.gpu\.gresGpu: .* Write h100:8 for eight of type h100"):
        slurm_conf(with_nodes(gpu={"gresGpu": bad}))


def test_a_gres_conf_of_ones_own_is_taken_as_it_is() -> None:
    made = cluster({"slurmConfig": {"gresConfig": "AutoDetect=nvml # all\n"}})
    assert configuration(made)["gres.conf"] == "AutoDetect=nvml\n"


def test_definitions_environment_is_handed_on_to_jobs_only_if_there_is_one() -> None:
    assert "plugstack.conf" not in configuration(with_nodes(cpu={}))
    made = with_nodes(cpu={"env": [{"name": "A", "value": "1"}]})
    assert configuration(made)["plugstack.conf"] == "optional /usr/lib/sunk/job_env.so\n"
    both = beside({"plugstack.conf": "required pyxis.so", "oci.conf": "x"}, configuration(made))
    assert both["plugstack.conf"] == "required pyxis.so\noptional /usr/lib/sunk/job_env.so\n"
    assert both["oci.conf"] == "x"
    assert beside({"slurm.conf": "theirs"}, configuration(made)) == configuration(made)
    # It would run inside containers of jobs, where there is no such script.
    assert "TaskProlog" not in settings(slurm_conf(made))


def test_jobs_are_killed_over_memory_where_memory_is_counted() -> None:
    assert "JobAcctGatherParams" not in settings(slurm_conf(cluster()))
    counted = {"slurmConfig": {"selectTypeParameters": "CR_Core_Memory"}}
    for accounting in (True, False):
        made = settings(slurm_conf(cluster(counted | {"accounting": {"enabled": accounting}})))
        assert made["JobAcctGatherParams"] == "OverMemoryKill"
        assert made["JobAcctGatherType"] == "jobacct_gather/linux"
        assert made["JobAcctGatherFrequency"] == "task=5"
    confined = {"selectTypeParameters": "CR_Core_Memory", "slurmCtld": {"taskPlugin": "task/cgroup"}}
    assert "JobAcctGatherParams" not in settings(slurm_conf(cluster({"slurmConfig": confined})))


def test_what_slurm_leaves_off_has_a_value() -> None:
    plain = settings(slurm_conf(cluster()))
    assert not [key for key in plain if key.startswith(("PriorityWeight", "Scron", "MpiDefault"))]
    assert plain["PropagateResourceLimitsExcept"] == "MEMLOCK"
    wanted = {"priorityWeights": {"jobSize": 5}, "scrontab": True, "mailProg": "/usr/bin/mail", "mpiDefault": "pmi2"}
    made = settings(slurm_conf(cluster({"slurmConfig": wanted})))
    assert {key: made[key] for key in ("PriorityWeightJobSize", "ScronParameters", "MailProg", "MpiDefault")} == {
        "PriorityWeightJobSize": "5",
        "ScronParameters": "enable",
        "MailProg": "/usr/bin/mail",
        "MpiDefault": "pmi2",
    }


def test_the_hash_follows_the_configuration_and_not_the_order_of_files() -> None:
    files = configuration(cluster())
    assert fingerprint(files) == fingerprint(dict(reversed(files.items())))
    assert fingerprint(files) != fingerprint(configuration(cluster({"slurmConfig": {"killWait": 31}})))
    assert fingerprint({"a": "bc"}) != fingerprint({"ab": "c"})


def test_only_what_slurmctld_cannot_reread_asks_for_a_restart() -> None:
    before = restart_fingerprint(cluster())
    assert restart_fingerprint(cluster({"slurmConfig": {"killWait": 31}})) == before
    assert restart_fingerprint(with_nodes(cpu={"gresGpu": "h100:8"})) == before
    assert restart_fingerprint(cluster({"rest": {"enabled": True}})) != before
    assert restart_fingerprint(cluster({"compute": {"maxNodeCount": 5}})) == before
