import pytest
from hypothesis import given, strategies as st

from sunk.local.slurm import Node, inside, remote, simulated, testpackages
from sunk.local.slurm.boxes import network
from sunk.local.slurm.configuration import DEFAULTS, PARTITIONS, files, gpu_devices, merge, nodes, slurm_conf
from sunk.model.refusal import Refusal

LOCKED = """\
aiohttp==3.14.5 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:cc
pytest==9.2.0 \\
    --hash=sha256:dd
pytest-asyncio==1.4.1 \\
    --hash=sha256:ee
"""


def settings_of(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_test_overrides_and_removes_settings_whatever_their_case() -> None:
    text = slurm_conf("a", address="10.0.0.1", settings={"killwait": 60, "TaskPlugin": None, "New": "x"}, lines=())
    found = settings_of(text)
    assert found["KillWait"] == "60"
    assert found["New"] == "x"
    assert "TaskPlugin" not in found
    assert "killwait" not in found


def test_what_is_taken_out_stays_so_through_several_layers() -> None:
    settings = merge(merge({"KillWait": 5}, {"PrologFlags": None}), {"New": "x"})
    found = settings_of(slurm_conf("a", address="10.0.0.1", settings=settings, lines=()))
    assert "PrologFlags" in DEFAULTS
    assert "PrologFlags" not in found


@given(names=st.sets(st.sampled_from(sorted(DEFAULTS))), value=st.integers(0, 9))
def test_no_setting_is_ever_written_twice(names: set[str], value: int) -> None:
    merged = merge(DEFAULTS, {name.upper(): value for name in names})
    assert len({name.lower() for name in merged}) == len(merged)
    assert all(merged[name] == value for name in names)


def test_the_controller_is_found_without_a_name_service() -> None:
    text = slurm_conf("a", address="10.0.0.1", settings={}, lines=PARTITIONS)
    assert "SlurmctldHost=controller(10.0.0.1)\n" in text
    assert text.endswith(f"{PARTITIONS[0]}\n")


def test_a_number_of_nodes_has_plain_names() -> None:
    assert [node.name for node in nodes(3)] == ["n1", "n2", "n3"]


def test_a_node_introduces_itself_with_what_it_was_given() -> None:
    node = Node("g1", cpus=64, memory=512000, features=("h100", "ib"), gres="gpu:h100:8", more="Weight=5")
    assert node.line == "CPUs=64 RealMemory=512000 Feature=h100,ib Gres=gpu:h100:8 Weight=5"


@pytest.mark.parametrize("wanted", [["a", "a"], ["controller"], ["login"], [Node("sunk")]])
def test_a_name_that_is_taken_is_refused(wanted: list[Node | str]) -> None:
    with pytest.raises(Refusal, match="name"):
        nodes(wanted)


def test_every_gpu_that_slurm_is_told_of_has_a_device() -> None:
    assert "Type=h100 File=/opt/gpus/h100-[0-7]" in files(gpus=["h100"])["gres.conf"]
    assert gpu_devices(["h100"]) == [f"/opt/gpus/h100-{index}" for index in range(8)]


def test_the_crowd_is_named_with_as_many_digits_as_it_needs() -> None:
    assert simulated.names(2) == ["sim0001", "sim0002"]
    assert simulated.names(12000)[0] == "sim00001"


@pytest.mark.parametrize(("version", "has"), [("24.11", False), ("25.11", False), ("26.05", True), ("27.05", True)])
def test_external_nodes_are_used_where_slurm_has_them(*, version: str, has: bool) -> None:
    assert simulated.external(version) is has


def test_tests_inside_bring_only_what_the_image_lacks() -> None:
    left = testpackages.without(LOCKED, names={*testpackages.names("aiohttp==3.14.5 \\\n"), "pytest"})
    assert left.startswith("colorama==0.4.6")
    assert "sha256:bb" not in left
    assert "pytest==" not in left
    assert "pytest-asyncio==1.4.1 \\\n    --hash=sha256:ee\n" in left


def test_each_test_inside_is_told_by_name_and_end() -> None:
    report = """<testsuites><testsuite>
        <testcase classname="tests.a" file="tests/a.py" name="one"/>
        <testcase classname="tests.a" name="two"><failure message="m">assert 1 == 2</failure></testcase>
        <testcase classname="tests.a" name="three"><skipped message="not here"/></testcase>
        <testcase classname="tests.a" name="four"><error message="no fixture"/></testcase>
    </testsuite></testsuites>"""
    found = [(each.name, each.outcome, each.text) for each in inside.read(report)]
    assert found == [
        ("tests/a.py::one", "passed", ""),
        ("tests.a::two", "failed", "assert 1 == 2"),
        ("tests.a::three", "skipped", "not here"),
        ("tests.a::four", "error", "no fixture"),
    ]


def test_every_verb_of_the_remote_end_exists_on_both_ends() -> None:
    from sunk.local.slurm import Slurm

    assert all(hasattr(Slurm, verb) and hasattr(remote.Remote, verb) for verb in remote.VERBS)


@given(index=st.integers(0, 5000))
def test_boxes_have_addresses_of_their_own_inside_the_block(index: int) -> None:
    assert network.address(index) != network.address(index + 1)
    assert network.address(index).startswith("10.0.")
