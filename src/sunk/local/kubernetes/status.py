"""What runs on this machine, for people and for programs."""

from collections.abc import Iterator

import msgspec

from sunk.local.kubernetes import cluster as clusters
from sunk.local.kubernetes.process import dead, running


class ClusterStatus(msgspec.Struct, frozen=True):
    """One cluster."""

    name: str
    state: str
    nodes: int
    server: str
    kubeconfig: str
    dead: tuple[str, ...] = ()


def every() -> Iterator[ClusterStatus]:
    for name in clusters.names():
        found = clusters.find(name)
        if found is None:
            yield ClusterStatus(name=name, state="remains", nodes=0, server="", kubeconfig="")
            continue
        yield ClusterStatus(
            name=name,
            state=_state(found),
            nodes=len(found.machines),
            server=found.server,
            kubeconfig=str(found.kubeconfig),
            dead=tuple(dead(found.home)),
        )


def _state(cluster: clusters.LocalCluster) -> str:
    if not running(cluster.home):
        return "stopped"
    if not cluster.complete:
        return "starting"
    return "broken" if dead(cluster.home) else "up"


def as_json() -> str:
    return msgspec.json.format(msgspec.json.encode(list(every()))).decode()


def as_text() -> str:
    rows = list(every())
    if not rows:
        return "No cluster is up. `sunk local up` starts one."
    width = max(len(row.name) for row in rows)
    return "\n".join(line for row in rows for line in _lines(row, width=width))


def _lines(row: ClusterStatus, *, width: int) -> Iterator[str]:
    yield f"{row.name:{width}}  {row.state:8}  {row.nodes} nodes  {row.server}"
    if row.dead:
        yield f"{'':{width}}  not running: {', '.join(row.dead)}"
    if row.state != "up":
        yield f"{'':{width}}  `sunk local down --name {row.name}` removes it"
