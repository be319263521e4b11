"""What Slurm is asked about a person, and how its answers are read."""

import pytest

from sunk.insight.user import slurm
from sunk.insight.user.reasons import told_of
from sunk.insight.user.slurm import LIMITS, QOS_LIMITS, Association, Job


def row(*cells: str, columns: int) -> str:
    return "|".join([*cells, *[""] * (columns - len(cells))])


def test_associations_have_the_limits_that_are_set() -> None:
    limits = ["", "", "cpu=64", *[""] * 2, "5", *[""] * 4]
    text = f"science||normal,long|normal|{'|'.join(limits)}\n{row('lab', 'gpu', 'normal', columns=4 + len(LIMITS))}\n"
    first, second = slurm.associations(text)
    assert first == Association(
        "science", qos=("normal", "long"), default_qos="normal", limits={"GrpTRES": "cpu=64", "MaxJobs": "5"}
    )
    assert (second.partition, second.limits) == ("gpu", {})


def test_what_is_no_row_is_overlooked() -> None:
    assert slurm.associations("\nsacctmgr: warning\na|b\n") == ()
    assert slurm.jobs("slurm_load_jobs error: x\n") == ()
    assert slurm.user("") == ("", "")


def test_nothing_is_asked_of_jobs_that_users_write_themselves() -> None:
    asked = slurm.jobs_command(2001)[-1]
    assert not {"%j", "%k", "%Z", "%o"} & {word[:2] for word in asked.replace("--format=", "").split("|")}


def test_jobs() -> None:
    text = "12|RUNNING|all|science|normal|2|1:00|UNLIMITED|None\n13_[1-5]|PENDING|all|science|normal|1|0:00|10:00|(Priority)\n"
    first, second = slurm.jobs(text)
    assert first == Job("12", "RUNNING", "all", "science", "normal", "2", "1:00", "UNLIMITED", "None")
    assert not first.pending
    assert second.pending


def test_qos_and_user() -> None:
    (found,) = slurm.qos(row("normal", "3", columns=1 + len(QOS_LIMITS)))
    assert found.limits == {QOS_LIMITS[0]: "3"}
    assert slurm.user("science|Administrator\n") == ("science", "Administrator")


def test_partitions_say_who_may_use_them() -> None:
    text = (
        "PartitionName=all AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL State=UP\n"
        "PartitionName=gpu AllowGroups=ml,staff DenyAccounts=guests AllowQos=long State=DRAIN\n\nhello\n"
    )
    everybody, few = slurm.partitions(text)
    assert (everybody.groups, everybody.accounts, everybody.state) == (None, None, "UP")
    assert (few.groups, few.denied_accounts, few.qos, few.state) == (("ml", "staff"), ("guests",), ("long",), "DRAIN")


def test_the_uid_that_slurmctld_has() -> None:
    text = "User Records\n\nUserName=al(5) DefAccount=x\nUserName=alice(2001) DefAccount=science AdminLevel=None\n"
    assert slurm.cached_uid(text, "alice") == 2001
    assert slurm.cached_uid("UserName=alice(4294967294) DefAccount=x", "alice") == slurm.UNKNOWN_UID
    assert slurm.cached_uid("UserName=alice2(5)", "alice") is None
    assert slurm.cached_uid("UserName=axb(5)", "a.b") is None


def test_what_id_says() -> None:
    text = "uid=2001(alice) gid=2001(alice) groups=2001(alice),3000(science),3100\n"
    assert slurm.identity(text) == (2001, (2001, 3000, 3100))
    assert slurm.identity("nonsense") == (None, ())


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Priority", "come first"),
        ("(Resources)", "free"),
        ("AssocGrpCpuLimit", "association"),
        ("QOSMaxJobsPerUserLimit", "QOS"),
        ("ReqNodeNotAvail, UnavailableNodes:a,b", "not available"),
        ("JobHeldAdmin", "administrator"),
        ("SomethingNew", "scontrol show job"),
        ("", "scontrol show job"),
    ],
)
def test_reasons_in_plain_words(reason: str, part: str) -> None:
    assert part in told_of(reason)


def test_a_name_is_always_an_argument_of_its_own() -> None:
    """No shell reads them, and no option can be made of them: names begin with a letter or an underscore."""
    commands = (
        slurm.associations_command("alice", cluster="slurm"),
        slurm.user_command("alice"),
        slurm.cached_user_command("alice"),
        slurm.id_command("alice"),
    )
    for command in commands:
        assert sum("alice" in word for word in command) == 1
        assert "sh" not in command


def test_accounts_and_those_above_them() -> None:
    text = "|root|\nroot|root|\n|science|root\n|lab|science\nalice|lab|\n"
    assert slurm.parents(text) == {"root": "", "science": "root", "lab": "science"}
