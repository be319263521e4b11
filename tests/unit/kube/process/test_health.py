"""Health that means something: each of its lamps turns red and green. Metrics are served beside it."""

import asyncio
import logging
import re
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from sunk.kube.api.exchange import Exchange
from sunk.kube.api.limits import Bucket
from sunk.kube.cache.store import Store
from sunk.kube.cache.view import Bookmark, Changed, Synced
from sunk.kube.control.lease import LeaseStatistics
from sunk.kube.control.queue import Queue
from sunk.kube.core import Pod
from sunk.kube.process.health import Health, Watchdog, served
from sunk.kube.process.metrics import LEASE, LIMIT, QUEUE, STORE, Metrics
from sunk.kube.resource import Metadata
from sunk.model import loopclock


class Probe:
    """A kubelet and a Prometheus in one."""

    def __init__(self, health: Health, metrics: Metrics, *, port: int, session: aiohttp.ClientSession) -> None:
        self.health = health
        self.metrics = metrics
        self.port = port
        self._session = session

    async def ask(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://127.0.0.1:{self.port}{path}") as reply:
            return reply.status, await reply.text()


@pytest.fixture
async def probe() -> AsyncIterator[Probe]:
    health, metrics = Health(), Metrics()
    async with served(health, metrics, host="127.0.0.1", port=0) as port, aiohttp.ClientSession() as session:
        yield Probe(health, metrics, port=port, session=session)


async def test_a_dead_task_turns_health_red(probe: Probe) -> None:
    async def work() -> None:
        await stop.wait()
        raise ValueError("broken")

    stop = asyncio.Event()
    task = asyncio.create_task(work(), name="follow pods")
    probe.health.guard(task)
    assert await probe.ask("/healthz") == (200, "[+] follow pods\nok\n")
    stop.set()
    await asyncio.wait((task,))
    status, text = await probe.ask("/healthz")
    assert status == 503
    assert "[-] follow pods: ended by ValueError('broken')" in text


async def test_readiness_follows_the_stores_and_names_what_is_missing(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store[Pod] = Store("pods")
    probe.health.needs(store, within=60)
    status, text = await probe.ask("/readyz")
    assert status == 503
    assert "[-] pods: not read yet" in text
    store.take(Synced(), version="5")
    assert (await probe.ask("/readyz"))[0] == 200
    now = loopclock.now
    monkeypatch.setattr(loopclock, "now", lambda: now() + 61)
    status, text = await probe.ask("/readyz")
    assert status == 503
    assert re.search(r"\[-\] pods: last update \d+ s ago \(limit 60 s\)", text)
    store.take(Bookmark(), version="6")
    assert (await probe.ask("/readyz"))[0] == 200
    assert (await probe.ask("/healthz"))[0] == 200, "old news are no reason to restart"


async def test_who_stops_is_ready_no_more_but_alive(probe: Probe) -> None:
    probe.health.stop()
    assert (await probe.ask("/readyz"))[0] == 503
    assert (await probe.ask("/healthz"))[0] == 200


async def test_a_loop_that_hangs_answers_no_probe_and_the_log_says_where(
    probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    go = threading.Event()

    def kubelet() -> None:
        go.wait(60)
        url = f"http://127.0.0.1:{probe.port}/healthz"
        for patience in (0.2, 60.0):
            try:
                with urllib.request.urlopen(url, timeout=patience) as reply:
                    heard.append(reply.status)
            except TimeoutError:
                heard.append("no answer")

    thread = threading.Thread(target=kubelet)
    thread.start()
    watchdog = Watchdog(limit=3.0, interval=0.1)
    async with watchdog.watching():
        await asyncio.sleep(0.2)
        assert watchdog.stalls == 0
        go.set()
        this_line_hangs(until=lambda: bool(heard and watchdog.stalls))
        await asyncio.to_thread(thread.join)
    assert heard == ["no answer", 200]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "this_line_hangs" in record.getMessage()
    assert watchdog.stalls == 1, "said once"


def this_line_hangs(*, until: Callable[[], bool]) -> None:
    last = time.monotonic() + 60
    while not until() and time.monotonic() < last:
        time.sleep(0.05)


async def test_metrics_read_what_others_have_counted(probe: Probe) -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    queue.add("b")
    await queue.get()
    store: Store[Pod] = Store("pods")
    store.take(Changed(Pod(Metadata(name="p", resource_version="1"))), version="")
    now = asyncio.get_running_loop().time()
    lease = LeaseStatistics(leading=True, since=now, deadline=now + 10, terms=1, losses=0, renewals=3, failures=0)
    probe.metrics.add(QUEUE, "nodes", queue.statistics)
    probe.metrics.add(STORE, "pods", lambda: store)
    probe.metrics.add(LEASE, "syncer", lambda: lease)
    probe.metrics.add(LIMIT, "client", Bucket(1).statistics)
    status, text = await probe.ask("/metrics")
    assert status == 200
    for line in (
        'sunk_kube_queue_depth{name="nodes"} 1.0',
        'sunk_kube_queue_working{name="nodes"} 1.0',
        'sunk_kube_queue_adds_total{name="nodes"} 2.0',
        'sunk_kube_queue_wait_seconds_count{name="nodes"} 1.0',
        'sunk_kube_store_objects{name="pods"} 1.0',
        'sunk_kube_store_synced{name="pods"} 0.0',
        'sunk_kube_store_age_seconds{name="pods"} +Inf',
        'sunk_kube_lease_leading{name="syncer"} 1.0',
        'sunk_kube_lease_renewals_total{name="syncer"} 3.0',
        "process_resident_memory_bytes",
    ):
        assert line in text


async def test_requests_are_counted_by_verb_resource_and_code(probe: Probe) -> None:
    for code in (200, 200, 409, 0):
        probe.metrics.observe(Exchange("GET", "/api/v1/namespaces/a/pods/b", code, 0.02))
    _, text = await probe.ask("/metrics")
    assert 'sunk_kube_requests_total{code="200",resource="pods",verb="get"} 2.0' in text
    assert 'sunk_kube_requests_total{code="0",resource="pods",verb="get"} 1.0' in text
    assert 'sunk_kube_request_duration_seconds_bucket{le="0.025",resource="pods",verb="get"} 4.0' in text


async def test_a_scraper_gets_the_format_it_prefers(probe: Probe) -> None:
    text, content_type = probe.metrics.text("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
