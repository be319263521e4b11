"""A kind that uses every word there is, for tests."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from sunk.model.schema.kind import AGE, Column, Kind, ScalePaths, Version
from sunk.model.schema.vocabulary import (
    ATOMIC,
    UNIQUE,
    DnsLabel,
    Duration,
    Embedded,
    IntOrString,
    Opaque,
    Quantity,
    formatted,
    keyed,
    rule,
)


class Colour(Enum):
    """How it is painted."""

    RED = "red"
    BLUE = "blue"


class Range(Struct, frozen=True, gc=False, rename="camel"):
    """From one number to another."""

    RULES: ClassVar = (
        rule(
            "self.least <= self.most",
            "least must not exceed most",
            message_expression="'least %d exceeds most %d'.format([self.least, self.most])",
            path=".least",
        ),
    )

    least: int = 1
    """Where it begins."""
    most: int = 9


class Member(Struct, frozen=True, gc=False, rename="camel"):
    """One of the gang."""

    name: DnsLabel
    """What it is called."""
    weight: Annotated[float, Meta(gt=0, lt=10)] = 1.5
    span: Range = Range(most=5)


class GangSpec(Struct, frozen=True, gc=False, rename="camel"):
    """What the gang should be.

    It may take
    some lines to say.
    """

    replicas: Annotated[int, Meta(ge=0, le=1000)] = 1
    """How many. Written over
    two lines."""
    queue: Annotated[DnsLabel, rule("self == oldSelf", "a gang keeps its queue")] = "default"
    colour: Colour = Colour.RED
    mode: Literal["fast", "slow"] | None = None
    max_unavailable: IntOrString = "25%"
    memory: Quantity = "1Gi"
    linger: Duration = "30s"
    members: Annotated[tuple[Member, ...], keyed("name"), Meta(max_length=10)] = ()
    tags: Annotated[tuple[str, ...], UNIQUE, Meta(min_length=1, max_length=4)] = ("a", "b")
    features: frozenset[str] = frozenset({"z", "y"})
    steps: Annotated[tuple[int, ...], ATOMIC] = ()
    labels: Annotated[dict[str, str], Meta(max_length=8)] = field(default_factory=dict)
    address: Annotated[str, formatted("ipv4"), Meta(description="Where it listens.")] | UnsetType = UNSET
    priority: int | None = 7
    """Null means: none at all."""
    pace: Annotated[int, Meta(multiple_of=5)] | None = None
    span: Annotated[Range, ATOMIC] = Range(least=2)
    template: Opaque = Raw(b"{}")
    embedded: Embedded | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    anything: Any = None
    n: bool = False
    """Its name is a truth value to the YAML of Kubernetes."""


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: Literal["True", "False", "Unknown"] = "Unknown"
    last_transition_time: datetime | None = None


class GangStatus(Struct, frozen=True, gc=False, rename="camel"):
    """What the gang is."""

    replicas: int = 0
    selector: str = ""
    conditions: Annotated[tuple[Condition, ...], keyed("type"), Meta(max_length=8)] = ()


GANG: Final = Kind(
    "Gang",
    group="test.sunk.coreweave.com",
    plural="gangs",
    description="Members that start together or not at all.",
    short_names=("gg",),
    categories=("tests",),
    stored=Version(
        "v1alpha1",
        spec=GangSpec,
        status=GangStatus,
        scale=ScalePaths(selector=".status.selector"),
        columns=(
            Column("Replicas", ".spec.replicas", type="integer", description="How many there should be."),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Queue", ".spec.queue", priority=1),
            AGE,
        ),
        rules=(rule("size(self.metadata.name) <= 20", "the name must have 20 letters or fewer"),),
    ),
)
