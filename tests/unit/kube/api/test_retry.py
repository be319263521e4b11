"""What may be sent again: the table of `sunk.kube.api.retry`, and its arithmetic under fake time."""

import asyncio
from collections.abc import Iterator

import pytest

from sunk.kube.api.patch import Apply, Json, Merge, Strategic
from sunk.kube.api.retry import ONCE, Repeat, Retry, may_repeat, of_body, of_patch, persist
from sunk.kube.errors import KubeError, Status, Unreachable, from_status
from sunk.kube.resource import Metadata, Record


def answer(code: int, *, retry_after: str = "") -> KubeError:
    return from_status(Status(), code=code, asked="GET /x", retry_after=retry_after)


UNDONE = [answer(429), Unreachable("refused", sent=False)]
UNKNOWN = [answer(500), answer(503), answer(504), Unreachable("cut off")]
FINAL = [answer(code) for code in (400, 401, 403, 404, 409, 410, 422)]


@pytest.mark.parametrize(
    ("repeat", "repeated"), [(Repeat.NEVER, []), (Repeat.UNDONE, UNDONE), (Repeat.UNKNOWN, UNDONE + UNKNOWN)]
)
def test_only_what_does_no_harm_is_repeated(repeat: Repeat, repeated: list[KubeError]) -> None:
    everything = UNDONE + UNKNOWN + FINAL
    assert [one for one in everything if may_repeat(one, repeat=repeat)] == repeated


BARE = {"spec": {"a": 1}}
VERSIONED = {"metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("patch", "repeat"),
    [
        (Apply(BARE, manager="m"), Repeat.UNKNOWN),
        (Merge(VERSIONED), Repeat.UNKNOWN),
        (Strategic({"metadata": {"uid": "u"}}), Repeat.UNKNOWN),
        (Merge(BARE), Repeat.UNDONE),
        (Merge({"metadata": {"labels": {"a": "b"}}}), Repeat.UNDONE),
        (Json([{"op": "add", "path": "/spec/list/-", "value": 1}]), Repeat.UNDONE),
    ],
)
def test_a_patch_is_repeated_if_it_says_what_it_means(patch: Merge | Strategic | Json | Apply, repeat: Repeat) -> None:
    assert of_patch(patch) is repeat


def test_a_record_with_a_version_says_what_it_means() -> None:
    assert of_body(Record(Metadata(resource_version="7"))) is Repeat.UNKNOWN
    assert of_body(Record(Metadata(name="a"))) is Repeat.UNDONE


class Server:
    """Something that answers with troubles first."""

    def __init__(self, *troubles: KubeError) -> None:
        self._troubles: Iterator[KubeError] = iter(troubles)
        self.asked: list[float] = []

    async def __call__(self) -> str:
        self.asked.append(asyncio.get_running_loop().time())
        trouble = next(self._troubles, None)
        if trouble:
            raise trouble
        return "good"


@pytest.mark.looptime
async def test_trouble_that_passes_is_not_heard_of() -> None:
    server = Server(answer(503), Unreachable("cut off"), answer(429))
    assert await persist(server, retry=Retry(), repeat=Repeat.UNKNOWN) == "good"


@pytest.mark.looptime
async def test_pauses_grow_up_to_a_limit_with_chance_in_them() -> None:
    server = Server(*[answer(503)] * 8)
    await persist(server, retry=Retry(within=60, first_delay=1, longest_delay=4), repeat=Repeat.UNKNOWN)
    pauses = [after - before for before, after in zip(server.asked, server.asked[1:], strict=False)]
    for pause, full in zip(pauses, [1, 2, 4, 4, 4, 4, 4, 4], strict=True):
        assert full / 2 <= pause <= full
    assert len(set(pauses)) == len(pauses)


@pytest.mark.looptime
async def test_the_server_says_how_long_to_wait() -> None:
    server = Server(answer(429, retry_after="7"))
    await persist(server, retry=Retry(), repeat=Repeat.UNDONE)
    assert server.asked[1] == pytest.approx(7)


@pytest.mark.looptime
async def test_no_attempt_begins_after_the_time_is_up() -> None:
    server = Server(*[answer(503)] * 1000)
    with pytest.raises(KubeError, match="503"):
        await persist(server, retry=Retry(within=20), repeat=Repeat.UNKNOWN)
    assert 10 < server.asked[-1] <= 20


@pytest.mark.looptime
async def test_without_a_policy_nothing_is_repeated() -> None:
    server = Server(answer(503))
    with pytest.raises(KubeError):
        await persist(server, retry=ONCE, repeat=Repeat.UNKNOWN)
    assert len(server.asked) == 1


@pytest.mark.looptime
async def test_a_lost_try_is_not_hidden_by_a_later_one_that_was_never_sent() -> None:
    server = Server(Unreachable("cut off"), *[Unreachable("refused", sent=False)] * 100)
    with pytest.raises(Unreachable, match="an earlier attempt got no answer") as lost:
        await persist(server, retry=Retry(within=5), repeat=Repeat.UNKNOWN)
    assert lost.value.sent
