"""What ldapsearch prints, and what could stand in its place."""

import base64

import pytest
from hypothesis import given, strategies as st

from sunk.directory.ldap.ldif import Entry, Garbage, LdifParser, decoded

ALICE = b"""dn: uid=alice,ou=people,dc=example,dc=com
uid: alice
uidNumber: 1001
sshPublicKey: ssh-ed25519 AAAA a
sshPublicKey: ssh-ed25519 BBBB b

"""


def parse(text: bytes, *, chunk: int = 1 << 16, value_limit: int = 1 << 20, output_limit: int = 1 << 24) -> list[Entry]:
    parser = LdifParser(value_limit=value_limit, output_limit=output_limit)
    found = [entry for at in range(0, len(text), chunk) for entry in parser.feed(text[at : at + chunk])]
    parser.end()
    return found


def test_an_entry_has_its_name_and_all_values_by_names_without_case() -> None:
    (entry,) = parse(ALICE)
    assert entry.dn == b"uid=alice,ou=people,dc=example,dc=com"
    assert entry.text("UIDNUMBER") == "1001"
    assert entry.values("sshPublicKey") == [b"ssh-ed25519 AAAA a", b"ssh-ed25519 BBBB b"]
    assert entry.text("loginShell") == ""


@given(st.integers(1, 50))
def test_chunks_may_end_anywhere(chunk: int) -> None:
    assert parse(ALICE + ALICE, chunk=chunk) == parse(ALICE) * 2


def test_lines_may_be_folded_and_comments_too() -> None:
    text = b"# refldap://other\n .example.com\n\ndn: uid=al\n ice,dc=x\nuid: al\n ice\n\n# pagedresults: cookie=\n"
    (entry,) = parse(text)
    assert (entry.dn, entry.text("uid")) == (b"uid=alice,dc=x", "alice")


def test_pages_follow_each_other_without_an_empty_line_in_between() -> None:
    text = b"dn: dc=a\na: 1\n\n# pagedresults: cookie=AAAA\ndn: dc=b\na: 2\n\n"
    assert [entry.dn for entry in parse(text)] == [b"dc=a", b"dc=b"]


def test_base64_hides_line_breaks() -> None:
    evil = b"alice\nuidNumber: 0"
    text = b"dn:: " + base64.b64encode(b"uid=\xc3\xa4,dc=x") + b"\nuid:: " + base64.b64encode(evil) + b"\nempty:\n\n"
    (entry,) = parse(text)
    assert entry.values("uid") == [evil]
    assert entry.values("uidNumber") == []
    assert entry.values("empty") == [b""]


def test_no_entries_are_no_fault() -> None:
    assert parse(b"") == []
    assert parse(b"\n# refldap://x\n\n") == []


@pytest.mark.parametrize(
    "text",
    [
        b"dn: dc=a\nuid: alice\n",  # no empty line: cut off
        b"dn: dc=a\nuid: ali",
        b"uid: alice\n\n",
        b"dn: dc=a\ndn: dc=b\n\n",
        b"dn: dc=a\nno colon\n\n",
        b"dn: dc=a\nuid:: !!!\n\n",
        b"dn: dc=a\nuid:< file:///etc/passwd\n\n",
        b"HTTP/1.1 400 Bad Request\n\n",
        b"\x00\x01\x02\xff\n\n",
        b"d\xc3\xa4n: x\n\n",
    ],
)
def test_what_is_no_ldif_is_garbage(text: bytes) -> None:
    with pytest.raises(Garbage):
        parse(text)


def test_a_huge_value_is_left_out_and_the_rest_stays() -> None:
    text = b"dn: dc=a\nphoto: " + b"x" * 5000 + b"\nuid: alice\nfolded: " + b"y\n y" * 3000 + b"\nlast: 1\n\n"
    for chunk in (7, 1000, 100_000):
        (entry,) = parse(text, chunk=chunk, value_limit=1000)
        assert (entry.values("photo"), entry.values("folded")) == ([], [])
        assert (entry.text("uid"), entry.text("last")) == ("alice", "1")


def test_a_huge_name_is_garbage() -> None:
    with pytest.raises(Garbage):
        parse(b"dn: " + b"x" * 5000 + b"\n\n", value_limit=1000)


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    parser = LdifParser(value_limit=1000)
    for _ in range(100):
        assert [*parser.feed(b"x" * 10_000)] == []
    assert len(parser._rest) <= 1001  # noqa: SLF001 - that is the point
    with pytest.raises(Garbage):
        parser.end()


def test_the_whole_answer_is_bounded() -> None:
    with pytest.raises(Garbage, match="larger"):
        parse(ALICE * 100, output_limit=5000)


def test_text_is_utf8_or_nothing() -> None:
    assert decoded(b" \xc3\xa4 ") == "ä"
    assert decoded(b"\xff\xfe") == ""


@given(st.binary(max_size=300))
def test_anything_is_either_entries_or_garbage(text: bytes) -> None:
    try:
        parse(text)
    except Garbage:
        return
