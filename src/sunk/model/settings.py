"""Settings of a process, declared once: a struct in the values of a chart, and options on a command line.

Each field is a value (`notReadyAfter`), an option (`--not-ready-after`) and a variable (`SUNK_NOT_READY_AFTER`), all of one
name. Its description is the string below the field, in the page of values as in `--help`. The operator turns the values
into variables, and the process turns these back into the same struct. Not into arguments: operator and image are
upgraded one after the other, and a process that does not know an argument does not start.
"""

from typing import Any

from msgspec import Struct, inspect

from sunk.model.schema import docs


class SettingOption(Struct, frozen=True):
    """One setting as an option of a command line."""

    name: str
    """Of the field."""
    default: Any
    help: str
    least: float | None = None
    most: float | None = None

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"SUNK_{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)

    @property
    def negative(self) -> str:
        """What switches it off."""
        return f"--no-{self.name.replace('_', '-')}"


def options(kind: type[Struct]) -> list[SettingOption]:
    """The settings of a struct whose fields are switches and numbers, in the order of the fields."""
    described = docs.of_fields(kind)
    return [_option(field, help_text=described[field.name]) for field in inspect.type_info(kind).fields]  # type: ignore[attr-defined]


def environment(settings: Struct) -> dict[str, str]:
    """The variables that say these settings."""
    return {option.variable: _text(getattr(settings, option.name)) for option in options(type(settings))}


def _option(field: inspect.Field, *, help_text: str) -> SettingOption:
    match field.type:
        case inspect.BoolType():
            return SettingOption(field.name, field.default, help_text)
        case inspect.FloatType(ge=least, le=most):
            return SettingOption(field.name, field.default, help_text, least=least, most=most)
    raise TypeError(f"{field.name}: a setting is a switch or a number, not {field.type}")


def _text(value: bool | float) -> str:  # noqa: FBT001 - it is what is said
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
