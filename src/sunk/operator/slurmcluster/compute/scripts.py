"""Scripts that compute Pods have: those for s6, people's and ours, and ours around jobs.

Before people's prologs comes `prelock.sh`, which waits until other work has left the Node. What it needs to know stands in
a file beside it: as variables of the Pod each change would replace every node. Where people may log in to nodes,
`sessions.sh` comes before both prologs and epilogs.

slurmd hands its own environment to nobody: a task gets that of whoever submitted the job. So a oneshot writes down what
a definition says, and a SPANK plugin of the image (images/native/job_env.c) hands it on from there. A task prolog
would do too, but with pyxis it runs inside the container, where there is no such script. Prologs by a pattern of names
run backwards, so a script of ours goes through their folder in order.
"""

from pathlib import Path
from typing import Any, Final

from sunk.model.cluster.parts import S6Service
from sunk.model.contract import clusterobjects, hooks
from sunk.operator.slurmcluster.builders import s6
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, metadata
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import SCRIPTS, may_reboot

LEAVE: Final = f"{SCRIPTS}/leave"
SICK: Final = f"{SCRIPTS}/sick"
PRELOCK: Final = f"{SCRIPTS}/prelock"
SESSIONS: Final = f"{SCRIPTS}/sessions"
PROLOGS: Final = "/etc/sunk/prolog.d"
EPILOGS: Final = "/etc/sunk/epilog.d"
POD_NAME: Final = "POD_NAME"
JOB_ENV: Final = "SUNK_JOB_ENV"
"""Names of the variables that jobs shall have, with blanks between."""
ENVIRONMENT: Final = f"{s6.OURS}-environment"
"""Of the oneshot; it sorts before those of people, which may want it."""
HELLO: Final = f"{s6.OURS}-hello"
"""Of the longrun by which a Pod that did not reach the syncer finds out that it does again."""
_S6: Final = "compute-s6"

_IN_ORDER: Final = """\
#!/bin/bash
# Run the scripts of a folder in the order of their names; the first that fails decides.
{first}for script in {folder}/*; do
    [[ -f $script ]] || continue
    "$script" || {{
        code=$?
        echo "${{script##*/}} exited with code $code" >&2
        {sick} "{what} ${{script##*/}} exited with code $code, job $SLURM_JOB_ID"
        exit "$code"
    }}
done
"""
# Slurm drains a node whose epilog fails or whose steps do not die, but on one that is drained already this does nothing:
# the reason stays. If it is ours, an uncordon would bring a sick node back. So what is wrong is said, over ours but not
# over a person's, and never over FAIL, which a drain would take off. The environment of these programs is nearly empty.
_SICK: Final = Path(__file__).with_name("sick.sh").read_text()
_UNKILLABLE: Final = Path(__file__).with_name("unkillable.sh").read_text()
# A Pod that is told to go takes its jobs along. Said at once, they are queued again at once, and not when slurmctld has
# waited for answers in vain. A slurmd that comes back registers, and brings the node back by itself. The reason of a
# drain, or of FAIL, is left as it is: it may be a person's, and under another name it would be lifted one day.
_HOOKS: Final = Path(__file__).with_name("hooks.sh").read_text()
_PRELOCK: Final = Path(__file__).with_name("prelock.sh").read_text()
_SESSIONS: Final = Path(__file__).with_name("sessions.sh").read_text()
_REBOOT: Final = Path(__file__).with_name("reboot.sh").read_text()
_SAY_HELLO: Final = Path(__file__).with_name("hello.sh").read_text()
_LEAVE: Final = Path(__file__).with_name("leave.sh").read_text()
_WRITE_ENVIRONMENT: Final = Path(__file__).with_name("job_environment.sh").read_text()


def objects(cluster: ResolvedCluster) -> tuple[dict[str, Any], ...]:
    return (
        _config_map(cluster, "compute-scripts", around_jobs(cluster)),
        _config_map(cluster, _S6, s6.data(_services(cluster))),
    )


def volumes(cluster: ResolvedCluster) -> list[dict[str, Any]]:
    """What a compute Pod mounts of this, with `mounts`."""
    made: list[dict[str, Any]] = [
        {"name": "scripts", "configMap": {"name": cluster.named("compute-scripts"), "defaultMode": 0o755}},
        s6.volume(_services(cluster), config_map=cluster.named(_S6)),
    ]
    for name, config_map, _ in _given(cluster):
        made.append({"name": name, "configMap": {"name": config_map, "defaultMode": 0o755}})
    return made


def mounts(cluster: ResolvedCluster) -> list[dict[str, Any]]:
    places = {"scripts": SCRIPTS, s6.VOLUME: s6.FOLDER} | {name: folder for name, _, folder in _given(cluster)}
    return [{"name": name, "mountPath": place, "readOnly": True} for name, place in places.items()]


def started(cluster: ResolvedCluster) -> str:
    """A hash of what runs once, when a Pod starts: if it changes, Pods have to be replaced."""
    return s6.fingerprint(_services(cluster))


def _given(cluster: ResolvedCluster) -> list[tuple[str, str, str]]:
    config = cluster.spec.slurm_config.slurmd
    both = (("prolog", config.prolog, PROLOGS), ("epilog", config.epilog, EPILOGS))
    return [row for row in both if row[1]]


def around_jobs(cluster: ResolvedCluster) -> dict[str, str]:
    """The scripts that run around jobs and at the end of a Pod, by name."""
    locks, ssh = cluster.spec.syncer.enabled, cluster.spec.compute.ssh.enabled
    first = (f"{SESSIONS} begin\n" if ssh else "") + (f"{PRELOCK} || exit\n" if locks else "")
    ours = {"prelock": _PRELOCK, "hooks": _HOOKS, "hook-settings": hook_settings(cluster)} if locks else {}
    ours |= {"reboot": _REBOOT} if may_reboot(cluster) else {}
    ours |= {"sessions": _SESSIONS} if ssh else {}
    return ours | {
        "prolog": _IN_ORDER.format(folder=PROLOGS, what="prolog", sick=SICK, first=first),
        "epilog": _IN_ORDER.format(
            folder=EPILOGS, what="epilog", sick=SICK, first=f"{SESSIONS} end || exit\n" if ssh else ""
        ),
        "leave": _LEAVE,
        "sick": _SICK,
        "unkillable": _UNKILLABLE,
    }


def hook_settings(cluster: ResolvedCluster) -> str:
    """What the scripts have to know of the hook API. None of it needs quoting but the reasons."""
    settings = {
        "server": f"{hooks.server_name(cluster.namespace, cluster.name)}:{clusterobjects.HOOKS_PORT}",
        "timeout": str(cluster.spec.syncer.hooks_api.timeout),
        "placeholder": hooks.PLACEHOLDER,
        "timed_out": hooks.TIMED_OUT,
        "unreached": hooks.UNREACHED,
    }
    return "".join(f"{key}='{value}'\n" for key, value in settings.items())


def _services(cluster: ResolvedCluster) -> dict[str, S6Service]:
    """What s6 runs beside slurmd: ours, and people's."""
    theirs = cluster.spec.compute.s6
    s6.check(theirs, at="compute.s6")
    ours = {ENVIRONMENT: S6Service(type="oneshot", script=_WRITE_ENVIRONMENT)}
    if cluster.spec.syncer.enabled:
        ours[HELLO] = S6Service(type="longrun", script=_SAY_HELLO)
    return ours | theirs


def _config_map(cluster: ResolvedCluster, name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(cluster, COMPUTE, name=name), "data": data}
