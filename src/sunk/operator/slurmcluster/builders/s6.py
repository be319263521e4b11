"""Scripts that people have run by s6, beside the daemon of a Pod: files in a ConfigMap, a folder for each script.

/init of the image reads them at the start of the container (images/slurm/init). It would refuse an unknown dependency or a
circle too, but only in the Pod, when the old one is gone: so they are refused here, before anything is changed.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from sunk.model.cluster.parts import S6Service
from sunk.model.refusal import Refusal

FOLDER: Final = "/etc/sunk/s6"
VOLUME: Final = "s6"
MOUNT: Final = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
_DAEMONS: Final = frozenset({"sackd", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sshd"})
"""Services of the image, under whose names s6 has them already."""
OURS: Final = "0-sunk"
"""What the names of our own scripts begin with, so that they come first."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

Scripts = Mapping[str, S6Service]


def check(scripts: Scripts, *, at: str) -> None:
    """Refuse what s6 could not run; `at` is where they stand in the values."""
    for name, script in scripts.items():
        if not _NAME.fullmatch(name):
            raise Refusal(f"{at}.{name}: names of scripts consist of lowercase letters, digits and dashes.")
        if name.startswith(OURS):
            raise Refusal(f"{at}.{name}: names that begin with {OURS} are SUNK's own. Choose another.")
        if script.type == "longrun" and name in _DAEMONS:
            raise Refusal(f"{at}.{name}: the image has a service of this name. Choose another.")
        for index, needed in enumerate(script.dependencies):
            if needed not in scripts:
                known = ", ".join(sorted(set(scripts) - {name})) or "no other"
                raise Refusal(
                    f"{at}.{name}.dependencies[{index}]: {at} has no script {needed}. There is {known}. "
                    "Daemons start after all scripts by themselves."
                )
    if circle := _circle(scripts):
        told = " needs ".join(circle)
        raise Refusal(f"{at}.{circle[0]}.dependencies go round in a circle: {told}. Remove one of them.")


def _circle(scripts: Scripts) -> list[str]:
    """Scripts that wait for each other, the first once more at the end; empty if there are none."""
    left = {name: set(script.dependencies) for name, script in scripts.items()}
    while startable := [name for name, needs in left.items() if not needs]:
        left = {name: needs - set(startable) for name, needs in left.items() if name not in startable}
    if not left:
        return []
    way = [min(left)]
    while (needed := min(left[way[-1]])) not in way:
        way.append(needed)
    return [*way[way.index(needed) :], needed]


def files(scripts: Scripts) -> list[tuple[str, str, str]]:
    """Key in the ConfigMap, path below the folder of s6, and text of each file."""
    rows = []
    for name, script in scripts.items():
        texts = {"type": script.type, "script": script.script}
        texts |= {"dependencies": "".join(f"{needed}\n" for needed in script.dependencies)}
        texts |= {"timeout-up": str(script.timeout_up or ""), "timeout-down": str(script.timeout_down or "")}
        kept = {file: text for file, text in texts.items() if text or file == "script"}
        rows += [(f"{name}.{file}", f"{name}/{file}", text) for file, text in kept.items()]
    return rows


def data(scripts: Scripts) -> dict[str, str]:
    """What the ConfigMap has."""
    return {key: text for key, _, text in files(scripts)}


def volume(scripts: Scripts, *, config_map: str) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path, _ in files(scripts)]
    return {"name": VOLUME, "configMap": {"name": config_map, "items": items}}


def fingerprint(scripts: Scripts) -> str:
    """A hash of what runs once, when a Pod starts: if it changes, Pods have to be replaced."""
    texts = "\0".join(f"{path}\0{text}" for _, path, text in files(scripts))
    return sha256(texts.encode()).hexdigest()[:32]
