import ctypes
import os
from pathlib import Path

import pytest

from sunk.local.kubernetes import limits
from sunk.model.refusal import Refusal


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "LIMIT", tmp_path / "limit")
    monkeypatch.setattr(limits, "in_use", lambda: 40)
    return tmp_path / "limit"


def test_too_few_instances_are_told_with_the_command_that_raises_them(limit: Path) -> None:
    limit.write_text("128\n")
    limits.require_instances(3)
    with pytest.raises(Refusal, match=r"already has 40.*sysctl -w fs\.inotify\.max_user_instances=1024$"):
        limits.require_instances(11)


def test_the_number_that_is_said_is_enough(limit: Path) -> None:
    limit.write_text("1024\n")
    with pytest.raises(Refusal, match=r"max_user_instances=(\d+)$") as said:
        limits.require_instances(123)
    limit.write_text(str(said.value).rpartition("=")[2])
    limits.require_instances(123)


def test_a_machine_that_tells_no_limit_is_trusted(limit: Path) -> None:
    limits.require_instances(100)
    assert not limit.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="those of other users cannot be counted by anybody but root")
def test_instances_in_use_are_counted() -> None:
    libc = ctypes.CDLL(None)
    before = limits.in_use()
    made = [libc.inotify_init() for _ in range(20)]
    try:
        # Others come and go meanwhile, and few of them.
        assert limits.in_use() > before + 10
    finally:
        for each in made:
            os.close(each)
