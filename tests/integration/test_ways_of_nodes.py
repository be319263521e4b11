"""Which way of making Slurm nodes serves rank order and topology: those that bring themselves in, or lines in slurm.conf.

M15. What does not work is shown as well: docs/decisions/0008-dynamic-nodes.md builds on it.
"""

import re
from collections.abc import Iterator, Sequence

import pytest
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm
from sunk.local.slurm.configuration import CONTROLLER, LOGIN, PARTITIONS
from sunk.model.refusal import Refusal

TREE = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=root Switches=s[1-2]\n"
BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"
TOPOLOGY = {"tree": {"topology.conf": TREE}, "block": {"topology.conf": BLOCKS}}
LINES = ("NodeName=n[1-4] CPUs=2 RealMemory=1000 State=CLOUD", *PARTITIONS)
MIXED_UP = ("n4", "n2", "n3", "n1")
IN_ORDER = tuple(sorted(MIXED_UP))
SOON = 120.0
NO_PLACE = "Requested topology configuration is not available"


def known(names: Sequence[str]) -> list[Node]:
    """Nodes for which slurm.conf has a line."""
    return [Node(name, dynamic=False) for name in names]


def join(it: Slurm, *nodes: Node | str) -> None:
    """One after the other, so that it is known in which order."""
    for node in nodes:
        it.add(node)


def ranks(it: Slurm, *wanted: str) -> tuple[str, ...]:
    """The hosts of a job on these nodes by their rank, the first one first."""
    it.expect(wanted, "IDLE")
    said = ""

    def runs() -> bool:
        nonlocal said
        answer = it.attempt("srun", f"-N{len(wanted)}", "-w", ",".join(wanted), "--label", "hostname")
        said = answer.out
        return answer.code == 0

    eventually(runs, seconds=SOON)
    return tuple(host for _, host in sorted(line.split(": ") for line in said.splitlines()))


def place(it: Slurm, node: str) -> str:
    """Where a job on it is told to be; Slurm's complaint if there is none."""
    said = ""

    def is_told() -> bool:
        nonlocal said
        answer = it.attempt("srun", "-w", node, "printenv", "SLURM_TOPOLOGY_ADDR")
        said = answer.out.strip() or answer.err.strip().rpartition(": ")[2]
        return answer.code == 0 or said == NO_PLACE

    eventually(is_told, seconds=SOON)
    return said


def is_at(it: Slurm, node: str, where: str) -> None:
    """Wait until jobs there are told this: slurmd starts again after a reconfigure, some time later."""
    eventually(lambda: place(it, node) == where, seconds=SOON)


def reconfigure(it: Slurm, *nodes: str) -> None:
    it.run("scontrol", "reconfigure", on=CONTROLLER)
    it.expect(nodes, "IDLE")


def restart(it: Slurm, *nodes: str) -> None:
    it.expect(nodes, "IDLE")
    it.stop(CONTROLLER)
    it.start(CONTROLLER)
    it.expect(nodes, "IDLE")


@pytest.fixture
def tree() -> Iterator[Slurm]:
    """Without nodes yet."""
    with slurms.cluster(config={"TopologyPlugin": "topology/tree"}, files=TOPOLOGY["tree"]) as it:
        yield it


def test_dynamic_nodes_have_ranks_in_the_order_in_which_they_came() -> None:
    with slurms.cluster() as it:
        join(it, *MIXED_UP)
        assert ranks(it, *IN_ORDER) == MIXED_UP
        restart(it, *MIXED_UP)
        assert ranks(it, *IN_ORDER) == MIXED_UP
        # A newcomer takes the first place that is free.
        it.expect("n4", "IDLE")
        it.kill("n4")
        it.run("scontrol", "delete", "nodename=n4", on=CONTROLLER)
        join(it, "n5")
        assert ranks(it, "n1", "n2", "n5") == ("n5", "n2", "n1")


def test_whoever_starts_the_tasks_may_say_their_order() -> None:
    with slurms.cluster() as it:
        join(it, "n3", "n1", "n2")
        it.path("/home/alice/hosts", on=LOGIN).write_text("n1\nn2\nn3\n")
        words = ("srun", "-n3", "--distribution=arbitrary", "--label", "hostname")
        said = it.run(*words, env={"SLURM_HOSTFILE": "/home/alice/hosts"})
        assert sorted(said.splitlines()) == ["0: n1", "1: n2", "2: n3"]


def test_nodes_that_were_created_have_ranks_in_that_order_and_no_place_either(tree: Slurm) -> None:
    for name in IN_ORDER:
        tree.run("scontrol", "create", f"nodename={name}", "cpus=2", "realmemory=1000", "state=cloud", on=CONTROLLER)
    join(tree, *MIXED_UP)
    assert place(tree, "n1") == NO_PLACE
    reconfigure(tree, *MIXED_UP)
    is_at(tree, "n1", "root.s1.n1")
    assert ranks(tree, *IN_ORDER) == IN_ORDER


def test_nodes_with_a_line_have_ranks_in_the_order_of_their_names() -> None:
    with slurms.cluster(lines=LINES) as it:
        join(it, *known(MIXED_UP))
        assert "NodeAddr=10." in it.run("scontrol", "show", "node", "n1")
        assert ranks(it, *IN_ORDER) == IN_ORDER
        restart(it, *MIXED_UP)
        assert ranks(it, *IN_ORDER) == IN_ORDER


