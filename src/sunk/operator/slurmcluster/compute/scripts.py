"""Scripts that compute Pods have: those of people for s6, and ours around jobs.

slurmd hands its own environment to nobody: a task gets that of whoever submitted the job. So a oneshot writes down what
a definition says, and a SPANK plugin of the image (images/native/job_env.c) hands it on from there. A task prolog
would do too, but with pyxis it runs inside the container, where there is no such script. Prologs by a pattern of names
run backwards, so a script of ours goes through their folder in order.
"""

import re
from hashlib import sha256
from typing import Any, Final

from sunk.model.cluster.compute import S6Service
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, metadata
from sunk.operator.slurmcluster.view import Cluster

FOLDER: Final = "/etc/sunk/scripts"
PROLOG: Final = f"{FOLDER}/prolog"
EPILOG: Final = f"{FOLDER}/epilog"
LEAVE: Final = f"{FOLDER}/leave"
SICK: Final = f"{FOLDER}/sick"
UNKILLABLE: Final = f"{FOLDER}/unkillable"
PROLOGS: Final = "/etc/sunk/prolog.d"
EPILOGS: Final = "/etc/sunk/epilog.d"
S6: Final = "/etc/sunk/s6"
POD_NAME: Final = "POD_NAME"
JOB_ENV: Final = "SUNK_JOB_ENV"
"""Names of the variables that jobs shall have, with blanks between."""
ENVIRONMENT: Final = "0-sunk-environment"
"""Of the oneshot; it sorts before those of people, which may want it."""

_HANDED_ON: Final = "/run/sunk/job-environment"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

_IN_ORDER: Final = """\
#!/bin/bash
# Run the scripts of a folder in the order of their names; the first that fails decides.
for script in {folder}/*; do
    [[ -f $script ]] || continue
    "$script" || {{
        code=$?
        echo "${{script##*/}} ended with $code" >&2
        {sick} "{what} ${{script##*/}} ended with $code, job $SLURM_JOB_ID"
        exit "$code"
    }}
done
"""
# Slurm drains a node whose epilog fails or whose steps do not die, but on one that is drained already this does nothing:
# the reason stays. If it is ours, an uncordon would bring a sick node back. So what is wrong is said, over ours but not
# over a person's, and never over FAIL, which a drain would take off. The environment of these programs is nearly empty.
_SICK: Final = """\
#!/bin/bash
# Drain this node because something is wrong with it: sick REASON.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname)}
state=$(scontrol show node "$node" --oneliner | grep -o ' State=[^ ]*')
told=$(sinfo --noheader --nodes="$node" --format=%E | head -n 1)
[[ $state != *FAIL* && ($state != *DRAIN* || $told == k8s:*) ]] || exit 0
scontrol update nodename="$node" state=drain reason="$*"
"""
_UNKILLABLE: Final = f"""\
#!/bin/bash
# Slurm calls this when processes of a job do not die.
exec {SICK} "processes of job ${{SLURM_JOB_ID:-?}} do not die"
"""
# A Pod that is told to go takes its jobs along. Said at once, they are queued again at once, and not when slurmctld has
# waited for answers in vain. A slurmd that comes back registers, and brings the node back by itself. The reason of a
# drain, or of FAIL, is left as it is: it may be a person's, and under another name it would be lifted one day.
_LEAVE: Final = f"""\
#!/bin/bash
# Tell Slurm that this node is about to be gone.
state=$(scontrol show node "${POD_NAME}" --oneliner | grep -o ' State=[^ ]*') || exit 1
reason='k8s: pod terminated'
if [[ $state == *DRAIN* || $state == *FAIL* ]]; then
    told=$(sinfo --noheader --nodes="${POD_NAME}" --format=%E | head -n 1)
    reason=${{told:-$reason}}
fi
exec scontrol update nodename="${POD_NAME}" state=down reason="$reason"
"""
_WRITE_ENVIRONMENT: Final = f"""\
#!/bin/bash
# What the definition of this node says about the environment of jobs, for job_env.so to hand on.
mkdir -p {_HANDED_ON.rpartition("/")[0]}
for name in ${JOB_ENV}; do
    printf '%s=%s\\0' "$name" "$(printenv "$name")"
done > {_HANDED_ON}
"""


def objects(cluster: Cluster) -> tuple[dict[str, Any], ...]:
    return (
        _config_map(cluster, "compute-scripts", around_jobs()),
        _config_map(cluster, "compute-s6", {key: text for key, _, text in _services(cluster)}),
    )


def volumes(cluster: Cluster) -> list[dict[str, Any]]:
    """What a compute Pod mounts of this, with `mounts`."""
    items = [{"key": key, "path": path} for key, path, _ in _services(cluster)]
    made: list[dict[str, Any]] = [
        {"name": "scripts", "configMap": {"name": cluster.named("compute-scripts"), "defaultMode": 0o755}},
        {"name": "s6", "configMap": {"name": cluster.named("compute-s6"), "items": items}},
    ]
    for name, found, _ in _given(cluster):
        made.append({"name": name, "configMap": {"name": found, "defaultMode": 0o755}})
    return made


def mounts(cluster: Cluster) -> list[dict[str, Any]]:
    places = {"scripts": FOLDER, "s6": S6} | {name: folder for name, _, folder in _given(cluster)}
    return [{"name": name, "mountPath": place, "readOnly": True} for name, place in places.items()]


def started(cluster: Cluster) -> str:
    """A hash of what runs once, when a Pod starts: if it changes, Pods have to be made anew."""
    texts = "\0".join(f"{path}\0{text}" for _, path, text in _services(cluster))
    return sha256(texts.encode()).hexdigest()[:32]


def _given(cluster: Cluster) -> list[tuple[str, str, str]]:
    config = cluster.spec.slurm_config.slurmd
    both = (("prolog", config.prolog, PROLOGS), ("epilog", config.epilog, EPILOGS))
    return [each for each in both if each[1]]


def around_jobs() -> dict[str, str]:
    """The scripts that run around jobs and at the end of a Pod, by name."""
    return {
        "prolog": _IN_ORDER.format(folder=PROLOGS, what="prolog", sick=SICK),
        "epilog": _IN_ORDER.format(folder=EPILOGS, what="epilog", sick=SICK),
        "leave": _LEAVE,
        "sick": _SICK,
        "unkillable": _UNKILLABLE,
    }


def _services(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Key in the ConfigMap, path below the folder of s6, and text of each file."""
    ours = {ENVIRONMENT: S6Service(type="oneshot", script=_WRITE_ENVIRONMENT)}
    for name in cluster.spec.compute.s6:
        if not _NAME.fullmatch(name):
            raise Refusal(f"compute.s6.{name}: the name of a script has small letters, digits and dashes only.")
    found = []
    for name, service in (ours | cluster.spec.compute.s6).items():
        files = {"type": service.type, "script": service.script}
        files |= {"timeout-up": str(service.timeout_up)} if service.timeout_up else {}
        files |= {"timeout-down": str(service.timeout_down)} if service.timeout_down else {}
        found += [(f"{name}.{file}", f"{name}/{file}", text) for file, text in files.items()]
    return found


def _config_map(cluster: Cluster, name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(cluster, COMPUTE, name=name), "data": data}
