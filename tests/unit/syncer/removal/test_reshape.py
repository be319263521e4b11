"""When a record differs from its Pod."""

from tests.unit.syncer.builders import row

from sunk.slurm.records import Node
from sunk.syncer.removal.reshape import differences


def sized(*, cpus: int = 8, gres: str = "gpu:h100:8(S:0-1)") -> Node:
    return row("n1", cpus=cpus, memory=4000, gres=gres)


def test_a_record_that_has_what_the_pod_says_does() -> None:
    assert differences("CPUs=8 RealMemory=4000 Gres=gpu:h100:8", sized()) == []
    assert differences("Gres=gpu:h100:8", sized(cpus=4)) == [], "what its Node decides is not compared"
    assert differences("", sized()) == []


def test_a_record_of_another_size_or_with_other_gpus_differs() -> None:
    assert differences("CPUs=4 RealMemory=4000 Gres=gpu:h100:8", sized()) == ["CPUs=4 where Slurm has 8"]
    assert differences("CPUs=8 RealMemory=9000 Gres=gpu:h100:8", sized()) == ["RealMemory=9000 where Slurm has 4000"]
    assert differences("CPUs=8 Gres=", sized()) == ["Gres= where Slurm has gpu:h100:8"]
    assert differences("CPUs=8 Gres=gpu:h100:8", sized(gres="")) == ["Gres=gpu:h100:8 where Slurm has none"]
