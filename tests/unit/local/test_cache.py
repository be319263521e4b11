import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from sunk.local import cache
from sunk.model.refusal import Refusal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUNK_CACHE", str(tmp_path))
    return tmp_path


class Builder:
    """Builds a file and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> None:
        self.times += 1
        (folder / "bin").mkdir()
        (folder / "bin" / "tool").write_text("made")


def test_a_thing_is_built_once() -> None:
    build = Builder()
    first, second = cache.entry("tool-1", build), cache.entry("tool-1", build)
    assert (first / "bin" / "tool").read_text() == "made"
    assert (first, build.times) == (second, 1)


def test_a_damaged_entry_is_built_again() -> None:
    build = Builder()
    (cache.entry("tool-1", build) / "bin" / "tool").write_text("cut")
    assert (cache.entry("tool-1", build) / "bin" / "tool").read_text() == "made"
    assert build.times == 2


def test_a_missing_file_is_damage_too() -> None:
    build = Builder()
    (cache.entry("tool-1", build) / "bin" / "tool").unlink()
    assert (cache.entry("tool-1", build) / "bin" / "tool").exists()


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def fail(unfinished: Path) -> None:
        (unfinished / "half").write_text("x")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        cache.entry("tool-1", fail)
    assert [each.name for each in folder.iterdir()] == [".tool-1.lock"]


def test_what_a_killed_builder_left_is_cleared_away(folder: Path) -> None:
    killed = """
import os, signal
from sunk.local import cache
def die(folder):
    (folder / "half").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
cache.entry("tool-1", die)
"""
    subprocess.run([sys.executable, "-c", killed], env={**os.environ, "SUNK_CACHE": str(folder)}, check=False)
    assert any(each.is_dir() for each in folder.iterdir())
    cache.entry("tool-1", Builder())
    assert sorted(each.name for each in folder.iterdir()) == [".tool-1.lock", "tool-1"]


def test_a_full_disk_is_said_before_anything_is_begun() -> None:
    with pytest.raises(Refusal, match="SUNK_CACHE"):
        cache.entry("tool-1", Builder(), needs=1 << 60)


@given(values=st.lists(st.text(max_size=3), max_size=4), others=st.lists(st.text(max_size=3), max_size=4))
def test_a_key_depends_on_every_value_and_their_order(values: list[str], others: list[str]) -> None:
    same = [value.replace("\0", "") for value in values] == [other.replace("\0", "") for other in others]
    if not any("\0" in text for text in (*values, *others)):
        assert (cache.key(values=values) == cache.key(values=others)) == same


def test_a_key_depends_on_names_contents_and_modes_of_files(tmp_path: Path) -> None:
    file = tmp_path / "a"
    seen = set()
    for text, mode in (("x", 0o644), ("y", 0o644), ("x", 0o755)):
        file.write_text(text)
        file.chmod(mode)
        seen.add(cache.key(files=[file]))
    renamed = file.rename(tmp_path / "b")
    assert len({*seen, cache.key(files=[renamed])}) == 4
