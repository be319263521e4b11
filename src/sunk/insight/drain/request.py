"""What a person asks of Slurm about nodes, given to the syncer through annotations of their Pods.

People at a laptop have no libslurm and no key of Slurm's, but a right to write to Pods. The syncer carries the order
out under the person's own words, and its answer comes back the same way.
"""

import asyncio
import getpass
import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct, json
from msgspec.structs import replace

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import PODS, Pod, condition
from sunk.kube.errors import NotFound
from sunk.model import foreign, hostlist, names
from sunk.model.contract import drains
from sunk.model.contract.requests import LONGEST, Answer, Order
from sunk.model.refusal import Refusal
from sunk.model.wording import verb

INTERVAL: Final = 0.2
SHOWN: Final = 5
_COMPUTE: Final = f"{names.COMPONENT}={names.COMPUTE}"


class RequestOutcome(Struct, frozen=True):
    """What became of an order about one node."""

    node: str
    done: bool
    words: str


async def send(
    client: Client,
    namespace: str,
    *,
    targets: Sequence[str],
    order: Order,
    patience: float = 30.0,
) -> list[RequestOutcome]:
    """Ask, and wait for the answers."""
    pods = chosen(targets, (await client.list(PODS, Scope(namespace=namespace, labels=_COMPUTE))).items)
    outcomes = [outcome for outcome in [await _ask(client, pod, order) for pod in pods] if outcome is not None]
    waiting = {pod.metadata.name for pod in pods} - {outcome.node for outcome in outcomes}
    outcomes += await _answers(client, namespace, waiting, order=order, patience=patience)
    return sorted(outcomes, key=lambda outcome: outcome.node)


async def _ask(client: Client, pod: Pod, order: Order) -> RequestOutcome | None:
    note = {names.ORDER: json.encode(about(order, pod)).decode()}
    body = {"metadata": {"uid": pod.metadata.uid, "annotations": note}}
    try:
        await client.patch(PODS, pod.metadata.name, Merge(body), namespace=pod.metadata.namespace)
    except NotFound:
        return RequestOutcome(
            pod.metadata.name, done=False, words="its Pod was just deleted: try again when it is back"
        )
    return None


async def _answers(
    client: Client, namespace: str, waiting: Collection[str], *, order: Order, patience: float
) -> list[RequestOutcome]:
    outcomes: dict[str, RequestOutcome] = {}
    pending = set(waiting)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while pending:
                for pod in (await client.list(PODS, Scope(namespace=namespace, labels=_COMPUTE))).items:
                    said = answer(pod)
                    if pod.metadata.name in pending and said is not None and said.id == order.id:
                        outcomes[pod.metadata.name] = RequestOutcome(
                            pod.metadata.name, done=said.done, words=said.words
                        )
                pending -= outcomes.keys()
                await asyncio.sleep(INTERVAL if pending else 0)
    silent = (
        f"no answer within {patience:g} s: check that the syncer runs. The request stays and may still be carried out"
    )
    return [*outcomes.values(), *(RequestOutcome(name, done=False, words=silent) for name in pending)]


def answer(pod: Pod) -> Answer | None:
    """The last answer that stands on a Pod."""
    with suppress(foreign.UnreadableJson):
        return foreign.decode(pod.metadata.annotations.get(names.ORDER_DONE, ""), Answer)
    return None


def chosen(targets: Sequence[str], pods: Iterable[Pod]) -> list[Pod]:
    """The Pods that are meant: by the name of the Slurm node, of which many may be one hostlist, or of the Node."""
    by_name: dict[str, Pod] = {}
    by_node: dict[str, Pod] = {}
    for pod in pods:
        by_name[pod.metadata.name] = pod
        by_node[pod.spec.node_name] = pod
    wanted = [name for target in targets for name in _expanded(target)]
    missing = [name for name in wanted if name not in by_name and name not in by_node]
    if missing:
        none = f"{verb(len(missing))} neither a compute Pod nor a Node that runs one"
        raise Refusal(f"{_some(missing)} {none}: see `sunk status`")
    return [*{pod.metadata.uid: pod for pod in (by_name.get(name) or by_node[name] for name in wanted)}.values()]


def _expanded(target: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(target)
    except ValueError as error:
        raise Refusal(f'"{target}" is neither a name nor a hostlist: {error}') from error


def _some(items: Sequence[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def order(act: Literal["drain", "undrain"], reason: str = "") -> Order:
    """An order that is not the same as any before it."""
    return Order(id=secrets.token_hex(8), act=act, reason=reason)


def about(order: Order, pod: Pod) -> Order:
    """An order as it is given to a Pod: an undrain names the drain that is seen there, and lifts no later one."""
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    if order.act != "undrain" or drain is None or drain.status != "True":
        return order
    return replace(order, lifts=drain.message[:LONGEST])


def signed(reason: str) -> str:
    """A reason that says whose it is, as people in Slurm do it."""
    words = " ".join(reason.split())
    if not words:
        raise Refusal("give a --reason: it tells others why the node is drained")
    if words.startswith(drains.PREFIX):
        raise Refusal(f"a reason must not begin with `{drains.PREFIX}`, which marks drains that SUNK sets and lifts")
    return f"{getpass.getuser()}: {words}"
