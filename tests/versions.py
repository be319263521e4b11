"""The versions of Slurm that tests run on: the default one always, the second one in `make test-all`."""

from typing import Final

import pytest

from sunk.local.artifacts import images

SECOND: Final = "26.05"
BOTH: Final = (images.DEFAULT, pytest.param(SECOND, marks=pytest.mark.full))
"""Parameters of a fixture or a test."""
