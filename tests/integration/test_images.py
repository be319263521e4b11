"""What is in the images, and what building them leaves behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.box import wait_for
from tests.versions import BOTH

from sunk.local.artifacts import debian, images
from sunk.local.artifacts.buildah import storage
from sunk.model.contract import posix

SUNK_USER = 65532
UNWANTED = ("usr/bin/gcc", "usr/bin/pip3", "opt/sunk/bin/pip", "usr/include/slurm", "run/secrets")
# A build that would go on for hours, in a storage of its own.
ENDLESS = """
import sys
from pathlib import Path
from sunk.local.artifacts.buildah import Build, storage
with storage() as kept:
    (kept.scratch / "file").write_text(f"FROM scratch\\nADD files.tar /\\nRUN sleep {sys.argv[2]}\\n")
    kept.build(Build(containerfile=kept.scratch / "file", context=Path(sys.argv[1]), name="localhost/endless:1"))
"""


@pytest.fixture(scope="module", params=BOTH)
def sunk(request: pytest.FixtureRequest) -> Path:
    return images.root_file_system("sunk", slurm=request.param)


def inside(root: Path, *command: str) -> str:
    enter = ("chroot", f"--userspec={SUNK_USER}:{SUNK_USER}", str(root), "env", "-i", "PATH=/opt/sunk/bin:/usr/bin")
    return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


def test_images_take_security_updates(sunk: Path) -> None:
    suites = [line.split()[2] for line in (sunk / "etc/apt/sources.list").read_text().splitlines() if line]
    assert [suite.partition("-")[2] for suite in suites] == ["", "security"]


def test_the_command_runs_in_the_sunk_image_without_root(sunk: Path) -> None:
    assert "Slurm on Kubernetes" in inside(sunk, "sunk", "--help")


def test_python_finds_libslurm_and_its_plugins_in_the_sunk_image(sunk: Path) -> None:
    assert inside(sunk, "python3", "-c", f"import ctypes; ctypes.CDLL('{_libslurm(sunk).name}')") == ""
    assert list(_libslurm(sunk).parent.glob("slurm-wlm/auth_jwt.so"))


def _libslurm(root: Path) -> Path:
    return next(file for file in root.glob("usr/lib/*/libslurm.so.*") if file.name.count(".") == 2)


def test_the_agent_finds_ldapsearch_in_the_sunk_image(sunk: Path) -> None:
    # -VV prints the version and ends with 0.
    inside(sunk, "ldapsearch", "-VV")


def test_what_only_the_build_needs_is_not_in_the_sunk_image(sunk: Path) -> None:
    assert not [name for name in UNWANTED if (sunk / name).exists()]


def test_nothing_of_this_machine_gets_into_an_image(sunk: Path) -> None:
    for name in ("hostname", "hosts", "resolv.conf"):
        # The builder leaves an empty file where it had mounted its own.
        assert not (sunk / "etc" / name).exists() or (sunk / "etc" / name).read_text() == ""
    # Debian's bundle and this machine's share most authorities; those that only this machine trusts must stay here.
    bundle = Path(images.SYSTEM_AUTHORITIES)
    there = _authorities(sunk / bundle.relative_to("/"))
    packaged = {file.read_text().strip() for file in sunk.glob("usr/share/ca-certificates/**/*.crt")}
    assert there <= packaged


def _authorities(bundle: Path) -> set[str]:
    end = "-----END CERTIFICATE-----"
    return {f"{each.strip()}\n{end}" for each in bundle.read_text().split(end) if each.strip()}


def test_keys_that_packages_make_are_not_in_the_slurm_image() -> None:
    root = images.root_file_system("slurm")
    assert not [*root.glob("etc/ssh/ssh_host_*"), *root.glob("etc/munge/*key"), *root.glob("etc/slurm/*")]


@pytest.mark.parametrize("version", BOTH)
def test_pam_and_sudo_of_the_slurm_image_go_by_ours(version: str) -> None:
    root = images.root_file_system("slurm", slurm=version)
    lines = {kind: (root / f"etc/pam.d/common-{kind}").read_text() for kind in ("auth", "account", "session")}
    assert "pam_exec.so expose_authtok quiet quiet_log seteuid /usr/lib/sunk/password" in lines["auth"]
    assert "/usr/lib/sunk/account" in lines["account"]
    assert lines["session"].index("create_homes=no") < lines["session"].index("pam_mkhomedir.so")
    assert not [kind for kind, text in lines.items() if "pam_sss" in text]
    assert "%sudo" not in (root / "etc/sudoers").read_text()
    for kind in ("passwd", "group", "shadow"):
        assert f"{kind}:         files extrausers" in (root / "etc/nsswitch.conf").read_text()


@pytest.mark.parametrize("version", BOTH)
def test_no_user_or_group_of_the_slurm_image_has_a_number_that_a_directory_may_give(version: str) -> None:
    root = images.root_file_system("slurm", slurm=version)
    for kind in ("passwd", "group"):
        lines = [line.split(":") for line in (root / "etc" / kind).read_text().splitlines()]
        assert not [line[0] for line in lines if posix.is_free(int(line[2]))]


@pytest.mark.parametrize("version", BOTH)
def test_sshd_of_the_slurm_image_works_where_the_login_uid_is_set_and_its_scripts_are_safe(version: str) -> None:
    root = images.root_file_system("slurm", slurm=version)
    (line,) = (line for line in (root / "etc/pam.d/sshd").read_text().splitlines() if "pam_loginuid" in line)
    assert line.split()[:2] == ["session", "optional"]
    # sshd and ssh execute nothing that others could have changed.
    ours = [root / "usr/lib/sunk", *(root / "usr/lib/sunk").rglob("*")]
    assert not [path for path in ours if not path.is_symlink() and path.stat().st_mode & 0o022]


def test_a_build_that_is_killed_leaves_no_process_and_no_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = debian.archive(images.SUITES[images.DEFAULT])
    monkeypatch.setenv("SUNK_CACHE", str(tmp_path))
    mark = f"77{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, str(files.parent), mark]) as builder:
        wait_for(lambda: _running("sleep", mark), what="the endless step", patience=240)
        builder.send_signal(signal.SIGKILL)
    wait_for(lambda: not _running("sleep", mark), what="the end of the endless step")
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    with storage() as kept:
        assert not list((kept.folder / "layers/overlay-containers").glob("?" * 64))


def _running(*words: str) -> bool:
    wanted = "\0".join(words).encode() + b"\0"
    return any(_command(folder) == wanted for folder in Path("/proc").glob("[0-9]*"))


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""
