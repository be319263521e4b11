"""The deep update: what a layer makes of that which the layers below it have made.

Kept as it was written is a list that stands in one layer only, or in several alike: it may be a command line, where a
word may come twice. Lists that differ are united, and there each text stands once. An item whose `name` stands several
times in one layer (two mounts of one volume) meets the item that is as far along below: the first the first, the second
the second; a layer's own items never meet each other.
"""

from collections import Counter
from collections.abc import Iterator

from sunk.model.layers.affinity import TERMS, terms
from sunk.model.layers.tree import ListNode, MapNode, Part, ScalarNode, absent, inside, same, written
from sunk.model.refusal import Refusal


def update(below: Part | None, above: Part, *, at: str) -> Part | None:
    """What there is now; none if the layer takes it away. `at` says where, for a person who has to mend it."""
    if absent(above):
        return None
    beneath = _blank(above) if below is None else below
    if isinstance(above, MapNode) and isinstance(beneath, MapNode):
        return _map(beneath, above, at=at)
    if isinstance(above, ListNode) and isinstance(beneath, ListNode):
        return _list(beneath, above, at=at)
    if isinstance(above, ScalarNode) and isinstance(beneath, ScalarNode):
        return above
    raise Refusal(
        f"{at} is {above.kind} in layer {above.layer}, but {beneath.kind} in layer {beneath.layer}. Write it the same "
        f"way in both, or put a layer between that sets it to null."
    )


def _blank(part: Part) -> Part:
    """What a part is laid over where there is nothing yet: nulls deeper inside still have to go."""
    if isinstance(part, MapNode):
        return MapNode({}, part.layer)
    return ListNode((), part.layer) if isinstance(part, ListNode) else part


def _map(below: MapNode, above: MapNode, *, at: str) -> MapNode:
    parts = dict(below.parts)
    for key, part in above.parts.items():
        made = update(parts.get(key), part, at=inside(at, key))
        if made is None:
            parts.pop(key, None)
        else:
            parts[key] = made
    return MapNode(parts, below.layer)


def _list(below: ListNode, above: ListNode, *, at: str) -> ListNode:
    if at.endswith(TERMS):
        return terms(below, above, at=at)
    alone = ListNode(tuple(_fresh(part, at=at) for part in above.parts), above.layer)
    if not below.parts:
        return alone
    return below if not alone.parts or same(below, alone) else _united(below, above, at=at)


def _united(below: ListNode, above: ListNode, *, at: str) -> ListNode:
    parts: list[Part] = []
    places: dict[object, int] = {}
    for identity, part in (*_identified(below, at=at), *_identified(above, at=at)):
        if identity not in places:
            places[identity] = len(parts)
            parts.append(_fitting(_fresh(part, at=at), beside=parts, at=at))
        elif isinstance(identity, tuple):
            place = places[identity]
            parts[place] = update(parts[place], part, at=f"{at}[{identity[0]}]") or parts[place]
    return ListNode(tuple(parts), below.layer)


def _identified(listed: ListNode, *, at: str) -> Iterator[tuple[object, Part]]:
    """Each item with what another one is known by as the same: its name and how often that came before, or all of it."""
    counted = Counter[object]()
    for part in listed.parts:
        name = part.parts.get("name") if isinstance(part, MapNode) else None
        if isinstance(name, ScalarNode) and not absent(name):
            yield (name.value, counted[name.value]), part
            counted[name.value] += 1
        else:
            yield written(_fresh(part, at=at)), part


def _fresh(part: Part, *, at: str) -> Part:
    """An item that meets none below."""
    return update(None, part, at=f"{at}[]") or part


def _fitting(part: Part, *, beside: list[Part], at: str) -> Part:
    """An item that may stand in one list with the others."""
    if beside and beside[0].kind != part.kind:
        raise Refusal(
            f"{at} holds {part.kind} in layer {part.layer}, but {beside[0].kind} in layer {beside[0].layer}. Write its "
            f"items the same way in both."
        )
    return part
