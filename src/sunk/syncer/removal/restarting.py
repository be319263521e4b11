"""Ask for a new Pod in place of one whose slurmd Slurm does not know.

Only the NodeSet controller deletes compute Pods. The syncer may not: a right to delete one Pod of a namespace is a right to
delete any. It writes a mark through the status of the Pod, and the NodeSet controller heeds it while it is young and the
Pod's conditions still say that Slurm does not know it.
"""

from sunk.kube.api.patch import Merge
from sunk.kube.errors import Conflict, Invalid, NotFound
from sunk.model import names
from sunk.objects.standing import restart_request
from sunk.syncer.context import Ground
from sunk.syncer.pods import ComputePod


async def ask(ground: Ground, pod: ComputePod, *, why: str) -> bool:
    """Ask it of the Pod as it was read. False if it is another by now, or has changed."""
    at = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
    mark = {names.RESTART: restart_request(why, now=ground.client.clock.now())}
    try:
        await ground.pods.patch(pod.key, Merge({"metadata": at | {"annotations": mark}}), status=True)
    except (Conflict, Invalid, NotFound):
        return False
    return True
