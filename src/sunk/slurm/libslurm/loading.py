"""Load libslurm into this process, which can be done in one way only.

- Its plugins look for its symbols among those that are loaded globally. Without that Slurm ends the whole process.
- Without a configuration it waits for a minute; so its file is looked for first.
- It is initialised once, before there are threads.

Who we are is decided here as well. With auth/slurm the daemon behind the socket in /run/slurm (sackd) vouches for the
uid of this process, which has to be root's or SlurmUser's to give orders; no key is read by us, and root is not needed.
With SLURM_JWT in the environment the token decides instead; it is read once, so it has to outlive the process. Munge
works where slurm.conf says so and its plugin and socket are there.
"""

import importlib
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from sunk.model.refusal import Refusal

if TYPE_CHECKING:
    from sunk.slurm.binding._libslurm import _FFI, _Lib

EXTENSION: Final = "sunk.slurm.binding._libslurm"
PLACES: Final = (Path("/etc/slurm/slurm.conf"), Path("/run/slurm/conf/slurm.conf"))
_once: Final = threading.Lock()
_loaded: list[ModuleType] = []


def load(configuration: Path | None = None) -> "tuple[_Lib, _FFI]":
    """Give the library, initialised. A second call gives the same one, whatever configuration it names."""
    with _once:
        if not _loaded:
            found = configuration or locate()
            module = _import()
            _initialise(module, found if configuration else None)
            _loaded.append(module)
    return _loaded[0].lib, _loaded[0].ffi


def _import() -> ModuleType:
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    try:
        return importlib.import_module(EXTENSION)
    except ImportError as error:
        raise Refusal(f"libslurm is not available ({error}). Run this in the image sunk, which contains it.") from error
    finally:
        sys.setdlopenflags(before)


def _initialise(module: Any, configuration: Path | None) -> None:
    if configuration and not configuration.is_file():
        raise Refusal(f"no Slurm configuration at {configuration}. Mount it, or specify another path.")
    module.lib.slurm_init(str(configuration).encode() if configuration else module.ffi.NULL)


def locate() -> Path:
    """Look where libslurm will look."""
    named = os.environ.get("SLURM_CONF")
    places = (Path(named),) if named else PLACES
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise Refusal(
            f"no Slurm configuration at {' or '.join(map(str, places))}. "
            "Mount it, run sackd next to this process, or set SLURM_CONF to the file."
        )
    return found
