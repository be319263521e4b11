"""Lines as in sssd.conf."""

import pytest
from hypothesis import given, strategies as st

from sunk.directory.domain import snippets
from sunk.directory.failure import Failure

SECRET = "user.existingSecret"  # noqa: S105 - the name of a value


def lines(text: str, *, needs_section: bool = True) -> dict[str, str]:
    found = snippets.of_domain(
        snippets.parse(text, source=SECRET), name="default", source=SECRET, needs_section=needs_section
    )
    return {line.name: line.value for line in found}


def test_options_of_the_section_of_this_directory_count() -> None:
    text = """
        # the password
        [domain/default]
        LDAP_Default_Authtok = Ch4ng3M3! = %s # ; not a comment
        ; another
        ldap_search_base=dc=example,dc=com
    """.replace("\n        ", "\n")
    assert lines(text) == {
        "ldap_default_authtok": "Ch4ng3M3! = %s # ; not a comment",
        "ldap_search_base": "dc=example,dc=com",
    }


def test_a_line_that_begins_with_a_space_goes_on() -> None:
    assert lines("[domain/default]\nldap_uri = ldap://a,\n  ldap://b\n") == {"ldap_uri": "ldap://a, ldap://b"}


def test_sections_of_other_directories_and_of_a_whole_file_are_let_be() -> None:
    text = "[sssd]\ndomains = default\nservices = nss\n[domain/other]\nfoo = 1\n[domain/default]\nmin_id = 5\n"
    assert lines(text) == {"min_id": "5"}


def test_additional_config_needs_no_section() -> None:
    assert lines("min_id = 5", needs_section=False) == {"min_id": "5"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no section"),
        ("[domain/other]\nmin_id = 5", r"no section \[domain/default\]"),
        ("min_id = 5", "in no section"),
        ("[domain/default]\nnonsense", "line 2"),
        ("[domain/default]\n= 5", "line 2"),
        ("[domain/default]\nbad name = 5", "line 2"),
        ("[nss]\nfilter_users = root", "has no effect"),
        ("[sssd]\nfull_name_format = x", "has no effect"),
        ("[domain/default]\nldap_uri = a\x00b", "cannot be printed"),
    ],
)
def test_what_has_no_effect_is_refused(text: str, words: str) -> None:
    with pytest.raises(Failure, match=words):
        lines(text)


def test_no_message_shows_a_password() -> None:
    with pytest.raises(Failure) as told:
        lines("[domain/default]\nldap default authtok Ch4ng3M3\n")
    assert "Ch4ng3M3" not in str(told.value)


@given(st.text(max_size=200))
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        lines(text)
    except Failure:
        return
