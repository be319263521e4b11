"""DNs that are the same, and those that are not."""

import pytest
from hypothesis import given, strategies as st

from sunk.directory.ldap.names import first_value, normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"uid=alice,dc=Example,dc=com", b"UID=Alice, DC=example , dc=com"),
        (rb"cn=Doe\, Jane,dc=x", rb"cn=Doe\2C Jane,dc=x"),
        (rb"cn=Doe\, Jane,dc=x", b'cn="Doe, Jane",dc=x'),
        (b"cn=a+uid=b,dc=x", b"uid=b+cn=a,dc=x"),
        (b"cn=two  spaces,dc=x", b"cn=two spaces,dc=x"),
        (rb"cn=\c3\a4,dc=x", "cn=ä,dc=x".encode()),
        (b"cn=a;dc=x", b"cn=a,dc=x"),
    ],
)
def test_names_that_mean_the_same_are_equal(one: bytes, other: bytes) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rb"cn=a\,dc=x", b"cn=a,dc=x"),
        (rb"cn=a\+uid=b,dc=x", b"cn=a+uid=b,dc=x"),
        (b"cn=a,dc=x", b"cn=a,dc=y"),
        (b"cn=a\xff,dc=x", b"cn=a\xfe,dc=x"),
    ],
)
def test_names_that_differ_do(one: bytes, other: bytes) -> None:
    assert normal(one) != normal(other)


@given(st.binary(max_size=60))
def test_any_bytes_have_a_form(dn: bytes) -> None:
    assert normal(dn) == normal(dn)


def test_the_value_that_a_name_begins_with() -> None:
    assert first_value(b"uid=Alice,dc=x", "UID") == "alice"
    assert first_value(b"cn=Alice,dc=x", "uid") == ""
    assert first_value(b"", "uid") == ""
