"""Records in which only what matters has a value."""

from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T", bound=Struct)
EMPTY: dict[Any, Any] = {str: "", int: 0, bool: False}


def blank(kind: type[T], **values: Any) -> T:
    rest = {each.name: EMPTY.get(each.type, () if "tuple" in str(each.type) else None) for each in structs.fields(kind)}
    return kind(**{**rest, **values})
