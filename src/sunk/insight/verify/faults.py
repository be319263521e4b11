"""What a watcher can find, and for how long it may last."""

from typing import Final

from msgspec import Struct

MOMENT: Final = 15.0
"""Within so many seconds a change on one side is seen on the other."""
WAVE: Final = 90.0
"""Drains of many Pods at once may be put off for a minute."""
BRIEF: Final = 2.0
"""A record that was lifted a moment ago may meet a cordon that came a moment later."""
LONG: Final = 300.0


class Fault(Struct, frozen=True):
    """Something that is not as it should be. `law` is its number in the docs; `grace` how long it may last."""

    law: int
    topic: str
    """Which rule of that law; with `about` it tells whether a fault is the same one as before."""
    about: str
    text: str
    grace: float = 0.0
