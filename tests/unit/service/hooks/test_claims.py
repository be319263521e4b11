"""What a token has to say, and that nothing else is taken for one."""

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, strategies as st
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, RSAAlgorithm
from tests.unit.service.hooks.serving import AUDIENCE, BINDING, BOUND, CALLER, ISSUER, POD, Signer, said, unsigned

from sunk.service.hooks import claims
from sunk.service.hooks.claims import Caller, User, bearer
from sunk.service.hooks.keys import usable

SIGNER = Signer()
NOW = time.time()
EXTRA = {"authentication.kubernetes.io/pod-name": ("node-0",), "authentication.kubernetes.io/pod-uid": ("uid-0",)}


def judged(**changes: Any) -> Caller | str:
    found = claims.signed(SIGNER.token(said(now=NOW) | changes), key=SIGNER.public())
    assert found is not None
    return claims.judged(found, audience=AUDIENCE, now=NOW)


def test_a_good_token_names_its_pod() -> None:
    assert judged() == CALLER
    assert judged(aud=AUDIENCE) == CALLER
    assert judged(aud=["https://kubernetes.default.svc", AUDIENCE]) == CALLER


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": ["sunk.test/slurm/other"]}, "another server"),
        ({"aud": []}, "another server"),
        ({"aud": AUDIENCE + "2"}, "another server"),
        ({"exp": NOW - claims.LEEWAY - 1}, "expired"),
        ({"nbf": NOW + claims.LEEWAY + 1}, "not valid yet"),
        ({BINDING: {"namespace": "slurm"}}, "not bound"),
        ({BINDING: {"namespace": "slurm", "pod": {"name": "node-0"}}}, "not bound"),
        ({BINDING: {"namespace": "slurm", "pod": {"uid": "uid-0"}}}, "not bound"),
        ({BINDING: {"pod": POD}}, "not bound"),
        ({BINDING: {"namespace": "slurm", "node": {"name": "n", "uid": "u"}}}, "not bound"),
    ],
)
def test_a_token_is_refused_for_what_it_says(changes: dict[str, Any], why: str) -> None:
    found = judged(**changes)
    assert isinstance(found, str)
    assert why in found


def test_clocks_may_differ_a_little() -> None:
    assert judged(exp=NOW - claims.LEEWAY + 1) == CALLER
    assert judged(nbf=NOW + claims.LEEWAY - 1) == CALLER


@pytest.mark.parametrize(
    "payload",
    [
        {"aud": [AUDIENCE], "exp": NOW, BINDING: BOUND},
        {"iss": ISSUER, "exp": NOW, BINDING: BOUND},
        {"iss": ISSUER, "aud": [AUDIENCE], BINDING: BOUND},
        said() | {"exp": "tomorrow"},
        said() | {"aud": {"a": 1}},
        said() | {BINDING: {"namespace": "slurm", "pod": "node-0"}},
        said() | {BINDING: {"namespace": 1, "pod": POD}},
        said() | {"exp": None},
        said() | {BINDING: None},
    ],
)
def test_a_token_that_lacks_something_or_says_it_otherwise_is_not_read(payload: dict[str, Any]) -> None:
    token = PyJWS().encode(json.dumps(payload).encode(), SIGNER.key, algorithm="ES256", headers={"kid": "first"})
    assert claims.signed(token, key=SIGNER.public()) is None


def test_only_the_key_that_is_named_verifies() -> None:
    assert claims.signed(SIGNER.token(), key=Signer().public()) is None


def test_a_token_whose_payload_was_changed_is_refused() -> None:
    header, _, signature = SIGNER.token().split(".")
    other = SIGNER.token({BINDING: {"namespace": "slurm", "pod": {"name": "node-1", "uid": "uid-1"}}}).split(".")[1]
    assert claims.signed(f"{header}.{other}.{signature}", key=SIGNER.public()) is None


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", None, "HS256", "PS256", "EdDSA", "ES256K", 1, ["ES256"]])
def test_no_other_algorithm_is_accepted(name: Any) -> None:
    token = unsigned({"alg": name, "kid": "first"}, said(), b"signature")
    assert claims.key_id(token) is None
    assert claims.signed(token, key=SIGNER.public()) is None


