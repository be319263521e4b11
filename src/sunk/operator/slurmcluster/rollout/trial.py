"""What errands ask of Slurm: is a configuration good, do you run with it, does any job name this partition.

slurmctld has no way to only check. So it is started on the new files, in a Pod of its own, with a state that is thrown
away and without accounting, until it says that it runs. What it says instead is the answer. Much of the configuration is
read by slurmd alone, and a mistake there would stop every node and its jobs with it: so a slurmd is started beside it
for each kind of node, in each image that compute nodes have (`trial.sh`). slurmdbd has a way: it reads its file, asks
the database for its version, and changes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from sunk.model.contract import clusterobjects
from sunk.model.contract.keyset import SLURM_KEY
from sunk.operator.slurmcluster.builders import keys
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, metadata
from sunk.operator.slurmcluster.builders.pods import (
    UNPRIVILEGED,
    Body,
    Object,
    as_user,
    environment,
    image,
    secret,
    template,
)
from sunk.operator.slurmcluster.daemons.slurmdbd import FILE as DATABASE_CONF
from sunk.operator.slurmcluster.rollout.probe import DEADLINE, ERRAND
from sunk.operator.slurmcluster.rollout.triednodes import NOTHING, TriedNodes, tried_nodes
from sunk.operator.slurmcluster.slurmconf.conf import ETC, SLURM_CONF, SLURM_USER, fingerprint
from sunk.operator.slurmcluster.view import Cluster

NEW: Final = "/candidate"
_PASSWORD: Final = "/password"  # noqa: S105 - a folder
_SHORT: Final = 10
_AGAIN: Final = 60.0

_TRY: Final = Path(__file__).with_name("trial.sh").read_text()
_TRY_DATABASE: Final = f"""\
set -u
umask 077
folder=$(mktemp -d)
password=$(< {_PASSWORD}/{keys.PASSWORD})
cp -L {ETC}/slurm.key "$folder"/
sed -E '/^[[:space:]]*(DbdHost|DbdAddr|PidFile|LogFile|AuthAlt[a-z]*)[[:space:]]*=/Id' {NEW}/{DATABASE_CONF} > "$folder"/{DATABASE_CONF}
printf '%s\\n' "DbdHost=$(hostname)" "PidFile=$folder/pid" "StoragePass=\\"${{password//\\#/\\\\#}}\\"" >> "$folder"/{DATABASE_CONF}
# It looks for its file beside this one.
export SLURM_CONF="$folder"/{SLURM_CONF}
timeout "$2" slurmdbd -u -D > "$folder"/log 2>&1
code=$?
# Ended by the clock, it understood its file and waits for the database.
if [ "$code" = 124 ]; then
    [ "$1" = ours ] && exit 0
elif ! grep -q 'fatal: ' "$folder"/log; then
    exit 0
fi
sed -E -n "/Trying again/d; s#$folder/##g; s/^.*(fatal|error): //p" "$folder"/log | uniq | tail -5 | tee /dev/termination-log
exit 1
"""

# Who speaks to slurmctld shows a token, and sackd makes it from the key.
_SPEAK: Final = """\
set -u
/usr/sbin/sackd -D > /tmp/sackd 2>&1 &
for _ in $(seq 100); do [ -S /run/slurm/sack.socket ] && break; sleep 0.1; done
"""

# A job may name several partitions, and is asked for by each of them.
_QUEUED: Final = f"""\
{_SPEAK}
jobs=$(squeue --noheader --all --array --partition="$1" --format=%i 2>/tmp/said) || jobs=unknown
[ -z "$jobs" ] && exit 0
{{ [ "$jobs" = unknown ] && tail -1 /tmp/said || echo "$(wc -w <<< "$jobs") jobs, one is $(head -1 <<< "$jobs")"; }} | tee /dev/termination-log
exit 1
"""


class Trial(Struct, frozen=True):
    """New files, where nobody else reads them, and the errand that tries them."""

    at: str
    """Where in the values a person has to look."""
    candidate: Object
    errand: Object
    again: float = math.inf
    """Seconds after which it is worth another try, though nothing was changed."""
    optional: bool = False
    """Whether no answer is no hindrance: an image of some nodes may not run on the Nodes of the control plane."""


def slurm_trials(cluster: Cluster, files: Mapping[str, str], wanted: str) -> list[Trial]:
    """One in the image of slurmctld, with the nodes that have it too, and one in each other image of nodes."""
    ours = image(cluster, cluster.spec.controller.image)
    kinds = tried_nodes(cluster)
    candidate = _candidate(cluster, f"conf-{wanted[:_SHORT]}", files)
    first = _slurm_trial(cluster, candidate, ours, kinds.get(ours["image"], NOTHING), controller=True)
    others = (nodes for reference, nodes in kinds.items() if reference != ours["image"])
    return [first, *(_slurm_trial(cluster, candidate, nodes.image, nodes, controller=False) for nodes in others)]


def _slurm_trial(cluster: Cluster, candidate: Object, runs: Object, nodes: TriedNodes, *, controller: bool) -> Trial:
    variables = {
        "CANDIDATE": NEW,
        "IMAGE": runs["image"],
        "CONTROLLER": "yes" if controller else "no",
        "NODES": nodes.lines,
        "ELSEWHERE": ":".join(nodes.elsewhere),
    }
    mark = fingerprint(variables | {"candidate": candidate["metadata"]["name"]})[:_SHORT]
    volumes, mounts = _mounted(candidate)
    errand = _errand(cluster, f"try-{mark}", _TRY, (), volumes=volumes, mounts=mounts)
    errand["spec"]["containers"][0] |= {"env": environment(variables), **runs}
    return Trial("slurmConfig, compute", candidate=candidate, errand=errand, optional=not controller)


def slurmdbd_trial(cluster: Cluster, files: Mapping[str, str]) -> Trial:
    """By a question to the database that changes nothing there. Our own may be still to come, another must answer."""
    ours, mark = keys.serves_database(cluster), fingerprint({**files, "password": keys.database(cluster)})[:_SHORT]
    candidate = _candidate(cluster, f"dbd-{mark}", files)
    volumes, mounts = _mounted(candidate)
    volumes.append(secret("password", secret=keys.database(cluster), items={keys.PASSWORD: keys.PASSWORD}))
    mounts.append({"name": "password", "mountPath": _PASSWORD, "readOnly": True})
    told = ("ours", "3") if ours else ("theirs", "15")
    errand = _errand(cluster, f"try-dbd-{mark}", _TRY_DATABASE, told, volumes=volumes, mounts=mounts)
    at = "accounting.extraConfig" if ours else "accounting.external"
    return Trial(at, candidate=candidate, errand=errand, again=math.inf if ours else _AGAIN)


def _candidate(cluster: Cluster, name: str, files: Mapping[str, str]) -> Object:
    at = metadata(cluster, CONFIGURATION, name=name)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": at, "data": dict(files)}


def _mounted(candidate: Object) -> tuple[list[Object], list[Object]]:
    volume = {"name": "candidate", "configMap": {"name": candidate["metadata"]["name"]}}
    return [volume], [{"name": "candidate", "mountPath": NEW, "readOnly": True}]


def unnamed(cluster: Cluster, partitions: Sequence[str]) -> Object:
    """Goes well if no job names any of these partitions."""
    mark, (volumes, mounts) = fingerprint(dict.fromkeys(partitions, ""))[:_SHORT], _in_force(cluster)
    return _errand(cluster, f"queue-{mark}", _QUEUED, (",".join(partitions),), volumes=volumes, mounts=mounts)


def _in_force(cluster: Cluster) -> tuple[list[Object], list[Object]]:
    """What a program needs that speaks to slurmctld."""
    volume = {"name": "conf", "configMap": {"name": cluster.named(clusterobjects.SLURM_CONF)}}
    return [volume], [{"name": "conf", "mountPath": f"{ETC}/{SLURM_CONF}", "subPath": SLURM_CONF, "readOnly": True}]


def _errand(  # noqa: PLR0913 - one for each thing in which they differ
    cluster: Cluster,
    name: str,
    script: str,
    arguments: tuple[str, ...],
    *,
    volumes: list[Object],
    mounts: list[Object],
) -> Object:
    key = secret("key", secret=cluster.named(clusterobjects.AUTH_SLURM), items={SLURM_KEY: SLURM_KEY})
    place = {"name": "key", "mountPath": f"{ETC}/{SLURM_KEY}", "subPath": SLURM_KEY, "readOnly": True}
    container: Object = {
        "name": "slurm",
        "command": ["bash", "-c", script, "errand", *arguments],
        "securityContext": UNPRIVILEGED,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [place, *mounts],
    } | image(cluster, cluster.spec.controller.image)
    body = Body(containers=[container], volumes=[key, *volumes], security=as_user(SLURM_USER), grace=1)
    made = template(cluster, CONFIGURATION, body)
    at = metadata(cluster, CONFIGURATION, name=name)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": at | {"labels": at["labels"] | {ERRAND: cluster.name}},
        "spec": made["spec"] | {"restartPolicy": "Never", "activeDeadlineSeconds": DEADLINE},
    }
