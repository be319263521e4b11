"""What `sunk operator` takes."""

import click
import pytest

from sunk.operator.commands import operator

OPTION = "--cordon-reason-annotation"


@pytest.mark.parametrize("key", ["node.coreweave.cloud/cordonReason", "why", "example.com/Why_not.x"])
def test_what_can_be_the_key_of_an_annotation_is_taken(key: str) -> None:
    assert operator.make_context("operator", [OPTION, key]).params["cordon_reason_annotation"] == key


@pytest.mark.parametrize("key", ["", "a b", "/why", "Example.com/why", "a/b/c", "x" * 64, "-why"])
def test_what_cannot_is_refused_with_an_example(key: str) -> None:
    with pytest.raises(click.BadParameter, match=r"cannot be the key of an annotation: write it like node\."):
        operator.make_context("operator", [OPTION, key])
