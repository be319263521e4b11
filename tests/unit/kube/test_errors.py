import pytest
from msgspec import json

from sunk.kube import errors
from sunk.kube.errors import ApiError, TooManyRequests, refusal


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", ApiError),
    ],
)
def test_each_refusal_has_its_exception(code: int, reason: str, kind: type[ApiError]) -> None:
    error = refusal(json.encode({"reason": reason, "message": "no"}), code=code, asked="GET /x")
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "no")
    assert str(error) == f"GET /x: {code} {reason}: no"


def test_the_causes_of_an_invalid_object_are_kept() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]
    error = refusal(json.encode({"details": {"causes": causes}}), code=422, asked="POST /pods")
    assert [cause.field for cause in error.causes] == ["spec.containers"]


def test_the_longest_stated_wait_counts() -> None:
    body = json.encode({"details": {"retryAfterSeconds": 5}})
    error = refusal(body, code=429, asked="POST /x", retry_after="10")
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == 10


def test_a_wait_that_is_no_number_does_not_hide_the_refusal() -> None:
    error = refusal(b"slow down", code=429, asked="POST /x", retry_after="Thu, 01 Jan 2026 00:00:00 GMT")
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == 1
    assert error.message == "slow down"


def test_prose_from_a_proxy_is_kept_as_the_message() -> None:
    error = refusal(b"<html>bad gateway</html>", code=502, asked="GET /x")
    assert "bad gateway" in str(error)
