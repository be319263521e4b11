"""Ask Slurm about a configuration: is it good, and have it read it.

slurmctld has no way to only check. So it is started on the new files, in a Pod of its own, with a state that is thrown
away, without accounting and without nodes, until it says that it runs. What it says instead is the answer.
"""

from typing import Any, Final

from sunk.operator.slurmcluster.conf import ETC, SLURM_CONF, SLURM_USER
from sunk.operator.slurmcluster.errand import DEADLINE, ERRAND
from sunk.operator.slurmcluster.mark import PARAMETER
from sunk.operator.slurmcluster.metadata import CONFIGURATION, metadata
from sunk.operator.slurmcluster.pods import UNPRIVILEGED, Body, Object, as_user, image, secret, template
from sunk.operator.slurmcluster.view import Cluster

NEW: Final = "/candidate"
_SHORT: Final = 10

_TRY: Final = f"""\
set -u
folder=$(mktemp -d)
cp -L {NEW}/* "$folder"/ && cp -L {ETC}/slurm.key "$folder"/ && chmod 600 "$folder"/slurm.key
mkdir "$folder"/state
host=$(hostname -s)
sed -i -E '/^[[:space:]]*(StateSaveLocation|SlurmctldHost|SlurmctldPidFile|AccountingStorage[a-z]*|JobSubmitPlugins|SlurmUser)[[:space:]]*=/Id' "$folder"/{SLURM_CONF}
printf '%s\\n' "StateSaveLocation=$folder/state" "SlurmctldHost=$host(127.0.0.1)" "SlurmctldPidFile=$folder/pid" "SlurmUser=$(id -un)" >> "$folder"/{SLURM_CONF}
export SLURM_CONF="$folder"/{SLURM_CONF}
slurmctld -D -c -f "$SLURM_CONF" > "$folder"/log 2>&1 &
daemon=$!
for _ in $(seq 300); do
    if grep -q 'Running as primary controller' "$folder"/log; then kill "$daemon"; exit 0; fi
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.1
done
kill -9 "$daemon" 2>/dev/null
# It gathers what nobody stores here, and says so each time.
sed -E -n "/gathered, but not stored/d; s#$folder/##g; s/^.*(fatal|error): //p" "$folder"/log | tail -5 | tee /dev/termination-log
exit 1
"""

_READ_ANEW: Final = f"""\
set -u
# Who speaks to slurmctld shows a token, and sackd makes it from the key.
/usr/sbin/sackd -D > /tmp/sackd 2>&1 &
for _ in $(seq 100); do [ -S /run/slurm/sack.socket ] && break; sleep 0.1; done
for _ in $(seq 60); do
    scontrol show config 2>/tmp/said | grep -q "{PARAMETER}=$1" && exit 0
    scontrol reconfigure >/tmp/said 2>&1
    sleep 2
done
{{ echo "slurmctld does not run with the new configuration:"; tail -3 /tmp/said; }} | tee /dev/termination-log
exit 1
"""


def candidate_name(cluster: Cluster, wanted: str) -> str:
    return cluster.named(f"conf-{wanted[:_SHORT]}")


def candidate(cluster: Cluster, files: dict[str, str], wanted: str) -> dict[str, Any]:
    """The new files, where only the trial reads them."""
    at = metadata(cluster, CONFIGURATION, name=f"conf-{wanted[:_SHORT]}")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": at, "data": files}


def trial(cluster: Cluster, wanted: str) -> dict[str, Any]:
    volume = {"name": "candidate", "configMap": {"name": candidate_name(cluster, wanted)}}
    mount = {"name": "candidate", "mountPath": NEW, "readOnly": True}
    return _errand(cluster, f"try-{wanted[:_SHORT]}", _TRY, (), volumes=[volume], mounts=[mount])


def read_anew(cluster: Cluster, wanted: str) -> dict[str, Any]:
    volume = {"name": "conf", "configMap": {"name": cluster.named("slurm-conf")}}
    mount = {"name": "conf", "mountPath": f"{ETC}/{SLURM_CONF}", "subPath": SLURM_CONF, "readOnly": True}
    return _errand(cluster, f"read-{wanted[:_SHORT]}", _READ_ANEW, (wanted,), volumes=[volume], mounts=[mount])


def _errand(  # noqa: PLR0913 - one for each thing in which they differ
    cluster: Cluster,
    name: str,
    script: str,
    arguments: tuple[str, ...],
    *,
    volumes: list[Object],
    mounts: list[Object],
) -> Object:
    key = secret("key", secret=cluster.named("auth-slurm"), items={"slurm.key": "slurm.key"})
    place = {"name": "key", "mountPath": f"{ETC}/slurm.key", "subPath": "slurm.key", "readOnly": True}
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
