"""With which code `sunk verify` ends."""

import pytest

from sunk.insight.verify.commands import BROKEN, UNJUDGED, ending


@pytest.mark.parametrize(
    ("broken", "lost", "code"),
    [(0, "", 0), (2, "", BROKEN), (0, "Connection refused", UNJUDGED), (1, "Connection refused", BROKEN)],
)
def test_a_side_that_could_not_be_seen_is_no_success(broken: int, lost: str, code: int) -> None:
    assert ending(broken=broken, lost=lost) == code
