"""What Slurm may hand out of a compute Pod, and what the Pod asks of its Node: two numbers, kept apart.

Slurm's share comes from the definition's limits, else its requests, else the Node; less a reserve, since slurmd and the
daemons of steps live in the same Pod and the kernel would otherwise kill a job for what they take. The Pod's requests
are lowered to a floor where the Node is shared, so that an idle slurmd leaves it to other work.
"""

from typing import Any, Final

from msgspec import Struct

from sunk.model.cluster.parts import given
from sunk.model.kubernetes.quantity import ONE, Quantity, amount, rendered
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import NodeDefinition

MEBIBYTE: Final = ONE << 20
CPU_FLOOR: Final = "100m"
CLAIMED: Final = "nvidia.com/gpu"
"""GPUs under the name that other work uses: a definition that takes these takes them from the others."""


class Share(Struct, frozen=True):
    """What Slurm gets of a node. None means: what the Node has."""

    cpus: int | None
    memory: int | None
    """In MiB, the reserve taken off."""
    reserve: int
    """In MiB."""


def share(definition: NodeDefinition, *, reserved: Quantity) -> Share:
    reserve = amount(reserved) // MEBIBYTE
    memory = _said(definition, "memory")
    if memory is None:
        return Share(_cpus(definition), memory=None, reserve=reserve)
    left = memory // MEBIBYTE - reserve
    if left <= 0:
        raise Refusal(
            f"{definition.place}.resources: memory {rendered(memory)} does not exceed compute.reservedMemory "
            f"({reserved}), so nothing is left for jobs. Raise memory or lower reservedMemory."
        )
    return Share(_cpus(definition), memory=left, reserve=reserve)


def shared(definition: NodeDefinition) -> bool:
    """Whether an idle node of it leaves its Node to other work."""
    claims = given(definition.resources.limits) | given(definition.resources.requests)
    return definition.sharing == "open" and CLAIMED not in claims


def resources(definition: NodeDefinition, *, reserved: Quantity) -> dict[str, Any]:
    """Of the container slurmd."""
    limits, requests = given(definition.resources.limits), given(definition.resources.requests)
    if shared(definition):
        floors: dict[str, Quantity] = {"cpu": CPU_FLOOR, "memory": reserved}
        requests |= {name: _lower(floor, requests.get(name, limits.get(name))) for name, floor in floors.items()}
    for name in requests.keys() & limits.keys():
        if amount(requests[name]) > amount(limits[name]):
            raise Refusal(
                f"{definition.place}.resources: requests.{name} is {requests[name]}, more than limits.{name}, "
                f"{limits[name]}. Kubernetes refuses such a Pod: set both."
            )
    made = {"limits": _texts(limits), "requests": _texts(requests)}
    return {name: amounts for name, amounts in made.items() if amounts}


def _lower(floor: Quantity, said: Quantity | None) -> Quantity:
    return floor if said is None or amount(floor) <= amount(said) else said


def _texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in amounts.items()}


def _said(definition: NodeDefinition, name: str) -> int | None:
    quantity = given(definition.resources.limits).get(name, given(definition.resources.requests).get(name))
    return None if quantity is None else amount(quantity)


def _cpus(definition: NodeDefinition) -> int | None:
    if definition.sku_cpu:
        return definition.sku_cpu
    said = _said(definition, "cpu")
    # Slurm counts whole CPUs; a node with none of them would be of no use.
    return None if said is None else max(1, said // ONE)
