"""slurm.conf and its companions, out of a SlurmCluster.

Everything that is sent to nodes by slurmctld (configless) lies in one ConfigMap; its hash is what "the configuration"
means. slurmctld reads it again by starting itself once more and keeps the old one if that does not work, so hardly
anything needs a new Pod; what does is in `RESTART`.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from sunk.model.cluster.configuration import PriorityWeights
from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf import gres, nodelogins, timers
from sunk.operator.slurmcluster.slurmconf.lines import overridden, owned, pairs, word
from sunk.operator.slurmcluster.slurmconf.partitions import partitions, retiring

SLURM_CONF: Final = "slurm.conf"
PLUGSTACK: Final = "plugstack.conf"
JOB_ENV_PLUGIN: Final = "optional /usr/lib/sunk/job_env.so\n"
"""Hands the environment of a definition on to jobs. Optional, since clients in other images read the file too."""
SLURM_USER: Final = 64030
STATE: Final = "/var/spool/slurmctld"
ETC: Final = "/etc/slurm"
KEYS: Final = "/etc/sunk/keys"
"""Where daemons find their keys that are not root; see `builders.keyfiles`."""
SCRIPTS: Final = "/etc/sunk/scripts"
"""Where compute Pods have the scripts that slurm.conf names; see `compute.scripts`."""
PROLOG: Final = f"{SCRIPTS}/prolog"
EPILOG: Final = f"{SCRIPTS}/epilog"
UNKILLABLE: Final = f"{SCRIPTS}/unkillable"
REBOOT: Final = f"{SCRIPTS}/reboot"
JWT_KEY: Final = "jwt_hs256.key"
EXTRA: Final = "slurmConfig.extraConfig"

_PLACE: Final = "SUNK sets it from the names, Services and volumes of the cluster"
_ACCOUNT: Final = "SUNK sets it from accounting in the values"
FORBIDDEN: Final = {
    **dict.fromkeys(
        (
            *("clustername", "slurmctldhost", "slurmctldport", "slurmdport", "slurmuser", "slurmduser"),
            *("statesavelocation", "slurmdspooldir", "slurmctldpidfile", "slurmdpidfile"),
            *("authtype", "credtype", "authalttypes", "authaltparameters", "maxnodecount"),
        ),
        _PLACE,
    ),
    **dict.fromkeys(("accountingstoragetype", "accountingstoragehost", "accountingstorageport"), _ACCOUNT),
    "partitionname": "define partitions in compute.partitions",
    "nodename": "nodes register themselves; define them in compute.nodes",
}
JOINED: Final = ("SlurmctldParameters", "SchedulerParameters", "GresTypes", "AccountingStorageTRES")
"""Lists: what people add there stands beside ours, and does not take it away."""
RESTART: Final = ("SlurmctldPort", "AuthType", "CredType", "AuthAltTypes", "AuthAltParameters")
"""What slurmctld cannot change while it reads its configuration again."""

GROUP_SECONDS: Final = 60
"""How long slurmctld relies on what it knows of groups, for jobs and for AllowGroups; Slurm's own default is ten minutes."""

Settings = dict[str, str | int]


def configuration(cluster: ResolvedCluster, *, before: str = "") -> dict[str, str]:
    """The files that slurmctld reads and nodes are sent, by name.

    `before` is the slurm.conf in force: its partitions stay, drained, where jobs may still name them.
    """
    text = slurm_conf(cluster)
    text += "".join(f"{line}\n" for line in retiring(before, text))
    files = {SLURM_CONF: text, "gres.conf": gres.gres_conf(cluster), "cgroup.conf": _cgroup_conf(cluster)}
    return files | ({PLUGSTACK: JOB_ENV_PLUGIN} if any(definition.env for definition in cluster.definitions) else {})


