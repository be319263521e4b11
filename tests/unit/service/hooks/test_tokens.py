"""Who vouches for a token, how often somebody is asked, and what is remembered. Time does not pass here by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.service.hooks.serving import AUDIENCE, CALLER, Signer, Source, said, unsigned, verifier

from sunk.kube.errors import Unreachable
from sunk.kube.tasks import running
from sunk.service.hooks import keys, review, tokens
from sunk.service.hooks.keys import SigningKeys
from sunk.service.hooks.review import Reviews
from sunk.service.hooks.tokens import Caller, TokenVerifier, Unverifiable

pytestmark = [pytest.mark.looptime]


class Reviewer:
    """Stands for the TokenReviews of an API server."""

    def __init__(self, caller: Caller | None = CALLER) -> None:
        self.caller = caller
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0
        self.broken = False
        self.takes = 0.01

    async def __call__(self, _: str) -> Caller | None:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once -= 1
        if self.broken:
            raise Unreachable("no route")
        return self.caller


@asynccontextmanager
async def checked(found: TokenVerifier) -> AsyncIterator[TokenVerifier]:
    async with running({"verifier": found.run()}):
        await asyncio.sleep(1)
        yield found


async def test_a_token_is_verified_by_the_published_keys_and_nobody_is_asked() -> None:
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        assert await found.verify(source.signers[0].token()) == CALLER
        assert (source.reads, reviewer.asked) == (1, 0)
        assert found.statistics() == {"keys": 1, "cache": 0, "review": 0, "refused": 0, "unverifiable": 0}


async def test_the_first_token_waits_for_the_keys() -> None:
    source, reviewer = Source(Signer()), Reviewer()
    found = verifier(source, review=reviewer)
    async with running({"verifier": found.run()}):
        assert await found.verify(source.signers[0].token()) == CALLER
    assert (source.reads, reviewer.asked) == (1, 0)


async def test_ten_thousand_retries_with_one_token_check_its_signature_once_a_minute() -> None:
    source = Source(Signer())
    token = source.signers[0].token()
    async with checked(verifier(source)) as found:
        for _ in range(10_000):
            assert await found.verify(token) == CALLER
        assert found.statistics()["keys"] == 1
        await asyncio.sleep(tokens.REMEMBERED + 1)
        assert await found.verify(token) == CALLER
        assert found.statistics()["keys"] == 2


async def test_a_token_is_not_remembered_beyond_its_end() -> None:
    source = Source(Signer())
    start = asyncio.get_running_loop().time()

    def now() -> float:
        return 1_000_000 + asyncio.get_running_loop().time() - start

    token = source.signers[0].token(exp=now() + 30, nbf=0)
    async with checked(verifier(source, now=now)) as found:
        assert await found.verify(token) == CALLER
        await asyncio.sleep(50)
        assert await found.verify(token) is None


async def test_the_token_itself_is_nowhere_kept() -> None:
    source = Source(Signer())
    token = source.signers[0].token()
    async with checked(verifier(source)) as found:
        await found.verify(token)
        kept = found._verdicts  # noqa: SLF001 - what is kept is the question
        assert [len(digest) for digest in kept] == [32]
        assert token.rpartition(".")[2] not in repr(kept)


async def test_no_more_tokens_are_remembered_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST", 3)
    source = Source(Signer())
    made = [source.signers[0].token(jti=str(number)) for number in range(5)]
    async with checked(verifier(source)) as found:
        for token in made:
            assert await found.verify(token) == CALLER
        assert len(found._verdicts) == 3  # noqa: SLF001 - what is kept is the question
        await found.verify(made[4])
        assert found.statistics()["cache"] == 1


@pytest.mark.parametrize(
    "token",
    [
        "",
        "garbage",
        "a.b.c",
        "ä.ö.ü",
        "\udc80.b.c",
        unsigned({"alg": "none"}, said()),
        unsigned({"alg": "none", "kid": "first"}, said()),
        unsigned({"alg": "HS256", "kid": "first"}, said(), b"x" * 32),
        unsigned({"alg": "ES256", "kid": "first"}, said(), b"x" * 64),
        unsigned({"alg": "ES256", "kid": "first"}, said()),
        "x" * 17_000,
    ],
)
async def test_what_is_no_token_is_refused_without_a_question_to_anybody(token: str) -> None:
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        assert await found.verify(token) is None
        assert (source.reads, reviewer.asked) == (1, 0)
        assert found.statistics()["refused"] == 1


async def test_a_token_that_is_too_long_is_refused_unread() -> None:
    source = Source(Signer())
    async with checked(verifier(source)) as found:
        assert await found.verify(source.signers[0].token(padding="x" * 13_000)) is None
        assert await found.verify(source.signers[0].token(padding="x" * 10_000)) == CALLER


async def test_an_expired_token_is_refused() -> None:
    source = Source(Signer())
    async with checked(verifier(source)) as found:
        assert await found.verify(source.signers[0].token(seconds=-60)) is None


async def test_a_foreign_audience_is_refused_also_if_the_key_is_unknown_and_nobody_is_asked() -> None:
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        assert await found.verify(source.signers[0].token(aud=["other"])) is None
        assert await found.verify(Signer("unknown").token(aud=["other"])) is None
        assert reviewer.asked == 0


async def test_a_new_key_is_read_as_soon_as_a_token_names_it() -> None:
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        await asyncio.sleep(keys.PAUSE)
        source.signers.append(Signer("second"))
        assert await found.verify(source.signers[1].token()) == CALLER
        assert (source.reads, reviewer.asked) == (2, 0)


async def test_a_key_that_is_no_longer_published_is_forgotten() -> None:
    source = Source(Signer())
    old = source.signers[0]
    async with checked(verifier(source)) as found:
        source.signers = [Signer("second")]
        await asyncio.sleep(keys.PERIOD + 1)
        assert source.reads == 2
        with pytest.raises(Unverifiable):
            await found.verify(old.token())


async def test_a_flood_of_invented_keys_is_no_flood_of_requests() -> None:
    source, reviewer = Source(Signer()), Reviewer(caller=None)
    stranger = Signer("x")
    flood = [stranger.token(headers={"kid": f"invented-{number}"}) for number in range(500)]
    async with checked(verifier(source, review=reviewer)) as found:
        await asyncio.sleep(keys.PAUSE)
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*map(found.verify, flood), return_exceptions=True)
        took = asyncio.get_running_loop().time() - began
        assert all(answer is None or isinstance(answer, Unverifiable) for answer in answers)
        assert source.reads <= 3
        assert reviewer.asked <= review.BURST + review.RATE * took
        assert reviewer.most_at_once <= review.AT_ONCE
        assert took <= keys.PATIENCE + review.PATIENCE + 1
        assert await found.verify(source.signers[0].token()) == CALLER


async def test_callers_that_hang_up_do_not_keep_the_keys_from_being_read() -> None:
    source = Source(Signer())
    async with checked(verifier(source)) as found:
        await asyncio.sleep(keys.PAUSE)
        source.signers.append(Signer("second"))
        hasty = asyncio.create_task(found.verify(source.signers[1].token()))
        await asyncio.sleep(0.001)
        hasty.cancel()
        await asyncio.sleep(1)
        assert source.reads == 2
        assert await found.verify(source.signers[1].token(jti="other")) == CALLER


async def test_without_keys_the_api_server_is_asked_and_its_answer_holds_for_a_moment() -> None:
    source, reviewer = Source(), Reviewer()
    source.broken = True
    token = Signer().token()
    async with checked(verifier(source, review=reviewer)) as found:
        for _ in range(100):
            assert await found.verify(token) == CALLER
        assert reviewer.asked == 1
        assert found.statistics() == {"keys": 0, "cache": 99, "review": 1, "refused": 0, "unverifiable": 0}
        await asyncio.sleep(tokens.REVIEWED + 1)
        assert await found.verify(token) == CALLER
        assert reviewer.asked == 2


async def test_a_refusal_by_the_api_server_holds_for_a_moment_too() -> None:
    source, reviewer = Source(), Reviewer(caller=None)
    token = Signer().token()
    async with checked(verifier(source, review=reviewer)) as found:
        for _ in range(100):
            assert await found.verify(token) is None
        assert reviewer.asked == 1
        assert found.statistics()["refused"] == 100


async def test_a_token_without_the_name_of_its_key_is_reviewed() -> None:
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        await asyncio.sleep(keys.PAUSE)
        assert await found.verify(source.signers[0].token(headers={"kid": ""})) == CALLER
        assert (source.reads, reviewer.asked) == (1, 1)


async def test_a_token_in_the_name_of_another_issuer_is_reviewed() -> None:
    """An API server accepts several issuers, and publishes one."""
    source, reviewer = Source(Signer()), Reviewer()
    async with checked(verifier(source, review=reviewer)) as found:
        assert await found.verify(source.signers[0].token(iss="https://before.example")) == CALLER
        assert reviewer.asked == 1
        forged = Signer().token(iss="https://before.example")
        assert await found.verify(forged) is None
        assert reviewer.asked == 1


async def test_if_nobody_can_say_whose_a_token_is_that_is_no_refusal() -> None:
    source, reviewer = Source(), Reviewer()
    source.broken = reviewer.broken = True
    token = Signer().token()
    async with checked(verifier(source, review=reviewer)) as found:
        with pytest.raises(Unverifiable):
            await found.verify(token)
        reviewer.broken = False
        assert await found.verify(token) == CALLER


async def test_a_review_that_takes_too_long_is_given_up() -> None:
    source, reviewer = Source(), Reviewer()
    reviewer.takes = 3600
    async with checked(verifier(source, review=reviewer)) as found:
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unverifiable):
            await found.verify(Signer().token())
        assert asyncio.get_running_loop().time() - began <= keys.PATIENCE + review.PATIENCE + 0.1


async def test_keys_that_cannot_be_read_are_tried_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(Signer())
    source.broken = True
    with caplog.at_level("INFO", logger="sunk.service.hooks.keys"):
        async with checked(verifier(source)) as found:
            await asyncio.sleep(60)
            assert 4 <= source.reads <= 6
            source.broken = False
            await asyncio.sleep(keys.RETRY)
            assert await found.verify(source.signers[0].token()) == CALLER
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_keys_that_never_come_are_not_waited_for() -> None:
    async def never() -> keys.Published:
        await asyncio.sleep(3600)
        return keys.Published()

    reviewer = Reviewer()
    found = TokenVerifier(audience=AUDIENCE, keys=SigningKeys(never), reviews=Reviews(reviewer), now=lambda: 0.0)
    token = Signer().token(exp=10, nbf=0)
    async with running({"verifier": found.run()}):
        assert await found.verify(token) == CALLER
    assert reviewer.asked == 1
