"""What an explanation is made of."""

from datetime import datetime

from msgspec import Struct


class Sentence(Struct, frozen=True, omit_defaults=True):
    """One link of the chain: what it is about, and what is so. `grave` is what should not be so."""

    about: str
    text: str
    since: datetime | None = None
    grave: bool = False
