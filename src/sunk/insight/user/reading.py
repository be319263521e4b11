"""Asks Kubernetes, and the containers of a cluster, about a person.

Nothing here stops at what it may not or cannot read: it is noted, and the rest is told.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from sunk.insight.user import slurm
from sunk.insight.user.job import job
from sunk.insight.user.login import login
from sunk.insight.user.person import Person, Published, checked, day_of, find, password_ways, report_of
from sunk.insight.user.rules import RuleView, rules_for
from sunk.insight.user.situation import CONTROLLER, LOGIN, Situation, Verdict
from sunk.insight.user.slurm import Partition, PodView, SlurmView
from sunk.kube.api.client import Client, Scope
from sunk.kube.api.execution import Execution, execute
from sunk.kube.core import CONFIG_MAPS, PODS, Pod
from sunk.kube.errors import Forbidden, KubeError, NotFound
from sunk.model import names
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract import people
from sunk.model.contract.clusterobjects import USER_ACCOUNTS, named
from sunk.model.contract.people import PeopleReport
from sunk.model.refusal import Refusal
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster
from sunk.operator.slurmcluster.rollout.apply import DEPLOYMENTS

CONTAINERS: Final = {CONTROLLER: "slurmctld", "accounting": "slurmdbd", LOGIN: "sshd", names.COMPUTE: names.SLURMD}
"""By component: the container that is asked."""
SAMPLE: Final = 3
"""Compute Pods that are asked, unless all are to be."""
AT_ONCE: Final = 8
FEW: Final = 2
"""Pods that Slurm is asked in, one after the other."""
_NOT_FOUND: Final = 1
"""Exit code of `id` for a user that is not known, and of `test` for what is not so."""


class Finding(Struct, frozen=True):
    """All there is to say about one name."""

    name: str
    cluster: str
    namespace: str
    person: Person | None
    report: PeopleReport | None
    agent: bool | None
    """Whether the directory agent runs; None if there is none, or it is not known."""
    pods: tuple[PodView, ...]
    slurm: SlurmView
    rules: tuple[RuleView, ...]
    login: Verdict
    job: Verdict
    unseen: tuple[str, ...]
    """What could not be read, and why."""


async def cluster_of(client: Client, namespace: str, wanted: str) -> SlurmCluster:
    """The cluster of that name, or the only one."""
    try:
        found = (await client.list(SLURMCLUSTERS, Scope(namespace=namespace))).items
    except NotFound:
        raise Refusal(
            'this Kubernetes has no SlurmClusters: install the chart "sunk", or use another context'
        ) from None
    chosen = [one for one in found if wanted in {"", one.metadata.name}]
    if len(chosen) == 1:
        return chosen[0]
    there = ", ".join(sorted(one.metadata.name for one in found)) or "none"
    what = f"no SlurmCluster {wanted}" if wanted else "not exactly one SlurmCluster"
    raise Refusal(f"namespace {namespace} has {what}, but {there}: name one with --cluster, or set --namespace")


async def read(client: Client, cluster: SlurmCluster, name: str, *, all_pods: bool) -> Finding:
    """Ask for everything about a name, which no program is given before it is known to be one."""
    return await Survey(client, cluster, checked(name)).finding(all_pods=all_pods)


class Survey:
    """One look at one person in one cluster. What cannot be read is noted in `unseen`."""

    def __init__(self, client: Client, cluster: SlurmCluster, name: str) -> None:
        self._client = client
        self._cluster = cluster.metadata.name
        self._namespace = cluster.metadata.namespace
        self._spec: SlurmClusterSpec = cluster.spec
        self._name = name
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.unseen: list[str] = []

    async def finding(self, *, all_pods: bool) -> Finding:
        published = await self._published()
        person = find(self._name, published, today=day_of(time.time()))
        pods = await self._pods()
        views = tuple(await self._ask_all(sampled(pods, all_pods=all_pods), person))
        slurm_view = await self._slurm(pods, views, person)
        seen = Situation(
            self._name,
            cluster=self._cluster,
            spec=self._spec,
            person=person,
            people_seen=published.users is not None or published.directory is not None,
            passwords=password_ways(published),
            report=report_of(published),
            pods=views,
            slurm=slurm_view,
            rules=rules_for(person, self._spec.accounting, slurm_view, noted=await self._noted()),
        )
        return Finding(
            name=self._name,
            cluster=self._cluster,
            namespace=self._namespace,
            person=person,
            report=seen.report,
            agent=await self._agent(seen),
            pods=views,
            slurm=slurm_view,
            rules=seen.rules,
            login=login(seen),
            job=job(seen),
            unseen=tuple(dict.fromkeys(self.unseen)),
        )

    # Kubernetes

    async def _published(self) -> Published:
        users = self._spec.users.config_map or named(self._cluster, people.USERS)
        directories = any(one.enabled for one in self._spec.directory_service.directories)
        logins = [named(self._cluster, f"{people.LOGINS}-{number}") for number in range(people.PARTS)]
        return Published(
            users=await self._data(users),
            directory=await self._data(named(self._cluster, people.AGENT)) if directories else None,
            settings=await self._data(named(self._cluster, people.SETTINGS)),
            logins=tuple([await self._data(name) for name in logins]) if directories else (),
        )

    async def _data(self, name: str) -> dict[str, str] | None:
        try:
            return (await self._client.get(CONFIG_MAPS, name, namespace=self._namespace)).data
        except NotFound:
            self.unseen.append(f"ConfigMap {name} does not exist")
        except Forbidden:
            self.unseen.append(f"ConfigMap {name}: you may not read it")
        return None

    async def _noted(self) -> frozenset[str]:
        """The accounts in which the syncer has seen the person."""
        if not self._spec.accounting.user_accounts.rules:
            return frozenset()
        data = await self._data(named(self._cluster, USER_ACCOUNTS)) or {}
        return frozenset(account for user, account in people.noted_accounts(data) if user == self._name)

    async def _agent(self, seen: Situation) -> bool | None:
        if not seen.directories:
            return None
        name = named(self._cluster, people.AGENT)
        try:
            return (await self._client.get(DEPLOYMENTS, name, namespace=self._namespace)).status.ready_replicas > 0
        except NotFound:
            return False
        except Forbidden:
            self.unseen.append(f"Deployment {name}: you may not read it")
            return None

    async def _pods(self) -> tuple[Pod, ...]:
        scope = Scope(namespace=self._namespace, labels=f"{names.CLUSTER}={self._cluster}")
        try:
            return (await self._client.list(PODS, scope)).items
        except Forbidden:
            self.unseen.append("Pods: you may not list them, so none was asked")
            return ()

    # Containers

    async def _ask_all(self, pods: Sequence[Pod], person: Person | None) -> list[PodView]:
        return [*await asyncio.gather(*(self._view(pod, person) for pod in pods))]

    async def _view(self, pod: Pod, person: Person | None) -> PodView:
        name, component = pod.metadata.name, component_of(pod)
        if trouble := not_running(pod):
            return PodView(name, component, trouble=trouble)
        found = await self._run(pod, slurm.id_command(self._name))
        if isinstance(found, str):
            return PodView(name, component, trouble=found)
        if found.code == _NOT_FOUND:
            return PodView(name, component, known=False)
        if not found.ok:
            return PodView(name, component, trouble=first_line(found.stderr) or f"id ended with {found.code}")
        uid, gids = slurm.identity(found.stdout)
        return PodView(name, component, known=True, uid=uid, gids=gids, has_shell=await self._shell(pod, person))

    async def _shell(self, pod: Pod, person: Person | None) -> bool | None:
        if person is None or component_of(pod) != LOGIN or not person.shell.startswith("/"):
            return None
        found = await self._run(pod, ("test", "-x", person.shell))
        return None if isinstance(found, str) else found.code != _NOT_FOUND

    async def _run(self, pod: Pod, command: Sequence[str]) -> Execution | str:
        """What came of a command, or why it was not run."""
        async with self._turns:
            try:
                return await execute(self._client, pod.key, command, container=CONTAINERS[component_of(pod)])
            except Forbidden:
                return "you may not run commands in Pods (get and create pods/exec)"
            except KubeError as error:
                return str(error)

    # Slurm

    async def _slurm(self, pods: Sequence[Pod], views: Sequence[PodView], person: Person | None) -> SlurmView:
        asked = {view.pod for view in views if view.known is not None}
        able = [pod for pod in pods if pod.metadata.name in asked]
        # Either can be asked; what one cannot answer the other may.
        where = [pod for part in (CONTROLLER, LOGIN) for pod in able if component_of(pod) == part][:FEW]
        if not where:
            self.unseen.append("Slurm: neither slurmctld's Pod nor a login Pod could be asked")
            return SlurmView()
        uid = person.uid if person else next((view.uid for view in views if view.uid is not None), None)
        accounting = await self._accounting(where) if self._spec.accounting.enabled else SlurmView()
        jobs = await self._answer(where, slurm.jobs_command(uid)) if uid is not None else None
        answer = await self._answer(where, slurm.partitions_command())
        partitions = None if answer is None else slurm.partitions(answer)
        return SlurmView(
            associations=accounting.associations,
            default_account=accounting.default_account,
            admin_level=accounting.admin_level,
            qos=accounting.qos,
            uid=accounting.uid,
            in_slurmctld=accounting.in_slurmctld,
            jobs=None if jobs is None else slurm.jobs(jobs),
            partitions=partitions,
            parents=await self._parents(where, partitions or ()),
        )

    async def _parents(self, where: Sequence[Pod], partitions: Sequence[Partition]) -> dict[str, str] | None:
        if not any(one.accounts is not None or one.denied_accounts for one in partitions):
            return None
        answer = await self._answer(where, slurm.parents_command(cluster=self._cluster))
        return None if answer is None else slurm.parents(answer)

    async def _accounting(self, where: Sequence[Pod]) -> SlurmView:
        held = await self._answer(where, slurm.associations_command(self._name, cluster=self._cluster))
        if held is None:
            return SlurmView()
        associations = slurm.associations(held)
        if not associations:
            return SlurmView(associations=())
        settings = await self._answer(where, slurm.user_command(self._name))
        account, level = (None, "") if settings is None else slurm.user(settings)
        used = {name for one in associations for name in (*one.qos, one.default_qos)}
        limits = slurm.qos(await self._answer(where, slurm.qos_command()) or "")
        cached = await self._answer(where, slurm.cached_user_command(self._name))
        uid = slurm.cached_uid(cached or "", self._name)
        return SlurmView(
            associations=associations,
            default_account=account,
            admin_level=level,
            qos=tuple(one for one in limits if one.name in used),
            uid=uid,
            in_slurmctld=None if cached is None else uid is not None,
        )

    async def _answer(self, where: Sequence[Pod], command: Sequence[str]) -> str | None:
        """What the first of these Pods says that has an answer."""
        why = []
        for pod in where:
            found = await self._run(pod, command)
            if isinstance(found, Execution) and found.ok:
                return found.stdout
            told = found if isinstance(found, str) else first_line(found.stderr) or f"ended with {found.code}"
            why.append(f"{told} (in {pod.metadata.name})")
        asked = " ".join(word for word in command[:5] if not word.startswith(("-", "format=")))
        self.unseen.append(f"Slurm: `{asked}`: {'; '.join(why)}")
        return None


def component_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.COMPONENT, "")


def sampled(pods: Sequence[Pod], *, all_pods: bool) -> list[Pod]:
    """The Pods to ask: those of the control plane, and some of the compute nodes or all of them."""
    mine = [pod for pod in pods if component_of(pod) in CONTAINERS and names.PROBE not in pod.metadata.labels]
    compute = [pod for pod in mine if component_of(pod) == names.COMPUTE]
    # Those that run tell more than those that do not.
    chosen = compute if all_pods else sorted(compute, key=lambda pod: bool(not_running(pod)))[:SAMPLE]
    return [*(pod for pod in mine if component_of(pod) != names.COMPUTE), *chosen]


def not_running(pod: Pod) -> str:
    """Why a Pod cannot be asked; empty if it can."""
    if pod.metadata.deletion_timestamp is not None:
        return "it is terminating"
    wanted = CONTAINERS[component_of(pod)]
    states = {one.name: one.state for one in pod.status.container_statuses}
    if wanted in states and states[wanted].running is not None:
        return ""
    return f"container {wanted} does not run (Pod is {pod.status.phase or 'new'})"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
