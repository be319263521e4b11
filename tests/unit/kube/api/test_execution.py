"""How the end of a program in a container is read."""

import pytest

from sunk.kube.api.execution import Execution, Transcript
from sunk.kube.errors import ApiError, NotFound, Unreachable

OUT, ERR, END = b"\x01", b"\x02", b"\x03"
SUCCESS = END + b'{"metadata": {}, "status": "Success"}'


def heard(*messages: bytes, most: int = 1000) -> Execution:
    transcript = Transcript(most=most)
    for message in messages:
        transcript.hear(message)
    return transcript.outcome(asked="id in Pod a/b")


def test_both_outputs_are_put_together() -> None:
    assert heard(OUT + b"uid=", ERR + b"warning", OUT + b"5", SUCCESS) == Execution(0, stdout="uid=5", stderr="warning")


def test_an_exit_code_is_found_among_the_causes() -> None:
    causes = b'[{"reason": "Other", "message": "x"}, {"reason": "ExitCode", "message": "42"}]'
    ended = b'{"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": ' + causes + b"}}"
    found = heard(ERR + b"no such user", END + ended)
    assert found == Execution(42, stderr="no such user")
    assert not found.ok


def test_what_was_never_run_is_an_error_of_kubernetes() -> None:
    with pytest.raises(NotFound, match="container not found"):
        heard(END + b'{"status": "Failure", "reason": "NotFound", "message": "container not found", "code": 404}')
    with pytest.raises(ApiError):
        heard(END + b'{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "many"}]}}')


@pytest.mark.parametrize("last", [b"", END, END + b"{", b"\x09nonsense"])
def test_a_connection_that_ends_early_is_no_answer(last: bytes) -> None:
    with pytest.raises(Unreachable, match="ended before the program"):
        heard(OUT + b"half", last)


def test_an_endless_output_is_cut_off() -> None:
    assert heard(*[OUT + b"12345"] * 5, SUCCESS, most=100).stdout == "12345" * 5
    found = heard(*[OUT + b"y" * 50] * 5, SUCCESS, most=120)
    assert len(found.stdout) == 120


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert heard(OUT + b"\xff\xfe", SUCCESS).stdout == "\ufffd\ufffd"
