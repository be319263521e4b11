"""Keys of Slurm: how a set of them is written and changed, and what is refused."""

import msgspec
import pytest

from sunk.model.contract import keyset
from sunk.model.refusal import Refusal

OLD, NEW = b"o" * 1024, b"n" * 1024


def test_a_lone_key_becomes_the_default_of_a_set_in_the_words_of_slurm() -> None:
    (key,) = msgspec.json.decode(keyset.alone(OLD).encode())["keys"]
    assert {word: key[word] for word in ("kid", "use", "alg", "kty")} == {
        "kid": "first",
        "use": "default",
        "alg": "HS256",
        "kty": "oct",
    }
    assert keyset.read(keyset.alone(OLD).encode()).default.value == OLD


def test_a_rotation_never_leaves_a_key_that_is_signed_with_unknown_to_others() -> None:
    start = keyset.alone(OLD)
    added = start.add(NEW, kid="2027-01")
    assert (added.ids, added.default.value) == (("first", "2027-01"), OLD)
    used = added.use("2027-01")
    assert (used.ids, used.default.value) == (("first", "2027-01"), NEW)
    assert used.use("first").default.value == OLD, "it can be taken back"
    assert used.drop("first").ids == ("2027-01",)


def test_slurm_takes_the_first_key_if_none_is_marked() -> None:
    keys = tuple(msgspec.structs.replace(one, use="") for one in keyset.alone(OLD).add(NEW, kid="b").keys)
    assert keyset.KeySet(keys).default.value == OLD


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one.drop("first"), "is in use"),
        (lambda one: one.drop("other"), "no key other; existing keys: first"),
        (lambda one: one.use("other"), "no key other"),
        (lambda one: one.add(NEW, kid="first"), "key first already exists"),
        (lambda one: one.add(NEW, kid="a b"), "is not a valid key id"),
        (lambda one: one.add(b"short", kid="b"), "at least 16"),
    ],
)
def test_what_would_cut_daemons_off_is_refused(change: object, told: str) -> None:
    with pytest.raises(Refusal, match=told):
        change(keyset.alone(OLD))  # type: ignore[operator]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"keys": []}',
        b'{"keys": [{"kid": "a"}]}',
        b'{"keys": [{"kid": "a", "k": "AAAA", "alg": "HS256", "kty": "oct"}]}',
        b'{"keys": [{"kid": "a", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_slurm_would_not_take_is_refused(content: bytes) -> None:
    with pytest.raises(Refusal, match=r"slurm\.jwks"):
        keyset.read(content)
