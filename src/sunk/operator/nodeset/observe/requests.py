"""What a Pod takes of its Node: the sum that kube-scheduler makes of the requests of its containers.

Containers and sidecars run together. An init container runs beside the sidecars that started before it, and what the
hungriest of these moments needs is needed from the beginning. What the Pod says as a whole goes before that sum, and
the overhead of its sandbox comes on top (`k8s.io/component-helpers/resource`, `PodRequests`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from sunk.model.kubernetes.quantity import NoQuantity, Quantity, amount

Requests = Mapping[str, Quantity]
Read = Callable[[Quantity], int]

BOUNDLESS: Final = 10**200
"""Stands for an amount that cannot be read: more than any Node has, also if others are added to it."""

_OF_PODS: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES: Final = "hugepages-"


class InitContainer(NamedTuple):
    """An init container, in the order in which they start."""

    requests: Requests
    sidecar: bool = False


def effective(
    containers: Iterable[Requests],
    *,
    init: Iterable[InitContainer] = (),
    whole: Requests | None = None,
    overhead: Requests | None = None,
    read: Read = amount,
) -> dict[str, int]:
    """What the Pod takes of each resource, in nano-units."""
    total = containers_total(containers, init=init, read=read)
    for name, quantity in (whole or {}).items():
        if said_of_pods(name):
            total[name] = read(quantity)
    _add(total, overhead or {}, read)
    return total


def containers_total(
    containers: Iterable[Requests], *, init: Iterable[InitContainer] = (), read: Read = amount
) -> dict[str, int]:
    """What the containers take at their hungriest moment, by what each of them says."""
    total: dict[str, int] = {}
    for requests in containers:
        _add(total, requests, read)
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for one in init:
        if one.sidecar:
            _add(total, one.requests, read)
            _add(sidecars, one.requests, read)
            _raise(starting, sidecars)
        else:
            moment = dict(sidecars)
            _add(moment, one.requests, read)
            _raise(starting, moment)
    _raise(total, starting)
    return total


def of_others(quantity: Quantity) -> int:
    """An amount that somebody else wrote. Kubernetes takes some that we do not read, and they must stop nobody."""
    try:
        return amount(quantity)
    except NoQuantity:
        return BOUNDLESS


def said_of_pods(name: str) -> bool:
    """Whether a Pod may ask for this resource as a whole."""
    return name in _OF_PODS or huge_pages(name)


def huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def _add(total: dict[str, int], requests: Requests, read: Read) -> None:
    for name, quantity in requests.items():
        total[name] = total.get(name, 0) + read(quantity)


def _raise(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, wanted in floor.items():
        if wanted > total.get(name, 0):
            total[name] = wanted
