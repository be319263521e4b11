"""Slurm's limits around a prolog that waits."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.operator.slurmcluster.clusters import cluster, settings

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.slurmconf.conf import slurm_conf
from sunk.operator.slurmcluster.slurmconf.timers import DRAINING, SHORTEST, check, lifetime, needed


def conf(timeout: int = 300, *, extra: str = "", syncer: bool = True) -> dict[str, str]:
    wanted: dict[str, Any] = {"enabled": syncer, "hooksAPI": {"timeout": timeout}}
    return settings(slurm_conf(cluster({"syncer": wanted, "slurmConfig": {"extraConfig": extra}})))


@given(st.integers(SHORTEST, 65_000))
def test_no_limit_strikes_before_the_prolog_has_ended(timeout: int) -> None:
    made = conf(timeout)
    assert int(made["BatchStartTimeout"]) >= timeout + DRAINING
    assert int(made["AuthInfo"].split("ttl=")[1].split(",")[0]) >= timeout + DRAINING
    assert "PrologEpilogTimeout" not in made, "it would end people's prologs too"
    assert "MessageTimeout" not in made
    assert set(made["PrologFlags"].split(",")) == {"Alloc", "DeferBatch"}
    assert made["Prolog"] == "/etc/sunk/scripts/prolog"
    check(
        [f"{key}={made[key]}" for key in ("BatchStartTimeout", "AuthInfo", "PrologFlags")], timeout=timeout, at="ours"
    )


def test_the_defaults() -> None:
    made = conf()
    assert made["BatchStartTimeout"] == "360"
    assert made["AuthInfo"] == "ttl=600,cred_expire=30"


@pytest.mark.parametrize(
    ("timeout", "said"),
    [
        (0, "syncer.hooksAPI.timeout is 0: prologs need at least 15 s"),
        (14, "at least 15 s"),
        (65_474, "with 60 s to drain the node that is 65534 s, and Slurm allows 65533 s at most (BatchStartTimeout)"),
    ],
)
def test_a_time_that_does_not_fit_is_refused_with_the_sum(timeout: int, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        conf(timeout)
    assert said in str(refused.value)


SUM = "syncer.hooksAPI.timeout 300 + 60 s to drain the node = 360 s"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("BatchStartTimeout=359", f"BatchStartTimeout=359 is too short: {SUM}."),
        ("batchstarttimeout = 10", f"BatchStartTimeout=10 is too short: {SUM}."),
        ("PrologEpilogTimeout=300", f"PrologEpilogTimeout=300 is too short: {SUM}."),
        ("PrologTimeout=300", f"PrologTimeout=300 is too short: {SUM}."),
        ("KillWait=5 BatchStartTimeout=10", "BatchStartTimeout=10 is too short"),
        ("AuthInfo=ttl=120,cred_expire=30", f"AuthInfo: ttl=120 is too short: {SUM}. Set ttl=600."),
        ("AuthInfo=cred_expire=30", f"has no ttl, so launch messages expire after 60 s: {SUM}. Add ttl=600."),
        ('AuthInfo="ttl=60"', "ttl=60 is too short"),
        ("PrologFlags=DeferBatch", "PrologFlags=DeferBatch must contain Alloc,DeferBatch"),
        ("PrologFlags=Alloc", "must contain Alloc,DeferBatch"),
        ("PrologFlags=Alloc,DeferBatch,Serial", "must not contain Serial"),
        ("PrologFlags=Alloc,Contain", "must contain Alloc,DeferBatch"),
        ("Prolog=/opt/mine", "runs the scripts of slurmConfig.slurmd.prologConfigMap. Put yours there"),
    ],
)
def test_a_setting_of_peoples_own_that_breaks_the_lock_is_refused(extra: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        conf(extra=f"{extra}\n")
    assert str(refused.value).startswith("slurmConfig.extraConfig: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "extra",
    [
        "BatchStartTimeout=360",
        "PrologEpilogTimeout=900",
        "PrologEpilogTimeout=UNLIMITED",
        "AuthInfo=ttl=360",
        "AuthInfo=socket=/run/x,TTL=900",
        "PrologFlags=X11,DeferBatch",
        "PrologFlags=alloc,contain,deferbatch,NoHold",
        "PrologSlurmctld=/opt/mine",
        "MessageTimeout=10",
    ],
)
def test_what_fits_is_taken(extra: str) -> None:
    key, _, value = extra.partition("=")
    assert conf(extra=f"{extra}\n")[key] == value


def test_a_shorter_wait_allows_shorter_limits() -> None:
    assert conf(20, extra="BatchStartTimeout=80\n")["BatchStartTimeout"] == "80"


def test_without_a_syncer_nothing_waits_and_nothing_is_refused() -> None:
    made = conf(0, extra="Prolog=/opt/mine\nBatchStartTimeout=10\n", syncer=False)
    assert made["Prolog"] == "/opt/mine"


@given(st.integers(SHORTEST, 65_000))
def test_messages_live_longer_than_what_is_needed(timeout: int) -> None:
    assert lifetime(timeout) >= needed(timeout)
