"""What this machine carries of clusters: taken before and after, the two must be equal."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

EXITING = 0x4
"""PF_EXITING of the kernel."""


class Footprint(msgspec.Struct, frozen=True):
    """Everything a cluster could leave behind."""

    processes: frozenset[str]
    namespaces: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    mounts: frozenset[str]
    control_groups: frozenset[str]
    firewall: str


def take(cluster: str) -> Footprint:
    """Look for everything that bears the cluster's name, and at the shared tables as a whole."""
    return Footprint(
        processes=frozenset(_processes(cluster)),
        namespaces=frozenset(path.name for path in Path("/run/netns").glob(f"sunk.{cluster}*")),
        links=frozenset(each["ifname"] for each in _ip("link") if each.get("ifalias") == f"sunk.{cluster}"),
        routes=frozenset(each["dst"] for each in _ip("route") if _of_no_other(each, cluster)),
        mounts=frozenset(line for line in Path("/proc/mounts").read_text().splitlines() if f"/{cluster}/" in line),
        control_groups=frozenset(_control_groups(f"sunk.{cluster}")),
        firewall=_firewall(),
    )


def _processes(cluster: str) -> set[str]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            groups = (folder / "cgroup").read_text()
            status = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if status[0] == "Z" or int(status[6]) & EXITING:
            continue  # dead or about to be: it holds nothing, and only its entry waits for process 1
        if f"/{cluster}/" in words or f"/sunk.{cluster}/" in groups:
            found.add(f"{folder.name} {words}")
    return found


def _firewall() -> str:
    """Without comments, which have the time, and without the number of packets that each chain has seen."""
    saved = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    lines = (line for line in saved.splitlines() if not line.startswith("#"))
    return "\n".join(line.partition(" [")[0] if line.startswith(":") else line for line in lines)


def _control_groups(name: str) -> Iterator[str]:
    # Groups of other clusters come and go meanwhile: os.walk passes over a folder that is gone, Path.glob raises.
    for folder, below, _ in os.walk("/sys/fs/cgroup"):
        if name in below:
            yield f"{folder}/{name}"


def _of_no_other(route: dict[str, str], cluster: str) -> bool:
    """Routes of clusters that others start and end meanwhile do not count; a route without its link cannot exist."""
    link = route.get("dev", "")
    own = any(each["ifname"] == link and each.get("ifalias") == f"sunk.{cluster}" for each in _ip("link"))
    return own or not link.startswith("sunk")


def _ip(what: str) -> list[dict[str, str]]:
    answer = subprocess.run(["ip", "-json", what, "show"], capture_output=True, text=True, check=True)
    found: list[dict[str, str]] = json.loads(answer.stdout)
    return found
