"""`sunk operator`, from the command line. What it imports to run is imported when it runs."""

import math
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from sunk.model.contract.lock import LINGER, LONGEST_LINGER
from sunk.model.names import CORDON_REASON
from sunk.service.options import ServiceOptions, run, serving

if TYPE_CHECKING:
    from sunk.service.part import Build

NAME = "sunk-controller-manager"
"""Of the Deployment and of the Lease."""


def _names(text: str) -> tuple[str, ...]:
    """Read names of namespaces, each once. One that cannot exist would be waited for in vain."""
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if odd := [name for name in names if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)]:
        raise click.BadParameter(f'"{odd[0]}" is not a valid namespace: separate names with commas, as in a,b')
    return names


def _key(text: str) -> str:
    """Read the key of an annotation. One that cannot exist would be looked for in vain."""
    prefix = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    if not re.fullmatch(prefix + r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", text):
        raise click.BadParameter(f'"{text}" is not a valid annotation key: write it like {CORDON_REASON}')
    return text


def _number(seconds: float) -> float:
    """Refuse what is a float and no number: no range keeps it out."""
    if math.isnan(seconds):
        raise click.BadParameter("nan is not a number of seconds")
    return seconds


@click.command(context_settings={"show_default": True})
@click.option(
    "--namespaces",
    envvar="SUNK_NAMESPACES",
    show_envvar=True,
    default="",
    callback=lambda _context, _option, text: _names(text),
    show_default="all namespaces",
    help="Namespaces with SlurmClusters and NodeSets to manage, separated by commas.",
)
@click.option(
    "--lease-namespace",
    envvar="SUNK_LEASE_NAMESPACE",
    show_envvar=True,
    default="",
    show_default="namespace of this Pod or of the kubeconfig's context",
    help="Namespace of the Lease for leader election.",
)
@click.option(
    "--cordon-reason-annotation",
    envvar="SUNK_CORDON_REASON_ANNOTATION",
    show_envvar=True,
    default=CORDON_REASON,
    callback=lambda _context, _option, text: _key(text),
    help="Annotation of Nodes that holds the reason for a cordon.",
)
@click.option(
    "--lock-linger",
    envvar="SUNK_LOCK_LINGER",
    show_envvar=True,
    type=click.FloatRange(0, LONGEST_LINGER),
    callback=lambda _context, _option, seconds: _number(seconds),
    default=LINGER,
    help="Seconds that an idle Node stays locked, in case the next job comes soon.",
)
@serving(workers=8, at_once="Number of objects that each controller handles concurrently.", stop_seconds=20.0)
def operator(
    *,
    namespaces: tuple[str, ...],
    lease_namespace: str,
    cordon_reason_annotation: str,
    lock_linger: float,
    service_options: ServiceOptions,
) -> None:
    """Run the operator, which builds Slurm clusters out of Pods.

    Runs until SIGTERM. Any number of replicas can run: one leads, the others stand by with warm caches.
    """
    access = service_options.begin()
    service_settings = service_options.settings(name=NAME, namespaces=namespaces, lease_namespace=lease_namespace)
    builds = _builds(cordon_reason=cordon_reason_annotation, lock_linger=lock_linger)
    sys.exit(run(service_settings, access=access, builds=builds, called="operator"))


def _builds(*, cordon_reason: str, lock_linger: float) -> "tuple[Build, ...]":
    """The parts of the operator, in the order in which they hear of a change."""
    from sunk.operator.node.controller import nodes
    from sunk.operator.nodeset.controller import nodesets
    from sunk.operator.pod.controller import pods
    from sunk.operator.slurmcluster.controller import slurmclusters

    return (
        partial(pods, cordon_reason=cordon_reason),
        partial(nodesets, cordon_reason=cordon_reason),
        slurmclusters,
        partial(nodes, lock_linger=lock_linger),
    )