def test_an_unsigned_token_is_refused() -> None:
    token = jwt.encode(said(), "", algorithm="none", headers={"kid": "first"})
    assert claims.key_id(token) is None
    assert claims.signed(token, key=SIGNER.public()) is None


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_the_public_key_is_no_secret_to_sign_with(encoding: Encoding) -> None:
    secret = SIGNER.key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256", "kid": "first", "typ": "JWT"}
    head = unsigned(header, said()).rpartition(".")[0]
    hmac = HMACAlgorithm(HMACAlgorithm.SHA256).sign(head.encode(), secret)
    token = f"{head}.{jwt.utils.base64url_encode(hmac).decode()}"
    assert claims.key_id(token) is None
    assert claims.signed(token, key=SIGNER.public()) is None


def test_an_rsa_key_verifies_by_its_own_algorithm_only() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "r", "alg": "RS256", "use": "sig"}
    (public,) = usable([jwk]).values()
    assert claims.signed(jwt.encode(said(), key, algorithm="RS256"), key=public) is not None
    assert claims.signed(jwt.encode(said(), key, algorithm="RS512"), key=public) is None
    assert claims.signed(jwt.encode(said(), key, algorithm="PS256"), key=public) is None


def test_keys_that_cannot_verify_a_token_are_left_out() -> None:
    good = ECAlgorithm.to_jwk(SIGNER.key.public_key(), as_dict=True)
    koblitz = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256K1()).public_key(), as_dict=True)
    secret: dict[str, Any] = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
    keys: list[dict[str, Any]] = [
        good | {"kid": "plain"},
        good | {"kid": "named", "alg": "ES256", "use": "sig"},
        good,
        good | {"kid": ""},
        good | {"kid": 7},
        good | {"kid": "encryption", "use": "enc"},
        good | {"kid": "other", "alg": "HS256"},
        good | {"kid": "strange", "x": "!"},
        koblitz | {"kid": "koblitz"},
        secret,
        secret | {"alg": "RS256"},
        {"kid": "empty"},
        {},
    ]
    assert set(usable(keys)) == {"plain", "named"}


@given(st.text())
def test_no_text_is_taken_for_a_token(text: str) -> None:
    assert claims.signed(text, key=SIGNER.public()) is None
    assert claims.key_id(text) is None or claims.unsigned(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(header=st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "typ"]), JSON), payload=JSON)
def test_whatever_stands_in_a_token_it_is_read_or_not_and_nothing_breaks(header: dict[str, Any], payload: Any) -> None:
    token = unsigned(header, {"iss": payload, "aud": payload, "exp": payload, BINDING: payload}, b"s" * 64)
    claims.key_id(token)
    assert claims.signed(token, key=SIGNER.public()) is None
    claims.unsigned(token)


@pytest.mark.parametrize("deep", ["[" * 6000, '{"a":' * 2000, "[" * 3000 + "]" * 3000])
def test_deep_nesting_is_refused(deep: str) -> None:
    assert claims.key_id(unsigned(deep, said())) is None
    nested = f'{{"iss":"{ISSUER}","aud":"{AUDIENCE}","exp":9e9,"x":{deep}}}'
    token = unsigned({"alg": "ES256", "kid": "first"}, nested)
    found = claims.unsigned(token)
    assert found is None or isinstance(claims.judged(found, audience=AUDIENCE, now=NOW), str)


def test_a_review_names_the_pod_of_a_service_account() -> None:
    assert bearer(User(username="system:serviceaccount:slurm:default", extra=EXTRA)) == CALLER


@pytest.mark.parametrize(
    ("username", "extra"),
    [
        ("system:serviceaccount:slurm:default", {}),
        ("system:serviceaccount:slurm", EXTRA),
        ("system:serviceaccount::default", EXTRA),
        ("alice", EXTRA),
        ("", EXTRA),
        ("system:serviceaccount:slurm:default", EXTRA | {"authentication.kubernetes.io/pod-uid": ()}),
        ("system:serviceaccount:slurm:default", EXTRA | {"authentication.kubernetes.io/pod-uid": ("a", "b")}),
        ("system:serviceaccount:slurm:default", EXTRA | {"authentication.kubernetes.io/pod-name": ("",)}),
    ],
)
def test_anybody_else_that_a_review_finds_is_no_pod(username: str, extra: dict[str, tuple[str, ...]]) -> None:
    assert bearer(User(username=username, extra=extra)) is None