def beside(theirs: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """People's own files and ours. Where both have one of the same name ours counts, but plugins are a list."""
    made = {**theirs, **ours}
    if PLUGSTACK in theirs and PLUGSTACK in ours:
        made[PLUGSTACK] = f"{theirs[PLUGSTACK].rstrip()}\n{ours[PLUGSTACK]}"
    return made


def fingerprint(files: Mapping[str, str]) -> str:
    """Tells one configuration from another."""
    digest = sha256()
    for name, text in sorted(files.items()):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()[:32]


def restart_fingerprint(cluster: ResolvedCluster) -> str:
    """As `fingerprint`, of that part which only a new Pod brings into force."""
    settings = _settings(cluster)
    return fingerprint({key: str(settings[key]) for key in RESTART if key in settings})


def slurm_conf(cluster: ResolvedCluster) -> str:
    extra = owned(cluster.spec.slurm_config.extra_config, at=EXTRA, forbidden=FORBIDDEN)
    if cluster.spec.syncer.enabled:
        timeout = cluster.spec.syncer.hooks_api.timeout
        timers.check_timeout(timeout)
        timers.check(extra, timeout=timeout, at=EXTRA)
    if cluster.spec.compute.ssh.enabled:
        nodelogins.check(cluster, extra, at=EXTRA)
    theirs = overridden(extra)
    settings = _settings(cluster)
    ours = {key: value for key, value in settings.items() if key.lower() not in theirs}
    lists = _lists(cluster, settings)
    lines = [*pairs(ours), *partitions(cluster), *(_joined(line, lists) for line in extra)]
    return "".join(f"{line}\n" for line in lines)


def _lists(cluster: ResolvedCluster, settings: Settings) -> dict[str, str]:
    """What of ours has to stand beside theirs. Which flags a prolog needs besides is for `timers` to demand."""
    lists = {key: str(settings.get(key, "")) for key in JOINED}
    return lists | ({nodelogins.FLAG: nodelogins.CONTAIN} if cluster.spec.compute.ssh.enabled else {})


def _joined(line: str, lists: Mapping[str, str]) -> str:
    """A line of theirs, with ours put in front where both belong into one list."""
    for key, text in lists.items():
        if ours := _unsaid(text.split(","), line):
            line = re.sub(rf"(?<!\S){key}\s*=\s*(\"?)", rf"{key}=\g<1>{ours},", line, flags=re.IGNORECASE)
    return line


def _unsaid(ours: Iterable[str], theirs: str) -> str:
    """A list without what they have in theirs: Slurm takes the first of two."""
    said = set(re.split(r"[\s,=\"]+", theirs.lower()))
    return ",".join(parameter for parameter in ours if parameter and parameter.partition("=")[0].lower() not in said)


def _settings(cluster: ResolvedCluster) -> Settings:
    # In this order, which is how a person would write them.
    parts = (_identity, _behaviour, _scheduling, _accounting, _measuring, _scripts)
    made = {key: value for part in parts for key, value in part(cluster).items()}
    return {key: value for key, value in made.items() if value != ""}


def _identity(cluster: ResolvedCluster) -> Settings:
    """Who is where."""
    host = cluster.named("controller")
    jwt, lifespan = cluster.spec.rest.enabled, cluster.spec.rest.max_token_lifespan
    user = cluster.spec.controller.security_context.run_as_user
    return {
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{host}({host})",
        "SlurmctldPort": clusterobjects.SLURMCTLD_PORT,
        "SlurmdPort": clusterobjects.SLURMD_PORT,
        "SlurmUser": "slurm" if user == SLURM_USER else user,
        "AuthType": "auth/slurm",
        "CredType": "auth/slurm",
        "AuthInfo": _auth_info(cluster),
        "AuthAltTypes": "auth/jwt" if jwt else "",
        "AuthAltParameters": f"jwt_key={KEYS}/{JWT_KEY},max_token_lifespan={lifespan}" if jwt else "",
        "SlurmctldParameters": "enable_configless,node_reg_mem_percent=95",
        "MaxNodeCount": cluster.spec.compute.max_node_count,
        # One message goes straight to every node: dynamic ones cannot pass it on, since they do not know each other.
        "TreeWidth": 65533,
        "StateSaveLocation": STATE,
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
    }


def _auth_info(cluster: ResolvedCluster) -> str:
    # A job of a lost node is queued again after cred_expire, two minutes unless told.
    return f"ttl={timers.lifetime(cluster.spec.syncer.hooks_api.timeout)},cred_expire=30"


def _behaviour(cluster: ResolvedCluster) -> Settings:
    config = cluster.spec.slurm_config
    return {
        "SlurmctldTimeout": config.slurm_ctld.timeout,
        "SlurmdTimeout": config.slurmd.timeout,
        "InactiveLimit": config.inactive_limit,
        "KillWait": config.kill_wait,
        "WaitTime": config.wait_time,
        "ReturnToService": config.return_to_service,
        # slurmctld sends the groups of a user along with each job, and looks them up anew when they are this old.
        "GroupUpdateTime": GROUP_SECONDS,
        "BatchStartTimeout": timers.needed(cluster.spec.syncer.hooks_api.timeout),
        "ProctrackType": word(config.slurm_ctld.tracking, at="slurmConfig.slurmCtld.procTrackType"),
        "TaskPlugin": word(config.slurm_ctld.task_plugin, at="slurmConfig.slurmCtld.taskPlugin"),
        "GresTypes": "gpu" if any(map(gres.gpus, cluster.definitions)) or config.gres_config else "",
        # Slurm's default is not in the image, and every start would complain.
        "MailProg": config.mail_prog,
        "MpiDefault": config.mpi_default,
        # A login Pod may have pinned less memory than a node: jobs take the limit of their node.
        "PropagateResourceLimitsExcept": "MEMLOCK",
        "ScronParameters": "enable" if config.scrontab else "",
    }


def _scheduling(cluster: ResolvedCluster) -> Settings:
    config = cluster.spec.slurm_config
    # Without the first two a batch job waits for one to four seconds on an idle cluster. With the third a job whose
    # prolog failed is queued again and not held for a person.
    theirs = config.scheduler_parameters
    ours = _unsaid(("batch_sched_delay=0", "sched_interval=1", "nohold_on_prolog_fail"), theirs)
    return {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": word(config.select_type_parameters, at="slurmConfig.selectTypeParameters"),
        "DefMemPerCPU": config.def_mem_per_cpu or "",
        "PriorityType": word(config.priority_type, at="slurmConfig.priorityType"),
        **_weights(config.priority_weights),
        "SchedulerParameters": word(",".join(filter(None, (ours, theirs))), at="slurmConfig.schedulerParameters"),
    }


def _weights(wanted: PriorityWeights) -> Settings:
    made = {
        "PriorityWeightAge": wanted.age,
        "PriorityWeightAssoc": wanted.assoc,
        "PriorityWeightFairshare": wanted.fairshare,
        "PriorityWeightJobSize": wanted.job_size,
        "PriorityWeightPartition": wanted.partition,
        "PriorityWeightQOS": wanted.qos,
    }
    return {key: weight or "" for key, weight in made.items()}


def _accounting(cluster: ResolvedCluster) -> Settings:
    accounting = cluster.spec.accounting
    if not accounting.enabled:
        return {}
    remote = word(accounting.remote_host, at="accounting.remoteHost")
    gpus = ("gres/gpu", *gres.types(cluster)) if any(map(gres.gpus, cluster.definitions)) else ()
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": remote or cluster.named("accounting"),
        "AccountingStoragePort": accounting.remote_port if remote else clusterobjects.SLURMDBD_PORT,
        "AccountingStorageEnforce": word(accounting.enforce, at="accounting.enforce"),
        "AccountingStorageTRES": ",".join(gpus),
    }


