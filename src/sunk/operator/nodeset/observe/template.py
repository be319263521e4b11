"""The Pod template of a NodeSet, as far as we look into it.

It passes through the NodeSet untouched, so that every field of Pods works, also those of a newer Kubernetes; whether
it makes a Pod at all is for the API server to say (dry run). What is read here decides which Nodes fit. It is read as
the API server reads it: null is the same as absent, a quantity may be a plain number.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from sunk.kube.core import Toleration
from sunk.model import foreign
from sunk.model.kubernetes.quantity import Quantity, amount
from sunk.model.kubernetes.selection import NodeSelector, fault
from sunk.model.names import SLURMD
from sunk.model.refusal import Refusal
from sunk.operator.nodeset.observe.requests import InitContainer, containers_total, effective, huge_pages, said_of_pods

_PATH: Final = re.compile(r"(?P<what>.*) - at `(?P<path>.*)`", re.DOTALL)
_REQUIRED: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


class InvalidTemplate(Refusal):
    """The template makes no compute Pod. The text says where and why."""


class ResourceRequirements(Struct, frozen=True, gc=False):
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Quantity]:
        """Requests, with limits standing in for those that are missing, as the API server does it."""
        return self.limits | self.requests


class TemplateContainer(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class TemplateNodeAffinity(Struct, frozen=True, gc=False, rename="camel"):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class TemplateAffinity(Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: TemplateNodeAffinity = TemplateNodeAffinity()


class TemplateMetadata(Struct, frozen=True, gc=False):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class TemplateSpec(Struct, frozen=True, gc=False, rename="camel"):
    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()
    affinity: TemplateAffinity = TemplateAffinity()
    tolerations: tuple[Toleration, ...] = ()
    overhead: dict[str, Quantity] = field(default_factory=dict)
    resources: ResourceRequirements = ResourceRequirements()
    priority_class_name: str = ""


class Template(Struct, frozen=True, gc=False):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()

    @property
    def selector(self) -> NodeSelector | None:
        """The Nodes that it may be on; none means every Node."""
        return self.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution


def read(raw: msgspec.Raw | bytes) -> Template:
    """Look into a template; one that cannot make a compute Pod is refused as `InvalidTemplate`."""
    try:
        found = msgspec.convert(_without_nulls(foreign.tree(raw)), Template)
    except foreign.UnreadableJson as wrong:
        raise _invalid(str(wrong)) from wrong
    except msgspec.DecodeError as wrong:
        raise _invalid(_in_words(str(wrong))) from wrong
    if complaint := next(_complaints(found), None):
        raise _invalid(complaint)
    return found


def requests(template: Template) -> dict[str, int]:
    """What a Pod of this template takes of its Node, in nano-units."""
    spec = template.spec
    containers = [one.resources.asked for one in spec.containers]
    init = [InitContainer(one.resources.asked, sidecar=one.restart_policy == "Always") for one in spec.init_containers]
    said = containers_total(containers, init=init)
    stand_in = {name: limit for name, limit in spec.resources.limits.items() if huge_pages(name) or name not in said}
    return effective(containers, init=init, whole=stand_in | spec.resources.requests, overhead=spec.overhead)


# What is wrong with it


def _complaints(template: Template) -> Iterator[str]:
    names = [one.name for one in template.spec.containers]
    if SLURMD not in names:
        there = f"only {', '.join(map(repr, names))}" if names else "none"
        yield f"spec.containers needs a container named {SLURMD!r}, which runs jobs; found {there}"
    if template.selector is not None and (wrong := fault(template.selector)):
        yield f"{_REQUIRED}.{wrong}"
    for path, quantities in _quantities(template.spec):
        yield from _wrong_quantities(path, quantities)


def _quantities(spec: TemplateSpec) -> Iterator[tuple[str, Mapping[str, Quantity]]]:
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, one in enumerate(containers):
            yield f"spec.{kind}[{index}].resources.requests", one.resources.requests
            yield f"spec.{kind}[{index}].resources.limits", one.resources.limits
    yield "spec.resources.requests", spec.resources.requests
    yield "spec.resources.limits", spec.resources.limits
    yield "spec.overhead", spec.overhead


def _wrong_quantities(path: str, quantities: Mapping[str, Quantity]) -> Iterator[str]:
    for name, quantity in quantities.items():
        try:
            if amount(quantity) < 0:
                yield f"{path}: {name} is {quantity!r}, but a request cannot be negative"
        except Refusal as wrong:
            yield f"{path}: {name}: {str(wrong).rstrip('.')}"
        if path.startswith("spec.resources") and not said_of_pods(name):
            yield f"{path}: resources of a whole Pod are limited to cpu, memory and huge pages, found {name!r}"


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    return [_without_nulls(one) for one in tree] if isinstance(tree, list) else tree


def _in_words(complaint: str) -> str:
    """Put msgspec's path to the front: "Expected `str`, got `int` - at `$.spec.x`"."""
    found = _PATH.fullmatch(complaint)
    if found is None:
        return complaint
    path = found["path"].removeprefix("$").removeprefix(".")
    return f"{path}: {found['what'][0].lower()}{found['what'][1:]}" if path else found["what"]


def _invalid(complaint: str) -> InvalidTemplate:
    return InvalidTemplate(f"the Pod template is not valid: {complaint}.")
