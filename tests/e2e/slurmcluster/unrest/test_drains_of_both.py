"""Drains of people and drains of ours on one node: each follows its own cause, and none takes the other's away."""

from datetime import UTC, datetime, timedelta

from msgspec import json
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.sides import (
    LASTING,
    cordon_of,
    cordoned,
    fate,
    looked,
    reasons,
    say,
    seen,
    sunk,
    tell_over,
    told,
    update,
)
from tests.e2e.slurmcluster.unrest import ground
from tests.e2e.slurmcluster.unrest.ground import PATIENCE, exposed, in_time

from sunk.model import names

pytestmark = ground.MARKS

KINDS = ground.KINDS
VALUES = ground.VALUES
OURS = "k8s: cordon: disk"
FAN = "alice: bad fan"
ASKING = ("--timeout", PATIENCE)


def test_a_cordon_lets_the_job_end_and_comes_back_if_it_is_lifted_too_early(slurm: Release) -> None:
    name, node = exposed(slurm)
    job = slurm.submit(LASTING, "-w", name)
    slurm.runs(job)
    with cordoned(slurm, node, "disk"):
        in_time(lambda: reasons(slurm) == {name: OURS})
        in_time(lambda: told(slurm, node, names.SLURM_DRAIN) == OURS)
        assert told(slurm, node, names.SLURM_CORDON) == ""
        for word in ("undrain", "resume"):
            update(slurm, name, state=word)
            in_time(lambda: reasons(slurm) == {name: OURS})
        refused = sunk(slurm, "undrain", node, *ASKING, seconds=2 * PATIENCE)
        assert refused.returncode == 1
        assert OURS in refused.stderr
        assert slurm.job(job) == "RUNNING"
        tell_over(slurm, job)
        slurm.ends(job)
        waiting = slurm.submit("true", "-w", name)
        looked(slurm, name, seconds=PATIENCE)
        assert (slurm.job(waiting), reasons(slurm)) == ("PENDING", {name: OURS})
    slurm.ends(waiting, seconds=PATIENCE)
    assert reasons(slurm) == {}
    assert fate(slurm, job) == ("COMPLETED", "0")


def test_a_persons_drain_over_ours_stays_when_ours_would_end(slurm: Release) -> None:
    name, node = exposed(slurm)
    with cordoned(slurm, node, "disk"):
        in_time(lambda: reasons(slurm) == {name: OURS})
        update(slurm, name, state="drain", reason=FAN)
        in_time(lambda: told(slurm, node, names.SLURM_CORDON) == FAN)
    in_time(lambda: cordon_of(slurm, name) is None)
    looked(slurm, name, seconds=PATIENCE)
    assert reasons(slurm) == {name: FAN}
    lifted = sunk(slurm, "undrain", name, *ASKING, seconds=2 * PATIENCE)
    assert lifted.returncode == 0, lifted
    in_time(lambda: reasons(slurm) == {})
    in_time(lambda: not told(slurm, node, names.SLURM_CORDON) and not told(slurm, node, names.SLURM_DRAIN))


def test_ours_waits_behind_a_persons_drain_and_follows_it(slurm: Release) -> None:
    name, node = exposed(slurm)
    drained = sunk(slurm, "drain", node, "--reason", "bad fan", *ASKING, seconds=2 * PATIENCE)
    assert drained.returncode == 0, drained
    ((where, theirs),) = reasons(slurm).items()
    assert where == name
    assert theirs.endswith(": bad fan")
    with cordoned(slurm, node, "disk"):
        in_time(lambda: cordon_of(slurm, name) == "disk")
        looked(slurm, name, seconds=PATIENCE)
        assert reasons(slurm) == {name: theirs}
        update(slurm, name, state="undrain")
        in_time(lambda: reasons(slurm) == {name: OURS})
    in_time(lambda: reasons(slurm) == {})


def test_a_verification_lifts_a_drain_that_asks_for_it_if_it_came_later_and_went_well(slurm: Release) -> None:
    name, node = exposed(slurm)

    def verified(status: str, at: datetime) -> None:
        say(slurm, name, names.HPC_VERIFICATION, status, lastProbeTime=at.isoformat())

    asks = "NHC: disk (sunk:verify-undrain)"
    verified("True", datetime.now(UTC))
    update(slurm, name, state="drain", reason=asks)
    for status, at in (
        ("True", datetime.now(UTC) - timedelta(hours=1)),
        ("False", datetime.now(UTC) + timedelta(hours=1)),
    ):
        verified(status, at)
        looked(slurm, name, seconds=PATIENCE)
        assert reasons(slurm) == {name: asks}

    def lifted_by_a_new_one(left: dict[str, str]) -> bool:
        verified("True", datetime.now(UTC))
        return reasons(slurm) == left

    in_time(lambda: lifted_by_a_new_one({}))

    # Without the word it is a person's drain like any other.
    update(slurm, name, state="drain", reason=FAN)
    verified("True", datetime.now(UTC) + timedelta(hours=1))
    looked(slurm, name, seconds=PATIENCE)
    assert reasons(slurm) == {name: FAN}

    # With it, and a cause of ours, ours is what is left.
    verified("False", datetime.now(UTC))
    update(slurm, name, state="drain", reason=asks)
    with cordoned(slurm, node, "disk"):
        in_time(lambda: cordon_of(slurm, name) == "disk")
        in_time(lambda: lifted_by_a_new_one({name: OURS}))
    in_time(lambda: reasons(slurm) == {})


def test_extra_keeps_what_users_wrote_and_is_recreated_where_it_is_no_json(slurm: Release) -> None:
    name, node = exposed(slurm)
    say(slurm, name, "Burnt-in", "True")

    def ours() -> bool:
        found = seen(slurm, name).ours
        told = found.get("conditions", {})
        return (
            (found.get("node"), found.get("pod"), found.get("nodeset")) == (node, name, "slurm-cpu")
            and told.get("Ready") == told.get("Burnt-in") == "True"
            and not [kind for kind in told if kind.startswith("Slurm")]
        )

    in_time(ours)
    update(slurm, name, extra='{"rack": 7, "k8s": "mine"}')
    in_time(ours)
    assert json.decode(seen(slurm, name).extra)["rack"] == 7
    update(slurm, name, extra="rack 7 {")
    in_time(ours)
    assert json.decode(seen(slurm, name).extra).keys() == {"k8s"}
