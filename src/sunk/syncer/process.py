"""The syncer as a part of a process: what it follows, what it does while it leads, and what it tells of itself.

Collections and the mirror of Slurm are run always, also while another copy leads, so that a takeover decides at once.
"""

from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Scope
from sunk.kube.api.limits import Bucket
from sunk.kube.cache.collection import Collection
from sunk.kube.core import CONFIG_MAPS
from sunk.model.contract import clusterobjects
from sunk.objects.clusters import SLURMCLUSTERS
from sunk.objects.members import NODESETS, NODESLICES
from sunk.service.part import Build, Part, Setting
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.accounting import Inquiry
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.syncer.conditions.controller import Upward
from sunk.syncer.config.controller import Configuration
from sunk.syncer.context import Ground, Manner
from sunk.syncer.drains.controller import Downward
from sunk.syncer.members import Members
from sunk.syncer.metrics import Collected
from sunk.syncer.pods import compute_pods
from sunk.syncer.removal.clearance import Clearing
from sunk.syncer.removal.completing import Completing
from sunk.syncer.removal.holders import Holders
from sunk.syncer.removal.orphans import Orphans
from sunk.syncer.removal.release import Release
from sunk.syncer.removal.reshape import Reshape
from sunk.syncer.removal.unregistered import Strangers
from sunk.syncer.visibility.acceptance import Accepting
from sunk.syncer.visibility.clocks import Clocks
from sunk.syncer.visibility.report import Reporter
from sunk.syncer.visibility.visibility import Sight

RESTARTS: Final = 0.1
"""Pods that are started anew in a second at most, to make Slurm know them."""


class Choice(Struct, frozen=True):
    """Which Slurm cluster, and how its syncer behaves."""

    cluster: str
    namespace: str
    manner: Manner = Manner()

    @property
    def name(self) -> str:
        """Of the Deployment and of the Lease."""
        return clusterobjects.named(self.cluster, clusterobjects.SYNCER)


def syncer(choice: Choice, *, library: Library) -> Build:
    """How the syncer of one Slurm cluster is made, once libslurm is loaded."""
    return lambda setting: _build(lay(choice, setting, library=library))


def lay(choice: Choice, setting: Setting, *, library: Library) -> Ground:
    """Make what all parts stand on."""
    here = choice.namespace
    client = setting.client
    mirror = Mirror(library)
    sets = Collection(client, NODESETS, Scope(namespace=here), indexes={"uid": lambda record: (record.metadata.uid,)})
    return Ground(
        namespace=here,
        cluster=choice.cluster,
        client=client,
        recorder=setting.recorder,
        may_write=setting.may_write,
        pods=compute_pods(client, sets, cluster=choice.cluster, namespace=here),
        # Of all clusters of the namespace: one that lost its label would look like members that are gone.
        slices=Collection(client, NODESLICES, Scope(namespace=here)),
        sets=sets,
        clusters=Collection(client, SLURMCLUSTERS, _only(choice.cluster, here)),
        files=Collection(
            client, CONFIG_MAPS, _only(clusterobjects.named(choice.cluster, clusterobjects.SLURM_CONF), here)
        ),
        library=library,
        mirror=mirror,
        orders=Orders(library, mirror=mirror),
        manner=choice.manner,
    )


def _only(name: str, namespace: str) -> Scope:
    """One object, which is also all that our account may read of its kind."""
    return Scope(namespace=namespace, fields=f"metadata.name={name}")


def _build(ground: Ground) -> Part:
    """Make the parts, each of which owns what it writes, and say who has something to tell."""
    members, holders = Members(ground.slices.store, cluster=ground.cluster), Holders(ground.mirror.jobs)
    restarts = Bucket(RESTARTS, burst=1)
    sight, accepting, configuration = Sight(ground), Accepting(ground), Configuration(ground)
    clocks = Clocks(ground)
    downward = Downward(ground, members, want_reconfigure=configuration.want_reconfigure)
    upward, clearing = Upward(ground, holders), Clearing(ground, holders)
    completing = Completing(ground, holders, unkillable=configuration.unkillable, tell=upward.stuck)
    release = Release(ground, members, holders)
    orphans = Orphans(ground, members, holders, deleted=release.deleted)
    strangers = Strangers(ground, members, holders, restarts=restarts)
    reshape = Reshape(ground, members, holders, restarts=restarts)
    speaking = (sight, clocks, configuration, downward, clearing, completing, orphans, strangers, reshape)
    reporter = Reporter(ground, [one.report for one in speaking])
    return Part(
        "syncer",
        follows=(ground.pods, ground.slices, ground.sets, ground.clusters, ground.files),
        controllers=tuple(one.controller for one in (accepting, upward, clearing, release, reshape)),
        work=(configuration, downward, completing.work, orphans.work, strangers.work, reporter),
        duties={"mirror of Slurm": ground.mirror.run, "accounting": Inquiry(ground.library, ground.mirror).run},
        unready={"slurm": sight.trouble},
        collectors=(Collected(ground, downward, clocks),),
    )
