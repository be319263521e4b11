"""What a container may do beyond what people wrote in its securityContext: as little as it needs.

docs/decisions has what was tried.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sunk.model.refusal import Refusal


def granted(theirs: Mapping[str, Any], needed: Iterable[tuple[str, str]], *, place: str) -> dict[str, Any]:
    """A securityContext with these capabilities, each of which comes with the reason for it. `place` is whose it is."""
    if theirs.get("privileged"):
        return dict(theirs)
    capabilities: dict[str, Any] = theirs.get("capabilities") or {}
    added, dropped = list(capabilities.get("add") or ()), capabilities.get("drop") or ()
    for capability, reason in needed:
        if capability in dropped:
            raise Refusal(
                f"{place}: securityContext drops {capability}, but {reason} needs it. Keep the capability, or change that setting."
            )
        if capability not in added and "ALL" not in added:
            added.append(capability)
    return {**theirs, "capabilities": capabilities | {"add": added}} if added else dict(theirs)


def of_sshd(reason: str) -> Iterator[tuple[str, str]]:
    """Not every runtime gives these to containers: containerd does, CRI-O does not."""
    # sshd locks the part of it that speaks to strangers into an empty folder.
    yield "SYS_CHROOT", reason
    # sshd and PAM tell the kernel's log of audits who comes and goes, and end the session of whom they cannot tell.
    yield "AUDIT_WRITE", reason
