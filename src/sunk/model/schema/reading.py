"""From a msgspec struct to its shape; what no schema of the API server can say is refused with its path."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, get_origin

from msgspec import NODEFAULT, Struct, inspect, structs

from sunk.model.schema import docs
from sunk.model.schema.defaults import json_form, written
from sunk.model.schema.notes import accepted, noted, rules_of
from sunk.model.schema.pattern import differs, portable
from sunk.model.schema.shape import Anything, IntOrStr, List, Map, Object, Place, Property, Scalar, Shape
from sunk.model.schema.vocabulary import RULES

_ADVICE: Final[dict[type[inspect.Type], str]] = {
    inspect.TupleType: "write tuple[X, ...] with a bound, or a struct with a field for each place",
    inspect.TimeDeltaType: "msgspec writes ISO 8601 and Kubernetes reads Go's durations: use Duration",
    inspect.DecimalType: "use Quantity, or a str with a pattern",
}
_OTHERS: Final = "use str, int, float, bool, datetime, Literal, Enum, tuple, frozenset, dict, a Struct, Opaque or Any"


def read(kind: type[Struct]) -> Object:
    """The shape of a struct and of all that it holds."""
    place = Place(kind.__name__)
    try:
        found = inspect.type_info(kind)
    except (TypeError, NameError) as unknown:
        raise place.refuse(str(unknown), advice="msgspec cannot read such a type either") from unknown
    shape = _shape(found, at=place)
    if not isinstance(shape, Object):
        raise place.refuse("it is no struct of named fields", advice="declare it as a Struct")
    return shape


def _shape(found: inspect.Type, *, at: Place) -> Shape:
    notes: Mapping[str, Any] = {}
    if isinstance(found, inspect.Metadata):
        notes, found = found.extra_json_schema or {}, found.type
    match found:
        case inspect.UnionType(types=types):
            bare = _union(types, at=at)
        case inspect.StructType():
            bare = _struct(found, at=at)
        case inspect.DictType() | inspect.CollectionType():
            bare = _many(found, at=at)
        case _:
            bare = _single(found, at=at)
    return noted(bare, notes, at=at)


def _single(found: inspect.Type, *, at: Place) -> Shape:
    match found:
        case inspect.AnyType() | inspect.RawType():
            return Anything(nullable=True)
        case inspect.BoolType():
            return Scalar(type="boolean")
        case inspect.IntType() | inspect.FloatType():
            return _number(found)
        case inspect.StrType() | inspect.DateTimeType():
            return Scalar(type="string", words=_text_bounds(found, at=at))
        case inspect.LiteralType(values=values):
            return _choice(values, at=at)
        case inspect.EnumType(cls=cls):
            return structs.replace(_choice(_values(cls), at=at), description=docs.of_class(cls))
    raise at.refuse(f"no schema has a word for {_name(found)}", advice=_ADVICE.get(type(found), _OTHERS))


def _number(found: inspect.IntType | inspect.FloatType) -> Scalar:
    words = _given(minimum=found.ge, maximum=found.le, multipleOf=found.multiple_of)
    if isinstance(found, inspect.FloatType):
        return Scalar(type="number", words=words, above=found.gt, below=found.lt)
    floor = None if found.gt is None else found.gt + 1
    ceiling = None if found.lt is None else found.lt - 1
    return Scalar(type="integer", words=words | _given(minimum=floor, maximum=ceiling))


def _values(cls: type[Enum]) -> tuple[Any, ...]:
    return tuple(one.value for one in cls)


def _choice(values: tuple[Any, ...], *, at: Place) -> Scalar:
    plain = tuple(value for value in values if value is not None)
    kinds = {type(value) for value in plain}
    if kinds not in ({str}, {int}):
        raise at.refuse(f"the choices are {values}", advice="give strings only, or whole numbers only")
    kind: Any = "string" if kinds == {str} else "integer"
    return Scalar(type=kind, choices=plain, nullable=None in values)


def _given(**words: Any) -> dict[str, Any]:
    return {word: value for word, value in words.items() if value is not None}


def _text_bounds(found: inspect.StrType | inspect.DateTimeType, *, at: Place) -> dict[str, Any]:
    if isinstance(found, inspect.DateTimeType):
        return {"format": "date-time"}
    if found.pattern is not None and (trouble := differs(found.pattern)):
        raise at.refuse("the API server would read the pattern differently", advice=trouble)
    pattern = None if found.pattern is None else portable(found.pattern)
    return _given(minLength=found.min_length, maxLength=found.max_length, pattern=pattern)


def _many(found: inspect.DictType | inspect.CollectionType, *, at: Place) -> Shape:
    bounded = found.max_length is not None
    if isinstance(found, inspect.DictType):
        if found.key_type != inspect.StrType():
            advice = "use str, and check the names by a rule such as self.all(name, name.matches('…'))"
            raise at.refuse("names of a map are plain strings to the API server", advice=advice)
        values = _shape(found.value_type, at=at.repeated("{}", bounded=bounded))
        return Map(values=values, words=_given(minProperties=found.min_length, maxProperties=found.max_length))
    items = _shape(found.item_type, at=at.repeated("[]", bounded=bounded))
    unique = isinstance(found, inspect.SetType | inspect.FrozenSetType)
    words = _given(minItems=found.min_length, maxItems=found.max_length)
    return List(items=items, list_type="set" if unique else "", words=words)


def _union(types: tuple[inspect.Type, ...], *, at: Place) -> Shape:
    members = [_shape(one, at=at) for one in types if not isinstance(one, inspect.NoneType)]
    nullable = len(members) < len(types)
    match members:
        case [only]:
            return structs.replace(only, nullable=True)
        case [Scalar(type="integer", choices=()) as one, Scalar(type="string", choices=()) as other]:
            return IntOrStr(words={**one.words, **other.words}, nullable=nullable)
        case [Scalar(type="string", choices=()) as one, Scalar(type="integer", choices=()) as other]:
            return IntOrStr(words={**one.words, **other.words}, nullable=nullable)
    union = " | ".join(map(_name, types))
    advice = "choose one, use IntOrString, or a struct with an optional field for each and a rule that one is set"
    raise at.refuse(f"a structural schema cannot say {union}", advice=advice)


def _struct(found: inspect.StructType, *, at: Place) -> Object:
    kind: type[Struct] = get_origin(found.cls) or found.cls
    if kind in at.within:
        raise at.refuse(f"{kind.__name__} holds itself", advice="a schema has an end: pass the inner one as Opaque")
    if found.array_like or found.tag_field:
        raise at.refuse(f"{kind.__name__} is written as an array, or with a tag", advice="leave array_like and tag out")
    told = docs.of_fields(kind)
    members = tuple(
        _member(field, told=told.get(field.name, ""), at=at.inside(kind).into(f".{field.encode_name}"))
        for field in found.fields
    )
    rules = accepted(rules_of(getattr(kind, RULES, ())), at=at)
    return Object(members=members, description=docs.of_class(kind), rules=rules)


def _member(field: inspect.Field, *, told: str, at: Place) -> Property:
    shape = _shape(field.type, at=at)
    noted = isinstance(field.type, inspect.Metadata) and "description" in (field.type.extra_json_schema or {})
    if told and not noted:
        shape = structs.replace(shape, description=told)
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    member = Property(name=field.encode_name, shape=shape, required=field.required, null_is_absence=value is None)
    if value is None or value is NODEFAULT:
        return member
    return structs.replace(member, default=written(json_form(value), shape=shape))


def _name(found: inspect.Type) -> str:
    match found:
        case inspect.Metadata(type=inner):
            return _name(inner)
        case inspect.StructType(cls=cls) | inspect.EnumType(cls=cls):
            return str(cls.__name__)
        case inspect.UnionType(types=types):
            return " | ".join(map(_name, types))
        case inspect.VarTupleType(item_type=item):
            return f"tuple[{_name(item)}, ...]"
    return type(found).__name__.removesuffix("Type").lower()