def _measuring(cluster: ResolvedCluster) -> Settings:
    """What jobs use: for accounting, and to end those that take more memory than they have asked for."""
    config = cluster.spec.slurm_config
    # Where control groups confine tasks, the kernel keeps them to their memory.
    confined = "cgroup" in config.slurm_ctld.task_plugin
    killed = "memory" in config.select_type_parameters.lower() and not confined
    if not (cluster.spec.accounting.enabled or killed):
        return {}
    return {
        "JobAcctGatherType": f"jobacct_gather/{'cgroup' if 'cgroup' in config.slurm_ctld.tracking else 'linux'}",
        "JobAcctGatherFrequency": word(config.job_acct_gather_frequency, at="slurmConfig.jobAcctGatherFrequency"),
        "JobAcctGatherParams": "OverMemoryKill" if killed else "",
    }


def _scripts(cluster: ResolvedCluster) -> Settings:
    config, ssh = cluster.spec.slurm_config.slurmd, cluster.spec.compute.ssh.enabled
    return {
        # The batch script of a job waits for the prologs of all its nodes.
        nodelogins.FLAG: f"{timers.FLAGS},{nodelogins.CONTAIN}" if ssh else timers.FLAGS,
        "Prolog": PROLOG,
        "Epilog": EPILOG if config.epilog or ssh else "",
        "UnkillableStepProgram": UNKILLABLE,
        "RebootProgram": REBOOT if may_reboot(cluster) else "",
    }


def may_reboot(cluster: ResolvedCluster) -> bool:
    """Whether nodes can have their machines rebooted: the syncer asks for it, if it may."""
    return cluster.spec.syncer.enabled and cluster.spec.syncer.node_permissions.enabled


def _cgroup_conf(cluster: ResolvedCluster) -> str:
    config = cluster.spec.slurm_config
    plugins = f"{config.slurm_ctld.tracking},{config.slurm_ctld.task_plugin}"
    # In a Pod without privileges nobody may write to control groups, and slurmd would not start.
    ours: Settings = {} if "cgroup" in plugins else {"CgroupPlugin": "disabled"}
    theirs = overridden([f"{key}=" for key in config.cgroup_config])
    kept = {key: value for key, value in ours.items() if key.lower() not in theirs}
    at = "slurmConfig.cgroupConfig"
    return "".join(f"{line}\n" for line in (*pairs(kept), *pairs(config.cgroup_config, at=at)))
