"""The syncer as a part of a process: what it follows, what it does while it leads, and what it reports about itself.

Collections and the mirror of Slurm are run always, also while another copy leads, so that a takeover decides at once. Hooks
are served by every copy too: a call that the leader has to do something for is answered when its writes are seen.
"""

from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Scope
from sunk.kube.api.limits import Bucket
from sunk.kube.cache.collection import Collection
from sunk.kube.core import CONFIG_MAPS
from sunk.model.cluster.daemons import SyncerSettings
from sunk.model.contract import clusterobjects
from sunk.objects.nodesets import NODESETS, NODESLICES
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.service.part import Build, Part, Setting
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.accounting import Inquiry
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.syncer.accounts.controller import AccountController, AccountSources
from sunk.syncer.conditions.completing import CompletingNodes
from sunk.syncer.conditions.controller import ConditionController
from sunk.syncer.config.controller import ConfigController
from sunk.syncer.context import Context
from sunk.syncer.drains.controller import DrainController
from sunk.syncer.hooks.api import HookApi, HookSettings
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Members
from sunk.syncer.metrics import PREFIX, SyncerCollector
from sunk.syncer.pods import compute_pods
from sunk.syncer.removal.clearance import ClearanceController
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.orphans import OrphanRecords
from sunk.syncer.removal.release import ReleaseController
from sunk.syncer.removal.reshape import ReshapeController
from sunk.syncer.removal.unregistered import UnregisteredPods
from sunk.syncer.visibility.acceptance import SuspicionAcceptance
from sunk.syncer.visibility.clocks import Clocks
from sunk.syncer.visibility.reachability import Reachability
from sunk.syncer.visibility.report import Reporter

RESTARTS: Final = 0.1
"""Pods restarted in a second at most, to make Slurm know them."""


class SyncerOptions(Struct, frozen=True):
    """Which Slurm cluster, and how its syncer behaves."""

    cluster: str
    namespace: str
    settings: SyncerSettings = SyncerSettings()
    hooks: HookSettings = HookSettings()
    users: str = ""
    """ConfigMap with the users of the values, if it is not the operator's."""

    @property
    def name(self) -> str:
        """Of the Deployment and of the Lease."""
        return f"{self.cluster}-syncer"


def syncer(options: SyncerOptions, *, library: Library) -> Build:
    """How the syncer of one Slurm cluster is made, once libslurm is loaded."""

    def build(setting: Setting) -> Part:
        context = make_context(options, setting, library=library)
        where = {"namespace": options.namespace, "cluster": options.cluster, "users": options.users}
        return _build(context, hooks=options.hooks, sources=AccountSources.of(setting.client, **where))

    return build


def make_context(options: SyncerOptions, setting: Setting, *, library: Library) -> Context:
    """Make what all parts share."""
    here = options.namespace
    client = setting.client
    mirror = Mirror(library)
    sets = Collection(client, NODESETS, Scope(namespace=here), indexes={"uid": lambda record: (record.metadata.uid,)})
    return Context(
        namespace=here,
        cluster=options.cluster,
        client=client,
        recorder=setting.recorder,
        may_write=setting.may_write,
        pods=compute_pods(client, sets, cluster=options.cluster, namespace=here),
        # Of all clusters of the namespace: one that lost its label would look like members that are gone.
        slices=Collection(client, NODESLICES, Scope(namespace=here)),
        sets=sets,
        clusters=Collection(client, SLURMCLUSTERS, _only(options.cluster, here)),
        files=Collection(client, CONFIG_MAPS, _only(f"{options.cluster}-{clusterobjects.SLURM_CONF}", here)),
        library=library,
        mirror=mirror,
        orders=Orders(library, mirror=mirror),
        settings=options.settings,
    )


def _only(name: str, namespace: str) -> Scope:
    """One object, which is also all that our account may read of its kind."""
    return Scope(namespace=namespace, fields=f"metadata.name={name}")


def _build(context: Context, *, hooks: HookSettings, sources: AccountSources) -> Part:
    """Make the controllers, each of which owns what it writes, and say which of them report."""
    members, jobs_by_node = Members(context.slices.store, cluster=context.cluster), JobsByNode(context.mirror.jobs)
    guard, restarts = Guard(context, jobs_by_node), Bucket(RESTARTS, burst=1)
    reachability, acceptance, config = Reachability(context), SuspicionAcceptance(context), ConfigController(context)
    clocks = Clocks(context)
    api = HookApi(context, jobs_by_node, hooks, lift=lambda name: drains.enqueue(name))  # noqa: PLW0108 - it is made below
    drains = DrainController(
        context, members, want_reconfigure=config.want_reconfigure, is_reached=api.hello.is_reached
    )
    conditions = ConditionController(context, jobs_by_node, api.announced)
    clearance = ClearanceController(context, jobs_by_node, guard)
    completing = CompletingNodes(context, jobs_by_node, unkillable=config.unkillable, on_change=conditions.set_stuck)
    release = ReleaseController(context, members, jobs_by_node, guard)
    orphans = OrphanRecords(context, members, guard, deleted=release.deleted)
    unregistered = UnregisteredPods(context, members, guard, restarts=restarts)
    reshape = ReshapeController(context, members, jobs_by_node, guard, restarts=restarts)
    accounts = AccountController(context, sources, want_reconfigure=config.want_reconfigure)
    reporting = (reachability, clocks, config, drains, clearance, completing, orphans, unregistered, reshape, accounts)
    reporter = Reporter(context, [part.report for part in reporting])
    return Part(
        "syncer",
        follows=(context.pods, context.slices, context.sets, context.clusters, context.files, *sources.all),
        controllers=tuple(part.controller for part in (acceptance, conditions, clearance, release, reshape)),
        work=(config, drains, completing.work, orphans.work, unregistered.work, accounts, reporter),
        duties={
            "mirror of Slurm": context.mirror.run,
            "accounting": Inquiry(context.library, context.mirror).run,
            **api.duties,
        },
        unready={"slurm": reachability.unready, **api.unready},
        on_stop=api.on_stop,
        collectors=(
            SyncerCollector(context, drains, clocks, accounts),
            *api.collectors(prefix=PREFIX, requests=lambda: conditions.requests_written),
        ),
    )
