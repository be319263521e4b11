import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from sunk.local.artifacts import cache
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
    first, second = cache.entry("tool", build, key="1"), cache.entry("tool", build, key="1")
    assert (first / "bin" / "tool").read_text() == "made"
    assert (first, build.times) == (second, 1)


def test_a_damaged_entry_is_built_again() -> None:
    build = Builder()
    (cache.entry("tool", build, key="1") / "bin" / "tool").write_text("cut")
    assert (cache.entry("tool", build, key="1") / "bin" / "tool").read_text() == "made"
    assert build.times == 2


def test_a_missing_file_is_damage_too() -> None:
    build = Builder()
    (cache.entry("tool", build, key="1") / "bin" / "tool").unlink()
    assert (cache.entry("tool", build, key="1") / "bin" / "tool").exists()


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def fail(unfinished: Path) -> None:
        (unfinished / "half").write_text("x")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        cache.entry("tool", fail, key="1")
    assert [each.name for each in folder.iterdir()] == [".tool-1.lock"]


def test_what_a_killed_builder_left_is_cleared_away(folder: Path) -> None:
    killed = """
import os, signal
from sunk.local.artifacts import cache
def die(folder):
    (folder / "half").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
cache.entry("tool", die, key="1")
"""
    subprocess.run([sys.executable, "-c", killed], env={**os.environ, "SUNK_CACHE": str(folder)}, check=False)
    assert any(each.is_dir() for each in folder.iterdir())
    cache.entry("tool", Builder(), key="1")
    assert sorted(each.name for each in folder.iterdir()) == [".tool-1.lock", "tool-1"]


def test_a_full_disk_is_said_before_anything_is_begun() -> None:
    with pytest.raises(Refusal, match="SUNK_CACHE"):
        cache.entry("tool", Builder(), key="1", needs=1 << 60)


def test_of_many_versions_only_the_last_used_stay(folder: Path) -> None:
    for key in "123456":
        os.utime(cache.entry("tool", Builder(), key=key), (int(key), int(key)))
    cache.entry("tool-kit", Builder(), key="1")
    assert {each.name for each in folder.glob("tool*")} == {"tool-3", "tool-4", "tool-5", "tool-6", "tool-kit-1"}


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
