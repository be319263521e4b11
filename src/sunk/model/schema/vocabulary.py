"""What a custom resource's struct may say beyond plain types.

Bounds are msgspec's own (`Meta(ge=0)`, `Meta(max_length=64)`), and hold on our side as well. The words here are those
that only Kubernetes has:

```python
class Member(Struct, frozen=True, gc=False, rename="camel"):
    \"\"\"One Slurm node of a slice.\"\"\"

    RULES: ClassVar = (rule("self.state != 'joined' || has(self.pod)", "a joined member names its Pod", path=".pod"),)

    name: Annotated[DnsLabel, rule("self == oldSelf", "a Slurm node keeps its name")]
    \"\"\"What Slurm calls it; decided once.\"\"\"
    state: Literal["joined", "parked", "leaving"] = "joined"
    \"\"\"Whether it takes part.\"\"\"
    pod: str | None = None
```

- The string below a field is its description, the class's docstring that of the object.
- A field without a default is required. `X | None = None` may be left out, and null means that. With any other
  default, or none, null is a value of its own. `X | UnsetType = UNSET` may be left out and is never null.
- Rules about a whole struct stand in `RULES`, those about one value in its `Annotated`.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw

from sunk.model.schema.pattern import END

Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]
Format = Literal["cidr", "date", "email", "hostname", "ipv4", "ipv6", "mac", "password", "uri", "uuid"]

RULES: Final = "RULES"
"""The class variable in which a struct keeps the rules about itself."""


def rule(  # noqa: PLR0913 - one for each word that Kubernetes has
    expression: str,
    message: str,
    *,
    message_expression: str = "",
    path: str = "",
    reason: Reason = "FieldValueInvalid",
    optional_old_self: bool = False,
) -> Meta:
    """A CEL rule that the API server holds every write against; `self` is what it is written at.

    It must have a bound on how often it may run: every list and map around it needs a `max_length`, and so does what
    it walks over itself. `path` says which field of `self` is to blame. `message_expression` is CEL that may say more
    than `message`, which remains for when it fails.
    """
    said = {"rule": expression, "message": message, "messageExpression": message_expression, "fieldPath": path}
    made: dict[str, object] = {word: text for word, text in said.items() if text}
    if reason != "FieldValueInvalid":  # what the API server takes it for anyway
        made["reason"] = reason
    if optional_old_self:
        made["optionalOldSelf"] = True
    return Meta(extra_json_schema={"x-kubernetes-validations": [made]})


def keyed(*fields: str) -> Meta:
    """A list whose items are told apart by these fields (named as in JSON), so that two writers may share it."""
    return Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(fields)})


def formatted(name: Format) -> Meta:
    """A string in a format that only the API server checks; msgspec has no word for it."""
    return Meta(extra_json_schema={"format": name})


UNIQUE: Final = Meta(extra_json_schema={"x-kubernetes-list-type": "set"})
"""A list of scalars without doubles, as `frozenset` is by itself."""

ATOMIC: Final = Meta(extra_json_schema={"x-atomic": True})
"""A list, map or struct that has one writer: server-side apply replaces it whole."""

OR_NULL: Final = Meta(extra_json_schema={"x-or-null": True})
"""In the values of a chart null will do as well, and means that it is not set. Helm takes null out of maps but not out of
lists, and the API server drops it."""

OR_EMPTY: Final = Meta(extra_json_schema={"x-or-empty": True})
"""In the values of a chart an empty text will do as a list as well, and means that it is not set. To the API server it is
no list: the chart has to leave it out."""

Opaque = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""An object that passes through untouched and unread, such as a Pod template."""

Embedded = Annotated[Raw, Meta(extra_json_schema={"type": "object", "x-kubernetes-embedded-resource": True})]
"""A whole object of any kind, whose apiVersion, kind and metadata the API server checks."""

IntOrString = int | str

Quantity = (
    Annotated[int, Meta(ge=0)]
    | Annotated[str, Meta(max_length=32, pattern=rf"^[+]?[0-9]+([.][0-9]*)?(n|u|m|k|[KMGTPE]i?|[eE][+-]?[0-9]+)?{END}")]
)
"""An amount of something as Kubernetes writes it: `8`, `500m`, `1.5Gi`. Never negative."""

Duration = Annotated[str, Meta(max_length=32, pattern=rf"^([0-9]+([.][0-9]+)?(ms|s|m|h))+{END}")]
"""A length of time as Go writes it: `90s`, `1h30m`."""

DnsLabel = Annotated[str, Meta(max_length=63, pattern=rf"^[a-z0-9]([-a-z0-9]*[a-z0-9])?{END}")]
"""A name that is good for Pods, hosts and labels alike."""
