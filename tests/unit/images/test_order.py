"""Mounted scripts: in which order /init starts them, and what it says when one fails."""

import subprocess
from pathlib import Path

import pytest

from sunk.local import paths

FOLDER = paths.project() / "images/slurm/init.d"
Scripts = dict[str, tuple[str, str]]


def ordered(folder: Path, scripts: Scripts) -> subprocess.CompletedProcess[str]:
    for name, (kind, dependencies) in scripts.items():
        (folder / name).mkdir()
        (folder / name / "type").write_text(f"{kind}\n")
        (folder / name / "script").write_text("true")
        if dependencies:
            (folder / name / "dependencies").write_text(dependencies)
    return subprocess.run([FOLDER / "order", folder], capture_output=True, text=True, check=False)


def order(folder: Path, scripts: Scripts) -> list[str]:
    done = ordered(folder, scripts)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def refusal(folder: Path, scripts: Scripts) -> str:
    done = ordered(folder, scripts)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.replace(f"{folder}", "FOLDER").strip()


def test_no_scripts_are_no_lines(tmp_path: Path) -> None:
    assert order(tmp_path, {}) == []
    assert order(tmp_path / "missing", {}) == []


def test_oneshots_come_before_longruns_and_both_go_by_name(tmp_path: Path) -> None:
    scripts = {"a": ("longrun", ""), "20-b": ("oneshot", ""), "10-z": ("oneshot", ""), "B": ("longrun", "")}
    assert order(tmp_path, scripts) == ["oneshot 10-z", "oneshot 20-b", "longrun B", "longrun a"]


def test_a_script_comes_after_what_it_depends_on(tmp_path: Path) -> None:
    scripts = {
        "mount": ("oneshot", "network\n"),
        "network": ("longrun", "keys"),
        "keys": ("oneshot", ""),
        "alone": ("oneshot", ""),
        "agent": ("longrun", "mount network"),
        "first": ("longrun", ""),
    }
    assert order(tmp_path, scripts) == [
        "oneshot alone",
        "oneshot keys",
        "longrun first",
        "longrun network awaited",
        "oneshot mount",
        "longrun agent",
    ]


def test_a_dependency_on_what_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"a": ("oneshot", "slurmd"), "b": ("longrun", "")})
    assert said.startswith("FOLDER/a/dependencies names slurmd, which is not a script there. There are: a b.")


def test_a_pattern_is_no_dependency(tmp_path: Path) -> None:
    assert "names *, which is not a script" in refusal(tmp_path, {"a": ("oneshot", "*")})


@pytest.mark.parametrize(
    ("scripts", "circle"),
    [
        ({"a": ("oneshot", "a")}, "a needs a"),
        ({"a": ("oneshot", "b"), "b": ("longrun", "c"), "c": ("oneshot", "b")}, "b needs c needs b"),
    ],
)
def test_a_circle_is_refused_with_its_way(tmp_path: Path, scripts: Scripts, circle: str) -> None:
    said = refusal(tmp_path, scripts)
    assert said == f"dependencies in FOLDER go round in a circle: {circle}. Remove one of them."


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"odd": ("daily", "")}) == "FOLDER/odd/type says 'daily'; it must be oneshot or longrun."
    (tmp_path / "odd/script").unlink()
    assert refusal(tmp_path, {}) == "FOLDER/odd needs two files, `type` and `script`."


def ran(folder: Path, script: str, *, limit: int = 0) -> tuple[subprocess.CompletedProcess[str], str]:
    (folder / "prepare").write_text(f"#!/bin/bash\n{script}")
    (folder / "prepare").chmod(0o755)
    log = folder / "termination-log"
    log.touch()
    words = [str(FOLDER / "oneshot"), str(folder / "prepare"), str(limit), str(log)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    return done, log.read_text()


def test_a_oneshot_that_succeeds_leaves_no_words(tmp_path: Path) -> None:
    done, log = ran(tmp_path, "echo one; echo two >&2")
    assert (done.returncode, done.stdout, log) == (0, "one\ntwo\n", "")


def test_a_oneshot_that_fails_tells_its_last_lines(tmp_path: Path) -> None:
    done, log = ran(tmp_path, "for i in {1..30}; do echo line $i; done; echo broken >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout.splitlines()[0] == "line 1"
    assert log.splitlines() == [
        "init: oneshot prepare exited with code 7: line 12",
        *(f"line {i}" for i in range(13, 31)),
        "broken",
    ]


def test_the_words_of_a_oneshot_are_short_and_can_be_shown(tmp_path: Path) -> None:
    _, log = ran(tmp_path, "yes long | head -c 100000 | tr '\\n' ' '; printf '\\xff\\xc3\\xa9\\e[1m\\0\\a end'; exit 1")
    assert log.endswith("é[1m end\n")
    assert len(log.encode()) < 3100


def test_a_oneshot_without_words_has_some_all_the_same(tmp_path: Path) -> None:
    assert ran(tmp_path, "exit 3")[1] == "init: oneshot prepare exited with code 3: no output\n"


def test_a_oneshot_that_takes_too_long_says_so(tmp_path: Path) -> None:
    done, log = ran(tmp_path, "exec sleep 600", limit=300)
    assert done.returncode == 124
    assert log == "init: oneshot prepare exited with code 124: stopped after 300 ms (timeout-up)\n\n"


@pytest.mark.parametrize("code", [0, 4])
def test_a_process_that_a_oneshot_leaves_behind_is_not_waited_for(tmp_path: Path, code: int) -> None:
    words = f"sleep 600 & echo $! > {tmp_path}/pid; echo done; exit {code}"
    (tmp_path / "prepare").write_text(f"#!/bin/bash\n{words}")
    (tmp_path / "prepare").chmod(0o755)
    log = tmp_path / "termination-log"
    log.touch()
    with (tmp_path / "output").open("w") as output:
        done = subprocess.run([FOLDER / "oneshot", tmp_path / "prepare", "0", log], stdout=output, check=False)
    assert done.returncode == code
    assert (tmp_path / "output").read_text() == "done\n"
    assert log.read_text() == (f"init: oneshot prepare exited with code {code}: done\n" if code else "")
    subprocess.run(["kill", (tmp_path / "pid").read_text().strip()], check=True)


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "prepare").write_text("#!/bin/bash\nexit 5")
    (tmp_path / "prepare").chmod(0o755)
    words = [str(FOLDER / "oneshot"), str(tmp_path / "prepare"), "0", str(tmp_path / "none")]
    assert subprocess.run(words, check=False).returncode == 5
    assert not (tmp_path / "none").exists()
