import os
import re
import stat
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from sunk.local import paths
from sunk.local.artifacts import cache, debian, images
from sunk.local.artifacts.buildah import complaint
from sunk.model.refusal import Refusal

SCRIPTS = [
    file
    for image in ("directory", "mariadb", "slurm")
    for file in images.sources(image)
    if file.name != "Containerfile" and file.suffix not in {".cnf", ".c", ".schema"} and file.parent.name != "settings"
]


def text(name: str) -> str:
    return (paths.project() / name).read_text()


def make_tree(folder: Path, *, mode: int, time: int) -> list[Path]:
    file = folder / "deep" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("content")
    file.chmod(mode)
    os.utime(file, (time, time))
    return [file]


def look(folder: Path) -> list[tuple[str, int, float]]:
    every = sorted(folder.rglob("*"))
    return [(str(each.relative_to(folder)), each.stat().st_mode, each.stat().st_mtime) for each in every]


def test_equal_content_is_staged_alike_whenever_and_by_whomever_it_was_checked_out(tmp_path: Path) -> None:
    for name, mode, time in (("one", 0o600, 1), ("two", 0o664, 2)):
        files = make_tree(tmp_path / name, mode=mode, time=time)
        images.stage(files, folder=tmp_path / f"{name}-staged", root=tmp_path / name)
    assert look(tmp_path / "one-staged") == look(tmp_path / "two-staged")


def test_a_program_stays_executable_when_it_is_staged(tmp_path: Path) -> None:
    files = make_tree(tmp_path / "from", mode=0o700, time=1)
    images.stage(files, folder=tmp_path / "to", root=tmp_path / "from")
    assert stat.S_IMODE((tmp_path / "to/deep/file").stat().st_mode) == 0o755
    assert cache.key(files=files, root=tmp_path / "from") == cache.key(
        files=[tmp_path / "to/deep/file"], root=tmp_path / "to"
    )


def test_an_image_is_made_of_sources_and_not_of_what_python_left_beside_them() -> None:
    names = {str(file.relative_to(paths.project())) for file in images.sources("sunk")}
    assert {"images/Containerfile", "requirements/run.txt", "src/sunk/cli.py"} <= names
    assert not [name for name in names if "__pycache__" in name or "artifacts/go" in name]


def test_the_containerfile_copies_only_what_is_staged_for_it() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text(images.CONTAINERFILE), re.MULTILINE)
    copied = {name.rstrip("/") for line in copies for name in line.split()}
    assert copied == {name for names in images.SOURCES.values() for name in names}


def test_docker_is_given_the_same_files() -> None:
    lines = text(f"{images.CONTAINERFILE}.dockerignore").splitlines()
    given = {line[1:] for line in lines if line.startswith("!")}
    assert given == {name for names in images.SOURCES.values() for name in names}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: str(file.relative_to(paths.project())))
def test_scripts_of_the_image_are_good_bash(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK) == script.read_text().startswith("#!/bin/bash")


def test_an_image_that_is_not_built_here_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refusal, match=r"no image munge.*slurm, sunk"):
        images.archive("munge")


def test_a_slurm_version_without_a_debian_release_is_refused() -> None:
    with pytest.raises(Refusal, match=r"Slurm 19.05.*24.11, 26.05"):
        images.build(slurm="19.05")


def test_pip_gets_the_authorities_that_this_machine_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "bundle.crt"
    bundle.touch()
    for name in images.AUTHORITIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert images.secrets(tmp_path) == {"ca": bundle}


def test_pip_gets_the_index_that_this_machine_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    assert "https://packages.example/simple" in images.secrets(tmp_path)["pip"].read_text()


URIS = """\
'http://one.example/debian-security/dists/bookworm-security/InRelease' one_InRelease 0
'http://two.example/debian/dists/bookworm-updates/InRelease' two_InRelease 0
'https://three.example/apt/dists/stable/InRelease' three_InRelease 0
'http://four.example/debian/dists/bookworm/InRelease' four_InRelease 0
'http://four.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' four_Packages 0
"""


def test_the_mirror_is_the_one_of_this_machines_own_release() -> None:
    assert debian.pick_mirror(URIS, codename="bookworm") == "http://four.example/debian"


def test_a_machine_may_have_no_mirror_of_its_release() -> None:
    assert debian.pick_mirror(URIS, codename="trixie") is None


def test_the_base_of_each_release_has_a_key_of_its_own() -> None:
    assert len({debian.key(suite) for suite in images.SUITES.values()}) == len(images.SUITES)


def test_a_failed_step_is_reported_by_its_own_words() -> None:
    said = "`unshare buildah build --tag=x` exited with code 1: E: no such package\nsubprocess exited with status 100\n"
    assert complaint(f'{said}Error: building at STEP "RUN {"x" * 2000}": exit status 100') == "E: no such package"


def test_a_step_that_failed_without_a_word_is_named_in_short() -> None:
    said = complaint(f'`buildah` exited with code 1: Error: building at STEP "RUN {"x" * 2000}"')
    assert said.startswith("Error: building at STEP")
    assert len(said) <= 300


FETCH = paths.project() / "images" / "fetch"


def fetched(folder: Path, wanted: str) -> subprocess.CompletedProcess[str]:
    (folder / "source").write_text("content")
    command = ["bash", str(FETCH), str(folder / "made"), f"file://{folder}/source", *([wanted] if wanted else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_fetched_file_is_taken_by_its_checksum_alone(tmp_path: Path) -> None:
    right = sha256(b"content").hexdigest()
    assert fetched(tmp_path, right).returncode == 0
    assert (tmp_path / "made").read_text() == "content"
    (tmp_path / "made").unlink()

    wrong = fetched(tmp_path, right[::-1])
    assert (wrong.returncode, right in wrong.stderr) == (3, True)
    assert not (tmp_path / "made").exists()


def test_a_file_without_a_checksum_is_refused_unless_that_is_said(tmp_path: Path) -> None:
    missing = fetched(tmp_path, "")
    assert missing.returncode == 2
    assert "has no SHA-256" in missing.stderr
    assert not (tmp_path / "made").exists()
    assert fetched(tmp_path, "unchecked").returncode == 0


def test_security_updates_are_among_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "run", lambda _: URIS)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})
    assert debian.sources("trixie") == [
        "deb http://four.example/debian trixie main",
        "deb http://one.example/debian-security trixie-security main",
    ]
    monkeypatch.setattr(debian, "run", lambda _: URIS.partition("\n")[2])
    with pytest.raises(Refusal, match="no mirror for Debian bookworm-security"):
        debian.sources("trixie")
