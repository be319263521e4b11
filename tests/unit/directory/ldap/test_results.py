"""What exit codes and words of ldapsearch mean."""

import pytest

from sunk.directory.ldap.results import GARBAGE, TIMEOUT, Answer, answer, failure
from sunk.model.contract.people import INVALID, REFUSED, SUSPECT, UNREACHABLE

URI = "ldaps://ldap.example.com"


def test_a_search_that_ended_well_has_no_failure() -> None:
    assert answer(0, "") is None
    assert answer(0, "ldap_bind: Success (0)\n\tadditional info: password expires soon\n") is None


@pytest.mark.parametrize(
    ("code", "words", "state", "option"),
    [
        (49, "ldap_bind: Invalid credentials (49)\n", REFUSED, "ldap_default_authtok"),
        (255, "ldap_sasl_bind(SIMPLE): Can't contact LDAP server (-1)\n", UNREACHABLE, "ldap_uri"),
        (1, "ldap_start_tls: Can't contact LDAP server (-1)\n", UNREACHABLE, "ldap_uri"),
        (1, "ldap_start_tls: Connect error (-11)\n\tadditional info: (unknown error code)\n", REFUSED, "ldap_uri"),
        (
            *(1, "ldap_start_tls: Protocol error (2)\n\tadditional info: unsupported extended operation\n"),
            *(REFUSED, "ldap_id_use_start_tls"),
        ),
        (4, "Size limit exceeded (4)\n", SUSPECT, "ldap_default_bind_dn"),
        (11, "Administrative limit exceeded (11)\n", SUSPECT, "ldap_default_bind_dn"),
        (3, "Time limit exceeded (3)\n", UNREACHABLE, "ldap_search_timeout"),
        (12, "Critical extension is unavailable (12)\n", INVALID, "ldap_page_size"),
        (32, "No such object (32)\nMatched DN: dc=example,dc=com\n", INVALID, "ldap_search_base"),
        (10, "Referral (10)\nReferral: ldap://other/\n", INVALID, "ldap_search_base"),
        (34, "Invalid DN syntax (34)\nAdditional information: invalid DN\n", INVALID, "ldap_search_base"),
        (13, "ldap_bind: Confidentiality required (13)\n", REFUSED, "ldap_id_use_start_tls"),
        (249, "ldap_search_ext: Bad search filter (-7)\n", INVALID, "ldap_user_search_base"),
        (
            *(1, "Operations error (1)\nAdditional information: 000004DC: a successful bind must be completed\n"),
            *(REFUSED, "ldap_default_bind_dn"),
        ),
        (80, "ldap_result: Other (e.g., implementation specific) error (80)\n", UNREACHABLE, "ldap_uri"),
        (1, "", UNREACHABLE, "ldap_uri"),
        (-9, "", UNREACHABLE, "ldap_uri"),
        (77, "something (new)\n", UNREACHABLE, "ldap_uri"),
    ],
)
def test_codes_have_states_and_something_to_blame(code: int, words: str, state: str, option: str) -> None:
    found = answer(code, words)
    assert found is not None
    told = failure(found, URI, encrypted=True)
    assert (told.state, told.option) == (state, option)
    assert told.words.startswith(URI)


def test_one_that_was_cut_off_is_not_believed_although_it_ends_with_zero() -> None:
    found = answer(0, "ldap_result: Success (0)\n")
    assert found is not None
    assert failure(found, URI, encrypted=True).state == UNREACHABLE


def test_what_a_server_adds_stands_in_one_printable_line() -> None:
    found = answer(49, "ldap_bind: Invalid credentials (49)\n\tadditional info: 80090308:\x1b[31m data 52e\n")
    assert found is not None
    assert found.detail
    assert failure(found, URI, encrypted=True).words.isprintable()


def test_silence_and_nonsense_are_told_apart() -> None:
    assert failure(Answer(TIMEOUT, ""), URI, encrypted=True).state == UNREACHABLE
    told = failure(Answer(GARBAGE, "a line is no LDIF"), URI, encrypted=True)
    assert (told.state, "no LDIF" in told.words) == (SUSPECT, True)
    assert failure(Answer(TIMEOUT, ""), URI, encrypted=True).is_unconnected
    assert not told.is_unconnected
