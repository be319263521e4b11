"""Required node affinity: a layer asks for its own keys, and leaves what others ask for.

Layers that choose a region, a GPU or a reservation shall be exchanged for each other. So expressions are matched by
`key`, and those of a layer take the place of all those below about the same key, whole: operator and values. (With the
rule for other lists, LAS1 and LGA1 would be asked for at once, which no Node can fulfil.) An expression whose operator
is null takes away those about its key. `matchFields` are treated alike.

All of this assumes one term. Several terms are alternatives, and what becomes of them has to keep to what each layer
asked for:

- One over several, or several over one: each is laid over each, so that what one layer asks for holds in every
  alternative of the other. Equal terms stand once.
- Several over several are refused, unless those below say all of it already. Pairing them in order would be a guess,
  and all combinations would grow with every layer that is applied twice.
"""

from typing import Final

from sunk.model.layers.tree import ListNode, MapNode, Part, ScalarNode, absent, same, settled, written
from sunk.model.refusal import Refusal

TERMS: Final = ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
"""How the path of a list ends that these rules are for."""

_MATCHED: Final = frozenset({"matchExpressions", "matchFields"})


def terms(below: ListNode, above: ListNode, *, at: str) -> ListNode:
    """The terms of both layers in one."""
    olds = tuple(_term(part, at=at) for part in below.parts) or (MapNode({}, above.layer),)
    news = tuple(_term(part, at=at) for part in above.parts)
    if not news:
        return below
    if len(olds) == 1 or len(news) == 1:
        laid = (_laid(old, new, at=at) for old in olds for new in news)
        return ListNode(tuple({written(one): one for one in laid}.values()), below.layer)
    if len(olds) == len(news) and all(same(_laid(o, n, at=at), o) for o, n in zip(olds, news, strict=True)):
        return below
    raise Refusal(
        f"{at} has {len(news)} terms in layer {above.layer}, over {len(olds)} from layer {below.layer}: they cannot be "
        f"matched. Put several terms into one layer only, or set affinity to null in a layer between."
    )


def _term(part: Part, *, at: str) -> MapNode:
    if isinstance(part, MapNode):
        return part
    raise Refusal(f"{at} holds {part.kind} in layer {part.layer}: a term is a map with matchExpressions.")


def _laid(old: MapNode, new: MapNode, *, at: str) -> MapNode:
    """A term over another one."""
    parts = dict(old.parts)
    for key, part in new.parts.items():
        if absent(part):
            parts.pop(key, None)
        elif key in _MATCHED:
            parts[key] = _expressions(parts.get(key), part, at=f"{at}[].{key}")
        else:
            parts[key] = settled(part)
    return MapNode(parts, old.layer)


def _expressions(old: Part | None, new: Part, *, at: str) -> ListNode:
    """Expressions stay in their places; those about a key that is new come last."""
    by_key = _by_key(old, at=at) if old is not None else {}
    by_key.update(_by_key(new, at=at))
    kept = tuple(settled(part) for group in by_key.values() for part in group if _asks(part))
    return ListNode(kept, (old or new).layer)


def _by_key(listed: Part, *, at: str) -> dict[str, tuple[MapNode, ...]]:
    """Several about one key stay together: Gt and Lt make a range."""
    if not isinstance(listed, ListNode):
        raise Refusal(f"{at} is {listed.kind} in layer {listed.layer}: expressions must be a list.")
    found: dict[str, tuple[MapNode, ...]] = {}
    for part in listed.parts:
        key = part.parts.get("key") if isinstance(part, MapNode) else None
        if not (isinstance(part, MapNode) and isinstance(key, ScalarNode) and isinstance(key.value, str)):
            raise Refusal(f"{at} holds an expression without a key in layer {part.layer}: add the label's key.")
        found[key.value] = (*found.get(key.value, ()), part)
    return found


def _asks(expression: MapNode) -> bool:
    """Whether it asks for something, or takes away by an operator that is null."""
    return "operator" not in expression.parts or not absent(expression.parts["operator"])
