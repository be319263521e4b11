"""A watch arrives in chunks that end anywhere; what comes out must not depend on where."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from msgspec import DecodeError, Raw, json

from sunk.kube.api import stream
from sunk.kube.api.stream import TOO_DEEP, Line, Lines, bare, frame, lean, shallow
from sunk.kube.errors import ApiError, Gone, Unreadable
from sunk.kube.resource import Record

LINE = st.binary(max_size=50).map(lambda line: line.replace(b"\n", b""))


@given(lines=st.lists(LINE), cuts=st.lists(st.integers(min_value=0, max_value=500)))
def test_lines_come_out_whole_wherever_the_chunks_end(lines: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(line + b"\n" for line in lines)
    ends = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    splitter = Lines()
    found = [splitter.feed(wire[start:end]) for start, end in pairwise(ends)]
    assert b"".join(found) == wire
    assert all(some.endswith(b"\n") for some in found if some)


def test_a_line_without_its_end_is_held_back() -> None:
    splitter = Lines()
    assert splitter.feed(b'{"type":') == b""
    assert splitter.feed(b'"ADDED"}\n{"ty') == b'{"type":"ADDED"}\n'
    assert splitter.feed(b'pe":"DELETED"}\n') == b'{"type":"DELETED"}\n'


@pytest.mark.parametrize(
    "odd",
    [
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ERROR","object":{"metadata":{},"code":410}}',
        b'{"type":"ADDED","object":{"metadata":{"name":1}}}',
    ],
)
def test_only_lines_of_the_usual_kind_are_decoded_together(odd: bytes) -> None:
    decoder = json.Decoder(Line[Record])
    usual = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n{"type":"DELETED","object":{"metadata":{}}}\n'
    assert [one.type for one in decoder.decode_lines(usual)] == ["ADDED", "DELETED"]
    assert decoder.decode_lines(b"") == []
    with pytest.raises(DecodeError):
        decoder.decode_lines(usual + odd + b"\n")


def line(name: str, *managed: str, after: str = "") -> bytes:
    """A change whose managed fields have keys like these."""
    fields = {"managedFields": [{"manager": "kubelet", "fieldsV1": {f"k:{key}": {}}} for key in managed]}
    metadata = {"name": name} | (fields if managed else {}) | ({"uid": after} if after else {})
    return json.encode({"type": "ADDED", "object": {"metadata": metadata}}) + b"\n"


def test_who_manages_a_field_is_left_out_and_all_else_stays() -> None:
    some = line("a", "x", "y") + line("b") + line("c", "z", after="1")
    assert lean(some) == line("a") + line("b") + line("c", after="1")
    assert lean(line("b")) == line("b")
    assert lean(b"") == b""


def test_a_text_that_speaks_of_managed_fields_stays() -> None:
    text = ',"managedFields":['
    some = line(text, "x") + line(text)
    assert lean(some) == line(text) + line(text)


@pytest.mark.parametrize("rest", ["", ",", "}", "}}}", '},"', ',"', '}}}\n{"type":"ADDED","object":{"metadata":{}}}'])
def test_a_text_that_looks_like_the_end_of_managed_fields_is_never_taken_for_an_object(rest: str) -> None:
    some = line("a", f'{{"name":"]{rest}"}}', f"]{rest}") + line("b", "x")
    with pytest.raises(DecodeError):
        json.Decoder(Line[Record]).decode_lines(lean(some))


def test_managed_fields_without_an_end_are_no_objects_either() -> None:
    some = (line("a", "x") + line("b", "x")).replace(b"]", b"")
    with pytest.raises(DecodeError):
        json.Decoder(Line[Record]).decode_lines(lean(some))


@given(keys=st.lists(st.text(max_size=20), min_size=1), after=st.text(max_size=5))
def test_whatever_stands_in_managed_fields_an_object_is_read_as_it_is_or_not_at_all(
    keys: list[str], after: str
) -> None:
    decoder = json.Decoder(Line[Record])
    some = line("a", *keys, after=after) + line("b", *keys)
    with suppress(DecodeError):
        assert decoder.decode_lines(lean(some)) == decoder.decode_lines(some)


def test_a_bookmark_is_read_though_its_spec_is_null() -> None:
    mark = stream.bare(
        b'{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}},"spec":null}'
    )
    assert mark is not None
    assert mark.metadata.resource_version == "7"
    assert stream.ends_initial_list(mark)


def test_an_error_event_becomes_the_exception_of_its_code() -> None:
    gone = stream.error(Raw(b'{"code":410,"reason":"Expired","message":"too old"}'), asked="WATCH /pods")
    assert isinstance(gone, Gone)
    assert gone.message == "too old"


def test_an_error_event_of_odd_shape_is_still_an_error() -> None:
    odd = stream.error(Raw(b'["what"]'), asked="WATCH /pods")
    assert type(odd) is ApiError
    assert "what" in odd.message


def test_a_line_that_is_no_event_is_said_to_be_unreadable() -> None:
    with pytest.raises(Unreadable, match="not a watch event"):
        stream.frame(b"<html>")


def test_a_list_of_that_name_that_is_somebodys_own_stays() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"size":1,"managedFields":["x"]}}}\n'
    assert lean(line) == line


DEEP = b'{"a":' * 10_000 + b'"]}[{"' + b"}" * 10_000


MOST = 199


@pytest.mark.parametrize("depth", [1, 150, 250, 1000, 10_000, 100_000])
def test_what_is_nested_too_deep_is_cut_out_and_the_rest_stays(depth: int) -> None:
    inner = b"[" * depth + b'"a]\\"}"' + b"]" * depth
    text = b'{"metadata":{"name":"n"},"spec":[' + inner + b',2],"status":{"x":"y"}}'
    found = shallow(text)
    assert (found == text) is (TOO_DEEP not in found) is (depth < MOST)
    assert json.decode(found)["status"] == {"x": "y"}
    assert json.decode(found)["spec"][1] == 2


def test_a_deep_object_on_a_line_is_framed_and_its_name_can_be_read() -> None:
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"n","resourceVersion":"7"},"spec":' + DEEP + b"}}"
    found = frame(line)
    assert found.type == "MODIFIED"
    named = bare(found.object)
    assert named is not None
    assert named.metadata.resource_version == "7"
