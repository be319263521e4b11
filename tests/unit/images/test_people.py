"""Scripts of the image that say who may log in with which key, who is locked, and which host is a node."""

import subprocess
from pathlib import Path

import pytest

from sunk.local import paths

FOLDER = paths.project() / "images/slurm"
KEY = "ssh-ed25519 AAAAC3Nz"
TODAY_IS_LATER_THAN = 20_000
"""Days since 1970."""
GETENT = """#!/bin/bash
case $2 in
    n1.slurm-compute.default.svc.cluster.local) echo '10.1.0.7 STREAM n1' ;;
    slurm-compute.default.svc.cluster.local) printf '%s STREAM x\\n' 10.1.0.7 fd00::7 ;;
    *) exit 2 ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("etc/sunk/users", "etc/sunk/logins", "etc/ssh/node-keys", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\nslurm:x:64030:64030::/:/bin/false\n")
    return tmp_path


def printed(name: str, *words: str) -> list[str]:
    done = subprocess.run([FOLDER / name, *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


class TestKeys:
    """authorized-keys."""

    @pytest.fixture(autouse=True)
    def _keys(self, root: Path) -> None:
        (root / "etc/sunk/users/authorized_keys.alice").write_text(f"# laptop\n{KEY} values")
        lines = ("alice", "alice2", "bob", "root", "slurm", "a.ice")
        (root / "etc/sunk/logins/keys-0").write_text("".join(f"{user} {KEY} {user}\n" for user in lines))
        (root / "etc/sunk/logins/keys-3").write_text(f"bob no-pty {KEY}\nxbob {KEY}\n\tbob {KEY}\n")

    def test_of_the_values_and_of_directories_are_both_given(self, root: Path) -> None:
        assert printed("authorized-keys", "alice", str(root)) == ["# laptop", f"{KEY} values", f"{KEY} alice"]
        assert printed("authorized-keys", "bob", str(root)) == [f"{KEY} bob", f"no-pty {KEY}"]

    @pytest.mark.parametrize("user", ["root", "slurm"])
    def test_of_users_of_the_image_are_not(self, root: Path, user: str) -> None:
        (root / f"etc/sunk/users/authorized_keys.{user}").write_text(KEY)
        assert printed("authorized-keys", user, str(root)) == []

    @pytest.mark.parametrize(
        "user", ["", "ali", "a.*", "alice bob", "../alice", ".", "\tbob", "-v", "alice\nbob", "a ice"]
    )
    def test_of_an_odd_name_are_nobodys(self, root: Path, user: str) -> None:
        assert printed("authorized-keys", user, str(root)) == []

    def test_where_there_are_no_files_there_are_none(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "bare/etc").mkdir(parents=True)
        (tmp_path / "bare/etc/passwd").write_text((root / "etc/passwd").read_text())
        assert printed("authorized-keys", "alice", str(tmp_path / "bare")) == []


class TestAccounts:
    """account, the account phase of PAM."""

    @pytest.fixture(autouse=True)
    def _shadow(self, root: Path) -> None:
        lines = ("locked:*:1:::::1:", "open:*:::::::", f"later:*::::::{10 * TODAY_IS_LATER_THAN}:", "root:*:1:::::1:")
        (root / "etc/sunk/users/shadow").write_text(
            "".join(f"{line}\n" for line in (*lines, "odd:*::::::x:", "1e1:*:::::1:"))
        )

    def asked(self, root: Path, user: str) -> tuple[int, str]:
        done = subprocess.run(
            [FOLDER / "account", root], env={"PAM_USER": user}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    def test_who_is_locked_is_told(self, root: Path) -> None:
        expected = "The account locked is locked or has expired. Ask an administrator of the cluster.\n"
        assert self.asked(root, "locked") == (1, expected)

    @pytest.mark.parametrize("user", ["open", "later", "unlisted", "odd", "lock", "lock.d", "10", ""])
    def test_all_others_get_in(self, root: Path, user: str) -> None:
        assert self.asked(root, user) == (0, "")

    def test_a_directory_cannot_lock_out_root(self, root: Path) -> None:
        assert self.asked(root, "root") == (0, "")

    def test_without_an_agent_nobody_is_locked(self, root: Path) -> None:
        (root / "etc/sunk/users/shadow").unlink()
        assert self.asked(root, "locked") == (0, "")

    def test_a_file_that_cannot_be_read_locks_all(self, root: Path) -> None:
        (root / "etc/sunk/users/shadow").unlink()
        (root / "etc/sunk/users/shadow").mkdir()
        assert self.asked(root, "open")[0] == 1


class TestHosts:
    """known-hosts."""

    @pytest.fixture(autouse=True)
    def _service(self, root: Path) -> None:
        (root / "etc/ssh/node-keys/ssh_host_ed25519_key.pub").write_text(f"{KEY} comment\n")
        (root / "etc/ssh/node-keys/ssh_host_rsa_key.pub").write_text("ssh-rsa AAAAB3Nz")
        options = "create_homes=yes\ncompute_service=slurm-compute.default.svc.cluster.local\n"
        (root / "etc/sunk/users/options").write_text(options)
        (root / "usr/bin/getent").write_text(GETENT)
        (root / "usr/bin/getent").chmod(0o755)

    @pytest.mark.parametrize(
        "host",
        [
            "n1",
            "[n1]:2222",
            "n1.slurm-compute",
            "n1.slurm-compute.default",
            "n1.slurm-compute.default.svc.cluster.local",
            "10.1.0.7",
            "fd00::7",
            "[fd00::7]:22",
        ],
    )
    def test_a_node_has_the_keys_of_nodes(self, root: Path, host: str) -> None:
        assert printed("known-hosts", host, str(root)) == [f"{host} {KEY}", f"{host} ssh-rsa AAAAB3Nz"]

    @pytest.mark.parametrize(
        "host",
        [
            "",
            "n2",
            "github.com",
            "n1.github.com",
            "n1.slurm",
            "n1.",
            "10.1.0.8",
            "10.1.0",
            "*",
            "n1,github.com",
            "n1 x",
            "-n1",
            "n1.slurm-compute.default.svc.cluster.local.evil.com",
            "[n1]",
            "[*]:22",
            "!n1",
            "n1\ngithub.com",
            "slurm-compute",
        ],
    )
    def test_all_other_hosts_are_unknown(self, root: Path, host: str) -> None:
        assert printed("known-hosts", host, str(root)) == []

    def test_nothing_is_said_without_a_service_or_without_keys(self, root: Path) -> None:
        (root / "etc/sunk/users/options").write_text("create_homes=yes\n")
        assert printed("known-hosts", "n1", str(root)) == []
        (root / "etc/sunk/users/options").unlink()
        assert printed("known-hosts", "n1", str(root)) == []
        for file in (root / "etc/ssh/node-keys").iterdir():
            file.unlink()
        assert printed("known-hosts", "n1", str(root)) == []


class TestSettings:
    """What sshd is told of its Pod."""

    @staticmethod
    def made(root: Path) -> tuple[str, str | None]:
        subprocess.run([FOLDER / "services/sshd/settings", root], check=True)
        pam = root / "run/sshd/pam"
        return (root / "run/sshd/sunk.conf").read_text(), pam.read_text() if pam.exists() else None

    @staticmethod
    def beside_slurmd(root: Path, *arguments: str) -> None:
        folder = root / "run/s6/.init/services/slurmd/data"
        folder.mkdir(parents=True)
        (folder / "arguments").write_text("".join(f"{each}\0" for each in arguments))

    def test_a_login_has_passwords_only_where_they_can_be_checked(self, root: Path) -> None:
        assert self.made(root) == ("PasswordAuthentication no\n", None)
        (root / "etc/sunk/logins/passwords").touch()
        assert self.made(root) == ("PasswordAuthentication yes\n", None)

    def test_where_all_have_one_address_nobody_is_punished_for_others(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SUNK_SHARED_ADDRESSES", "yes")
        assert self.made(root)[0].splitlines() == ["PasswordAuthentication no", "PerSourcePenalties no"]

    def test_the_host_keys_of_the_cluster_are_used(self, root: Path) -> None:
        folder = root / "etc/ssh/host-keys"
        folder.mkdir()
        for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub", "ssh_host_rsa_key", "..data"):
            (folder / name).touch()
        lines = self.made(root)[0].splitlines()
        assert lines[:2] == [f"HostKey {folder}/ssh_host_{kind}_key" for kind in ("ed25519", "rsa")]
        assert len(lines) == 3

    @pytest.mark.parametrize("option", [("-N", "n1"), ("-Nn1",)])
    def test_a_node_lets_in_users_with_a_job_by_key(self, root: Path, option: tuple[str, ...]) -> None:
        (root / "etc/sunk/logins/passwords").touch()
        self.beside_slurmd(root, "-Z", *option, "--conf", "CPUs=4 Feature=-N")
        conf, pam = self.made(root)
        assert "PasswordAuthentication no\nPAMServiceName sunk-node\nPerSourcePenalties no\n" in conf
        assert pam
        assert pam.splitlines()[0] == "@include sshd"
        # Anything else than success denies, and the module ignores services that it is not told of.
        assert "account [success=ok default=die] pam_slurm_adopt.so service=sunk-node nodename=n1 " in pam

    def test_a_user_with_several_jobs_gets_in_without_control_groups(self, root: Path) -> None:
        """There the module of 24.11 cannot choose among jobs, says session_err, and would let in only who has a single one."""
        self.beside_slurmd(root, "-N", "n1")
        pam = self.made(root)[1]
        assert pam
        adopted, fallback = (line for line in pam.splitlines() if "pam_slurm_adopt" in line)
        # The first line decides over everything else; the second comes into play for nothing but this.
        assert adopted.startswith("account [success=1 session_err=ignore default=die] pam_slurm_adopt.so ")
        assert "action_unknown" not in adopted
        assert fallback == adopted.replace("success=1 session_err=ignore", "success=ok") + " action_unknown=allow"
        assert pam.splitlines()[-1] == fallback

    @pytest.mark.parametrize("name", ["", "a b", "a\nauth sufficient pam_permit.so", "-x"])
    def test_a_node_whose_name_is_none_lets_in_nobody(self, root: Path, name: str) -> None:
        self.beside_slurmd(root, "-N", name)
        assert self.made(root)[1] == "account requisite pam_deny.so\n"
