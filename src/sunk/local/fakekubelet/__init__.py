"""A fake kubelet for thousands of Nodes on a Kubernetes that has only an API server and a controller-manager.

One process registers the Nodes of a fleet, keeps their leases, and does to the Pods bound to them what a kubelet
would, except running anything: a Pod becomes Running and Ready, and goes when it is deleted. It owns the Nodes that
carry the label `fake-kubelet.sunk/fleet: <its name>`, those it made and those a test made; no other is touched.

```python
async with fake_kubelet(Settings(nodes=3, resources={"nvidia.com/gpu": "8"}), kubeconfig=path) as kubelet:
    await steer(client, NODES, "fake-0001", silent="true")      # its kubelet is dead from now on
    await steer(client, NODES, "fake-0001", silent=None)        # and back
```

`spawned(...)` does the same in a child process, `run(...)` until a signal comes.

A Pod that is not bound and that required node affinity pins to one of these Nodes (a single `matchFields` on
`metadata.name`, `In` with one value) is bound to it, as a scheduler would: only if it tolerates the Node's NoSchedule
and NoExecute taints, its nodeSelector matches, it has no gates and names no other scheduler. It waits until that is so.
`Settings(binds=False)` leaves it alone, for a cluster that has a scheduler.

Nodes are alike unless `Settings.traits` gives one of them an address, labels, taints or resources of its own. All
addresses differ in their last two octets. A test may also create a Node itself: with the fleet's label it is ours, and
gets a status, with a free address, if it came without.

Behaviour is set for the fleet (`Settings.behaviour`), overridden by annotations of a Node for itself and its Pods, and
these by annotations of a Pod. Durations are written `500ms`, `2s`, `1.5m`, `1h`.

| annotation | on | means |
| --- | --- | --- |
| `fake-kubelet.sunk/start-after` | Pod, Node | time from admission to Running (0s) |
| `fake-kubelet.sunk/stop-after` | Pod, Node | time its containers take to stop, at most the grace period (0s); one that takes longer is killed and Failed |
| `fake-kubelet.sunk/refuse` | Pod, Node | not admitted: Failed with this reason (`OutOfcpu`, `UnexpectedAdmissionError`, …) |
| `fake-kubelet.sunk/exit-after` | Pod, Node | containers exit so long after each start; the restart policy decides what follows |
| `fake-kubelet.sunk/exit-code` | Pod, Node | with which code (0) |
| `fake-kubelet.sunk/ready` | Pod | `false`: Running but not Ready |
| `fake-kubelet.sunk/ready` | Node | `false`: the Node says NotReady; its Pods are not concerned |
| `fake-kubelet.sunk/silent` | Node | `true`: kubelet is dead: no lease, no status, Pods neither start nor stop |
| `fake-kubelet.sunk/silent` | Pod | `true`: the kubelet does nothing about this Pod |

As in a real kubelet a Pod that does not tolerate a NoExecute taint of its Node is refused at admission
(`TaintToleration`); a Node that is deleted stays so until the kubelet starts again; an annotation that cannot be
understood makes the Pods concerned fail with `BadAnnotation`, and a log line says why. Resources are not counted:
a Pod too many is not refused unless an annotation says so. Probes, readiness gates and volumes do not exist.
"""

from sunk.local.fakekubelet.behaviour import Behaviour, annotations, steer
from sunk.local.fakekubelet.kubelet import FakeKubelet
from sunk.local.fakekubelet.serve import fake_kubelet, run, spawned
from sunk.local.fakekubelet.settings import FLEET, NodeTraits, Settings

__all__ = [
    "FLEET",
    "Behaviour",
    "FakeKubelet",
    "NodeTraits",
    "Settings",
    "annotations",
    "fake_kubelet",
    "run",
    "spawned",
    "steer",
]
