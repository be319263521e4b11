"""Names of clusters and nodes.

They become folders, control groups and network namespaces of root, some of which are removed whole. So a name is held
against this wherever one of those is made out of it, and not only where a person types it.
"""

import re
from typing import Final, Literal

from sunk.model.refusal import Refusal

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")


def is_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def checked_name(name: str, *, kind: Literal["cluster", "node"] = "cluster") -> str:
    """The name itself, if it is one."""
    if not is_name(name):
        raise Refusal(
            f"{name!r} is not a valid name for a {kind}: use up to 30 lowercase letters, digits and dashes, "
            "beginning and ending with a letter or digit."
        )
    return name
