"""Slurm with slurmdbd and the MariaDB that we ship: the binding on it, and what the database does at its start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.test_slurm_binding import NODES
from tests.versions import BOTH

from sunk.local import slurm as slurms
from sunk.local.slurm import Slurm, pytest_inside
from sunk.local.slurm.boxes.box import DATABASE_USER
from sunk.local.slurm.configuration import Settings
from sunk.model.refusal import Refusal

pytestmark = pytest.mark.timeout(900)

POWER: Settings = {
    # Slurm looks for what to power up or down once in ten seconds unless told.
    "SlurmctldParameters": "enable_configless,power_save_interval=1,power_save_min_interval=0",
    "SuspendProgram": "/bin/true",
    "ResumeProgram": "/bin/true",
    "SuspendTime": 36000,
    "SuspendTimeout": 2,
    "ResumeTimeout": 30,
}


@pytest.fixture(scope="module", params=BOTH)
def accounted(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    with slurms.cluster(nodes=NODES, gpus=["h100"], version=request.param, accounting=True, config=POWER) as it:
        orders = (
            "add account lab",
            "add qos high priority=10",
            "add qos one maxjobsperuser=1",
            "add user alice,bob,slurm account=lab",
            "modify user alice set qos+=high,one",
        )
        for words in orders:
            it.run("sacctmgr", "--immediate", *words.split())
        yield it


def test_accounts_and_qos_are_enforced_and_slurmdbd_may_die(accounted: Slurm) -> None:
    results = pytest_inside(accounted, "tests/slurm/accounting", timeout=800)
    assert {each.outcome for each in results} == {"passed"}


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_else_is_as_without_accounting(accounted: Slurm) -> None:
    apart = (f"--ignore=tests/slurm/{name}" for name in ("accounting", "crowded"))
    results = pytest_inside(accounted, "tests/slurm", *apart, timeout=1600)
    assert {each.outcome for each in results} == {"passed"}


def _ask(it: Slurm, password: str) -> str:
    words = ("mariadb", "--host=127.0.0.1", "--user=slurm", "--batch", "--skip-column-names", "-e", "show databases")
    return it.run(*words, on="database", env={"MYSQL_PWD": password})


def test_the_database_lets_slurmdbd_in_and_follows_a_new_password(accounted: Slurm) -> None:
    file = accounted.layout.folder / "secret" / "password"
    first = file.read_text()
    assert _ask(accounted, first).split() == ["information_schema", "slurm_acct_db"]
    with pytest.raises(Refusal, match="Access denied"):
        _ask(accounted, "wrong")
    second = "it's \\ `new`"
    try:
        file.write_text(f"{second}\n")
        accounted.stop("database")
        accounted.start("database")
        assert "slurm_acct_db" in _ask(accounted, second)
        with pytest.raises(Refusal, match="Access denied"):
            _ask(accounted, first)
    finally:
        file.write_text(first)
        accounted.stop("database")
        accounted.start("database")
    assert "slurm_acct_db" in _ask(accounted, first)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/serve",), "must run as user mysql, not uid 0"),
        (("setpriv", "--reuid=64032", "--clear-groups", "/serve"), "MARIADB_PASSWORD is not set"),
        (
            ("setpriv", "--reuid=64032", "--clear-groups", "env", "MARIADB_PASSWORD_FILE=/none", "/serve"),
            "MARIADB_PASSWORD_FILE names /none, which uid 64032 cannot read",
        ),
    ],
)
def test_a_start_that_cannot_be_right_says_why(accounted: Slurm, command: tuple[str, ...], said: str) -> None:
    answer = accounted.attempt(*command, on="database")
    assert answer.code == 2
    assert said in answer.err


def test_the_database_runs_as_its_own_user_and_keeps_its_data_in_the_volume(accounted: Slurm) -> None:
    process = accounted.machines.daemon("database")
    assert Path(f"/proc/{process}").stat().st_uid == DATABASE_USER
    assert Path(f"/proc/{process}/comm").read_text() == "mariadbd\n"
    assert accounted.path("/var/lib/mysql/data/slurm_acct_db", on="database").is_dir()
    assert accounted.run("mariadb", "-BNe", "select 1", on="database", uid=DATABASE_USER) == "1\n", "its readiness"