def test_a_node_with_a_line_cannot_bring_its_own() -> None:
    with slurms.cluster(lines=LINES) as it, pytest.raises(Refusal, match="fatal: Duplicated NodeName n1"):
        join(it, "n1")


def test_a_dynamic_node_may_be_named_in_a_tree_but_has_its_place_only_after_a_reconfigure(tree: Slurm) -> None:
    join(tree, "n1")
    assert place(tree, "n1") == NO_PLACE
    reconfigure(tree, "n1")
    is_at(tree, "n1", "root.s1.n1")
    join(tree, "n3")
    assert place(tree, "n3") == NO_PLACE
    reconfigure(tree, "n1", "n3")
    is_at(tree, "n3", "root.s2.n3")
    restart(tree, "n1", "n3")
    assert place(tree, "n3") == "root.s2.n3"


def test_dynamic_nodes_without_a_place_have_jobs_if_topology_is_optional() -> None:
    config = {"TopologyPlugin": "topology/tree", "TopologyParam": "TopoOptional"}
    with slurms.cluster(config=config, files=TOPOLOGY["tree"]) as it:
        join(it, "n3", "n1", "n5")
        assert ranks(it, "n1", "n3", "n5") == ("n3", "n1", "n5")


def test_ranks_of_dynamic_nodes_do_not_follow_the_tree() -> None:
    config = {"TopologyPlugin": "topology/tree", "TopologyParam": "SwitchAsNodeRank"}
    with slurms.cluster(config=config, files=TOPOLOGY["tree"]) as it:
        join(it, *MIXED_UP)
        reconfigure(it, *MIXED_UP)
        assert ranks(it, *IN_ORDER) == MIXED_UP
        restart(it, *MIXED_UP)
        assert ranks(it, *IN_ORDER) == MIXED_UP


def test_in_24_11_a_dynamic_node_cannot_say_its_own_place(tree: Slurm) -> None:
    join(tree, "n1")
    asked = tree.attempt("scontrol", "update", "nodename=n1", "topology=s1", on=CONTROLLER)
    assert "Update of this parameter is not supported: topology=s1" in asked.out + asked.err
    with pytest.raises(Refusal, match="Parsing error at unrecognized key: Topology"):
        join(tree, Node("n2", more="Topology=s1"))


@pytest.mark.full
def test_in_26_05_a_dynamic_node_says_its_own_place_and_ranks_follow_the_tree() -> None:
    switches = [("root", "children", "s[1-2]"), ("s1", "nodes", "n[1-2]"), ("s2", "nodes", "n[3-4]")]
    tree = "".join(f"      - {{switch: {name}, {key}: '{below}'}}\n" for name, key, below in switches)
    text = f"- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n{tree}"
    with slurms.cluster(version="26.05", files={"topology.yaml": text}) as it:
        join(it, Node("n3", more="Topology=fabric:s2"), Node("n1", more="Topology=fabric:s1"))
        assert place(it, "n3") == "root.s2.n3"
        assert ranks(it, "n1", "n3") == ("n1", "n3")


@pytest.mark.parametrize("kind", ["tree", "block"])
def test_nodes_with_a_line_have_their_place_at_once(kind: str) -> None:
    with slurms.cluster(config={"TopologyPlugin": f"topology/{kind}"}, files=TOPOLOGY[kind], lines=LINES) as it:
        join(it, *known(("n4", "n2", "n3")))
        assert place(it, "n4") == {"tree": "root.s2.n4", "block": "b2.n4"}[kind]
        assert ranks(it, "n2", "n3", "n4") == ("n2", "n3", "n4")
        join(it, *known(("n1",)))
        assert ranks(it, *IN_ORDER) == IN_ORDER


def test_slurmctld_does_not_start_with_blocks_of_nodes_that_it_has_never_seen() -> None:
    blocks = slurms.cluster(config={"TopologyPlugin": "topology/block"}, files=TOPOLOGY["block"])
    with pytest.raises(Refusal, match=r"fatal: Block configuration \(b1\) children count lower"), blocks:
        pass


def test_a_dynamic_slurmd_dies_of_blocks_since_it_knows_no_other_node() -> None:
    with slurms.cluster() as it:
        join(it, *IN_ORDER)
        it.configure(config={"TopologyPlugin": "topology/block"}, files=TOPOLOGY["block"])
        eventually(lambda: not any(map(it.machines.daemon, IN_ORDER)), seconds=180)
        for name in IN_ORDER:
            assert re.search(r"fatal: Block configuration \(b\d\) children count lower", it.log(name))


@pytest.mark.full
def test_a_line_that_is_taken_out_takes_the_job_along() -> None:
    with slurms.cluster(lines=LINES) as it:
        join(it, *known(("n1", "n2")))
        job = it.run("sbatch", "--parsable", "--output=/dev/null", "-w", "n1", "--wrap=sleep 600").strip()
        it.expect("n1", "MIXED")
        it.configure(lines=(LINES[0].replace("n[1-4]", "n[2-4]"), *PARTITIONS))
        eventually(lambda: it.attempt("scontrol", "ping", on=LOGIN).code == 0, seconds=180)
        shown = it.run("scontrol", "show", "job", job)
        assert "JobState=NODE_FAIL" in shown
        assert "n1" not in it.states()
