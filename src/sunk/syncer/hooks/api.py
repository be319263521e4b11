"""All hooks of the syncer as one server, who may call them, and what runs without it.

The parts of the syncer that work with hooks need `announced` and `hello` whether or not there is a server: without a port
nobody calls, and they have nothing to tell.
"""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from prometheus_client.registry import Collector

from sunk.kube.resource import Key
from sunk.model.contract import hooks
from sunk.service.hooks.metrics import HookCollector
from sunk.service.hooks.server import HookAnswer, HookServer, HookServerSettings
from sunk.service.hooks.tokens import Caller, token_verifier
from sunk.syncer.context import Context
from sunk.syncer.hooks.announced import Announced
from sunk.syncer.hooks.hello import Hello
from sunk.syncer.hooks.metrics import LockCollector
from sunk.syncer.hooks.prehook import PreHook
from sunk.syncer.hooks.reboot import Reboot, RebootSettings
from sunk.syncer.jobs import JobsByNode

MOST_CALLS_OF_POD: Final = 256
"""Jobs that may start on one node at the same moment: each of them waits for the lock by a call of its own."""


class HookSettings(Struct, frozen=True):
    """How hooks are served. Without a port they are not."""

    port: int = 0
    folder: Path = Path(hooks.SERVER_FOLDER)
    """Of certificate and key."""
    timeout: float = 300.0
    """Seconds for which a prolog may wait, at most."""
    reboot: RebootSettings = RebootSettings()


class HookApi:
    """Made together with the collections. `lift` has the drain of a node decided again."""

    def __init__(
        self, context: Context, jobs_by_node: JobsByNode, settings: HookSettings, *, lift: Callable[[str], None]
    ) -> None:
        pods = context.pods.store
        self._context = context
        self.announced: Final = Announced(context.mirror, jobs_by_node)
        self.pre_hook: Final = PreHook(pods, self.announced, namespace=context.namespace, timeout=settings.timeout)
        self.hello: Final = Hello(context.mirror, leads=context.may_write, lift=lift)
        self._reboot = Reboot(context.client, pods, settings.reboot)
        self.server: Final = self._serve(settings) if settings.port else None

    def _serve(self, settings: HookSettings) -> HookServer:
        context = self._context
        server = HookServer(
            HookServerSettings(folder=settings.folder, port=settings.port, most_calls_of_pod=MOST_CALLS_OF_POD),
            {hooks.PRE_HOOK: self.pre_hook, hooks.HELLO: self.hello, hooks.REBOOT: self._reboot},
            verifier=token_verifier(context.client, namespace=context.namespace, cluster=context.cluster),
            admit=self.admit,
        )
        server.bind()
        return server

    # For the process

    @property
    def duties(self) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
        return {} if self.server is None else {"hooks": self.server.run}

    @property
    def unready(self) -> dict[str, Callable[[], str]]:
        return {} if self.server is None else {"hooks": self.server.unready}

    @property
    def on_stop(self) -> tuple[Callable[[], None], ...]:
        return () if self.server is None else (self.server.stop,)

    def collectors(self, *, prefix: str, requests: Callable[[], int]) -> tuple[Collector, ...]:
        """`requests` tells how many requests for locks were written."""
        locks = LockCollector(self.pre_hook, self.announced, prefix=prefix, requests=requests)
        return (locks,) if self.server is None else (locks, HookCollector(self.server.statistics, prefix=prefix))

    # For the server

    def admit(self, caller: Caller, node: str) -> HookAnswer | None:
        """A compute Pod speaks for its own node, and for no other. What it may say is for the hooks."""
        context = self._context
        if (caller.namespace, caller.pod) != (context.namespace, node):
            return HookAnswer(403, {"message": f"Pod {caller.namespace}/{caller.pod} does not speak for node {node}."})
        pod = context.pods.store.get(Key(context.namespace, node))
        if pod is None:
            return HookAnswer(404, {"message": f"No compute Pod {node} of cluster {context.cluster} is known here."})
        if pod.metadata.uid != caller.uid:
            return HookAnswer(403, {"message": f"Another Pod has the name {node} now."})
        return None
