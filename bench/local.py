"""How long a local cluster takes to come up and to go.

Run on a machine whose cache is filled (`make setup`). Each figure is the median of a few runs.
"""

import time
from collections.abc import Callable
from statistics import median

from bench.report import Figure, report
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.spec import ClusterSpec, plain

RUNS = 3
NAME = "bench-local"


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def measure(spec: ClusterSpec, *, images: bool) -> tuple[float, float]:
    """Median seconds to bring it up until it serves, and to take it down."""
    ups, downs = [], []
    for _ in range(RUNS):
        ups.append(timed(lambda: clusters.up(spec, assets=assets.fill(images=images))))
        downs.append(timed(lambda: clusters.down(NAME)))
    return median(ups), median(downs)


def main() -> None:
    clusters.remove(NAME)
    assets.fill()
    api_up, api_down = measure(ClusterSpec(name=NAME, nodes=()), images=False)
    whole_up, whole_down = measure(plain(NAME, count=3), images=True)
    report(
        "local",
        [
            Figure(name="up --api-only, to a served request", value=api_up, unit="s", goal=5),
            Figure(name="down of it", value=api_down, unit="s"),
            Figure(name="up, to three Ready nodes with images", value=whole_up, unit="s", goal=45),
            Figure(name="down of it", value=whole_down, unit="s"),
        ],
    )


if __name__ == "__main__":
    main()
