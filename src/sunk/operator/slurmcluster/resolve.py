"""A SlurmCluster as the builders see it: checked, its definitions composed, nothing left open.

Builders are functions from a `ResolvedCluster` to objects of Kubernetes or to texts. They read nothing else, so what a
cluster becomes can be looked at without a cluster (`sunk render`).
"""

import re
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from sunk.model.cluster.compute import Definition
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.cluster.parts import EnvironmentVariable, Image, Resources
from sunk.model.kubernetes.quantity import Quantity
from sunk.model.layers.compose import compose
from sunk.model.nodeset import LONGEST_PREFIX, DynamicFeature
from sunk.model.refusal import Refusal

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PATH: Final = re.compile(r"(?P<what>.*) - at `(?P<path>.*)`", re.DOTALL)
SPECIAL: Final = frozenset({"all", "default"})
"""Words that slurm.conf reads as something else where the name of a partition or a set of nodes stands."""


class NodeDefinition(Struct, frozen=True, gc=False, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """An enabled definition with all that its layers gave it. The words are those of `model.cluster.compute`."""

    name: str
    enabled: bool = False
    replicas: int | None = None
    features: tuple[str, ...] = ()
    static_features: tuple[str, ...] = ()
    dynamic_features: dict[str, DynamicFeature] = field(default_factory=dict)
    image: Image = Image()
    env: tuple[EnvironmentVariable, ...] = ()
    gres_gpu: str = ""
    sku_cpu: int | None = None
    resources: Resources = Resources()
    affinity: dict[str, Any] = field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    sharing: Literal["open", "slurmOnly"] = "open"
    partition_config: dict[str, int | str] = field(default_factory=dict)
    pod_name_prefix: str = ""
    naming: Literal["address", "ordinal"] = "address"
    priority_class_name: str | None = None
    security_context: dict[str, Any] | None = None
    shared_memory: Quantity | None = None
    containers: tuple[dict[str, Any], ...] = ()
    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    update_strategy: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    max_unavailable: int | str | None = None
    termination_grace_period_seconds: int = 30
    host_network: bool = False

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"compute.nodes.{self.name}"


class ResolvedCluster(Struct, frozen=True):
    """What one SlurmCluster asks for."""

    name: str
    namespace: str
    uid: str
    """Empty if there is no such object, as when it is only rendered."""
    spec: SlurmClusterSpec
    definitions: tuple[NodeDefinition, ...] = ()
    """Those that are enabled, by name."""
    certificate: str = "in-force"
    """The id of the certificate that the hook API serves with. It is not known where a cluster is only rendered."""

    def named(self, part: str) -> str:
        """The name of an object of this cluster."""
        return f"{self.name}-{part}"

    def features(self, definition: NodeDefinition) -> tuple[str, ...]:
        """Features of its nodes. The first is the name of its NodeSet, by which they find into its partition.

        The name of the definition alone would not do: layers give features such as `cpu` or `h100` to many definitions.
        """
        own = self.named(definition.name)
        return tuple(dict.fromkeys((own, *definition.features, *definition.static_features)))

    def prefix(self, definition: NodeDefinition) -> str:
        """What the names of Pods and Slurm nodes begin with."""
        return definition.pod_name_prefix or self.named(definition.name)


def resolve(spec: SlurmClusterSpec, *, name: str, namespace: str, uid: str = "") -> ResolvedCluster:
    """Check a SlurmCluster and compose its definitions; what cannot become a cluster is refused, with its path in the values."""
    nodes, layers = _plain(spec.compute.nodes), _plain(spec.compute.layers)
    enabled = sorted(key for key, definition in spec.compute.nodes.items() if definition.enabled is True)
    definitions = tuple(_definition(key, compose(key, nodes=nodes, shipped=layers).value) for key in enabled)
    made = ResolvedCluster(name=name, namespace=namespace, uid=uid, spec=spec, definitions=definitions)
    _check_replicas(spec)
    _check_prefixes(made)
    return made


def _plain(definitions: dict[str, Definition]) -> dict[str, object]:
    """As they were written: null stays, what was not said is not there."""
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(definitions))
    return plain


def _definition(name: str, value: dict[str, Any]) -> NodeDefinition:
    if not _NAME.fullmatch(name) or name in SPECIAL:
        raise Refusal(
            f"compute.nodes.{name}: an enabled definition becomes a partition and part of Pod names, so its name consists "
            f"of lowercase letters, digits and dashes, begins with a letter and is not {' or '.join(sorted(SPECIAL))}."
        )
    try:
        return msgspec.convert(value | {"name": name}, NodeDefinition)
    except msgspec.ValidationError as wrong:
        raise Refusal(f"compute.nodes.{name}{_in_words(str(wrong))}") from wrong


def _in_words(complaint: str) -> str:
    match = _PATH.fullmatch(complaint)
    return f"{match['path'].removeprefix('$')}: {match['what']}." if match else f": {complaint}."


def _check_replicas(spec: SlurmClusterSpec) -> None:
    if spec.controller.replicas > 1:
        raise Refusal(
            f"controller.replicas is {spec.controller.replicas}: it must be 0 or 1. Kubernetes restarts slurmctld "
            "when it dies, and two would fight over the state."
        )


def _check_prefixes(cluster: ResolvedCluster) -> None:
    """Nodes of two definitions must not be called alike, and their names have to fit."""
    owners: dict[str, str] = {}
    for definition in cluster.definitions:
        prefix = cluster.prefix(definition)
        if len(prefix) > LONGEST_PREFIX:
            raise Refusal(
                f"{definition.place}: the prefix {prefix} of its nodes has {len(prefix)} characters, but at most {LONGEST_PREFIX} are "
                f"allowed. Set a shorter podNamePrefix."
            )
        if prefix in owners:
            raise Refusal(f"{definition.place}.podNamePrefix: {owners[prefix]} already uses {prefix}. Choose another.")
        owners[prefix] = definition.name
