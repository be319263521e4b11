"""Whatever is wrong with what was asked, the answer is a sentence and exit code 2, and nothing is left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.footprint import take

from sunk.local.kubernetes.cluster import LocalCluster

PROJECT = Path(__file__).parents[2]
SUNK = str(Path(sys.executable).parent / "sunk")
NAME = "bad-input"


class Answer:
    """How a command ended and what it said."""

    def __init__(self, command: Sequence[str], **env: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **env}, cwd=PROJECT, timeout=120, check=False
        )
        self.code = done.returncode
        self.said = done.stderr

    def refuses(self, *words: str) -> None:
        assert self.code == 2, self.said
        assert "Traceback" not in self.said
        for word in words:
            assert word in self.said


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = take(NAME)
    yield
    assert take(NAME) == before


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_up_without_root_says_that_root_is_needed() -> None:
    Answer(["unshare", "--user", SUNK, "local", "up", "--name", NAME]).refuses("needs root", "sudo")


def test_down_without_root_says_that_root_is_needed(api: LocalCluster) -> None:
    Answer(["unshare", "--user", SUNK, "local", "down", "--name", api.name]).refuses("needs root")


def test_set_up_without_root_says_that_root_is_needed() -> None:
    Answer(["unshare", "--user", "./bootstrap"]).refuses("needs root", "sudo")


def test_set_up_with_an_old_python_says_which_is_needed(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n')
    old.chmod(0o755)
    Answer(["./bootstrap"], PATH=f"{tmp_path}:{os.environ['PATH']}").refuses("3.9.2", "3.11")


def test_set_up_on_a_full_disk_says_how_much_is_missing(full_disk: Path) -> None:
    Answer(["./bootstrap"], SUNK_CACHE=str(full_disk)).refuses("GiB free", "SUNK_CACHE")


def test_a_build_on_a_full_disk_says_how_much_is_missing(full_disk: Path) -> None:
    Answer([SUNK, "local", "build"], SUNK_CACHE=str(full_disk)).refuses("GiB free", "SUNK_CACHE")


def test_a_subnet_that_is_taken_is_refused_with_what_takes_it(api: LocalCluster) -> None:
    block = api.network.block
    Answer([SUNK, "local", "up", "--api-only", "--name", NAME, "--subnet", block]).refuses(block, "taken", "--subnet")


def test_a_second_up_of_the_same_name_says_how_to_use_or_end_the_first(api: LocalCluster) -> None:
    Answer([SUNK, "local", "up", "--api-only", "--name", api.name]).refuses("already up", "sunk local down")


def test_down_of_nothing_says_what_there_is(api: LocalCluster) -> None:
    Answer([SUNK, "local", "down", "--name", NAME]).refuses("no cluster bad-input", api.name)


@pytest.mark.parametrize("command", [["kubeconfig"], ["exec", "true"], ["load", "x.tar"]])
def test_commands_on_a_cluster_that_is_not_there_say_so(command: list[str]) -> None:
    first, *rest = command
    Answer([SUNK, "local", first, "--name", NAME, *rest]).refuses("no cluster bad-input")


def test_an_unknown_word_in_a_nodes_file_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: a, lables: {x: y}}]")
    Answer([SUNK, "local", "up", "--name", NAME, "--config", str(file)]).refuses("lables", "$.nodes[0]")


def test_an_image_that_does_not_exist_is_said(api: LocalCluster) -> None:
    Answer([SUNK, "local", "load", "--name", api.name, "nothing.tar"]).refuses("nothing.tar")


def test_a_program_that_does_not_exist_is_said(api: LocalCluster) -> None:
    Answer([SUNK, "local", "exec", "--name", api.name, "--", "kubectll"]).refuses("kubectll")
