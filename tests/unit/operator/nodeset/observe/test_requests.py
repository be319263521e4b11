"""A Pod takes what kube-scheduler reckons."""

from typing import Any

from hypothesis import given, strategies as st

from sunk.model.kubernetes.quantity import ONE
from sunk.operator.nodeset.observe.requests import InitContainer, Requests, effective

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 9), max_size=3)
init = st.builds(InitContainer, amounts, st.booleans())


def cpus(*containers: int, **more: Any) -> int:
    return effective([{"cpu": each} for each in containers], **more)["cpu"] // ONE


def test_containers_add_up() -> None:
    assert effective([{"cpu": "500m", "memory": "1Gi"}, {"cpu": "1.5"}]) == {"cpu": 2 * ONE, "memory": 2**30 * ONE}


def test_an_init_container_counts_only_where_it_needs_more() -> None:
    assert cpus(2, 2, init=[InitContainer({"cpu": 3})]) == 4
    assert cpus(2, 2, init=[InitContainer({"cpu": 5}), InitContainer({"cpu": 1})]) == 5


def test_a_sidecar_runs_beside_the_containers() -> None:
    assert cpus(2, init=[InitContainer({"cpu": 1}, sidecar=True)]) == 3


def test_an_init_container_runs_beside_the_sidecars_before_it() -> None:
    sidecar, hungry = InitContainer({"cpu": 2}, sidecar=True), InitContainer({"cpu": 4})
    assert cpus(1, init=[sidecar, hungry]) == 6
    assert cpus(1, init=[hungry, sidecar]) == 4


def test_what_the_pod_says_as_a_whole_goes_before_the_sum() -> None:
    whole: Requests = {"cpu": 8, "hugepages-2Mi": "4Mi", "nvidia.com/gpu": 1}
    found = effective([{"cpu": 1, "memory": 2}], whole=whole)
    assert found == {"cpu": 8 * ONE, "memory": 2 * ONE, "hugepages-2Mi": 2**22 * ONE}


def test_the_overhead_comes_on_top_of_everything() -> None:
    assert cpus(2, init=[InitContainer({"cpu": 5})], overhead={"cpu": 1}) == 6
    assert cpus(2, whole={"cpu": 4}, overhead={"cpu": 1}) == 5


@given(st.lists(amounts, max_size=3), st.lists(init, max_size=4))
def test_every_moment_of_a_pod_fits_into_what_it_takes(
    containers: list[dict[str, int]], starting: list[InitContainer]
) -> None:
    found = effective(containers, init=starting)
    for name in ("cpu", "memory", "gpu"):
        moments = []
        for index, one in enumerate(starting):
            before = sum(int(each.requests.get(name, 0)) for each in starting[:index] if each.sidecar)
            moments.append(before + int(one.requests.get(name, 0)))
        sidecars = sum(int(each.requests.get(name, 0)) for each in starting if each.sidecar)
        moments.append(sidecars + sum(each.get(name, 0) for each in containers))
        assert found.get(name, 0) == max(moments) * ONE
