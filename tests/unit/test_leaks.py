"""How tests look for secrets."""

import pytest
from msgspec import json
from tests.leaks import is_in, texts

ODD = "bob's \\1 \"x"


def test_a_secret_is_found_in_every_depth_of_an_object() -> None:
    inner = json.encode({"directories": [{"password": ODD}]}).decode()
    for found in (
        {"data": {"settings": inner}},
        {"metadata": {"annotations": {"last": json.encode({"data": inner}).decode()}}},
        {"items": [{"data": {ODD: ""}}]},
        {"data": {"conf": f"[domain]\npassword = {ODD}\n"}},
    ):
        read = json.decode(json.encode(found))
        assert any(is_in(ODD, text) for text in texts(read)), found
    assert not any(is_in(ODD, text) for text in texts({"data": {"n": 1, "broken": "{", "none": None}}))


@pytest.mark.parametrize("line", [ODD, repr({"password": ODD}), json.encode(ODD).decode(), "'bob''s \\1 \"x'"])
def test_a_secret_is_found_as_logs_write_it(line: str) -> None:
    assert is_in(ODD, f"12:00 refused {line}")
