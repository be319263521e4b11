"""A name of a cluster becomes a folder that is removed whole, as root: nothing but a name may reach that far."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sunk.local.commands import local
from sunk.local.kubernetes import cgroups, cluster as clusters, network as networks
from sunk.model.refusal import Refusal

BAD = ("", ".", "..", "../kept", "a/../../kept", "a/b", "/etc", "a.b", "A", "-a", "a-", "a" * 31, "a\n", "a\0")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody, beside that of all clusters, with something in it."""
    monkeypatch.setenv("SUNK_STATE", str(tmp_path / "clusters"))
    (tmp_path / "clusters").mkdir()
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "cluster.json").write_text("precious")
    return folder


def said_by_cli(*arguments: str) -> str:
    done = CliRunner().invoke(local, arguments)
    assert done.exit_code != 0
    assert isinstance(done.exception, Refusal), done
    return str(done.exception)


def commands(name: str) -> tuple[tuple[str, ...], ...]:
    chosen = f"--name={name}"
    return (
        ("up", chosen, "--api-only"),
        ("up", chosen, "--api-only", "--keep"),
        ("down", chosen),
        ("install", chosen),
        ("load", chosen, "image"),
        ("kubeconfig", chosen),
        ("exec", chosen, "--", "true"),
        ("fake-kubelet", chosen),
    )


@pytest.mark.parametrize("name", BAD)
def test_every_command_refuses_what_is_no_name(kept: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "require_root", lambda: None)
    for each in commands(name):
        assert "is not a valid name for a cluster" in said_by_cli(*each), each
    assert (kept / "cluster.json").read_text() == "precious"


def test_no_command_takes_the_path_of_a_folder_for_a_name(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "require_root", lambda: None)
    for each in commands(str(kept)):
        assert "is not a valid name for a cluster" in said_by_cli(*each), each
    assert (kept / "cluster.json").read_text() == "precious"


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize(
    "use",
    [
        clusters.remove,
        clusters.exists,
        clusters.find,
        cgroups.kill,
        cgroups.remove,
        cgroups.join_command,
        networks.remove,
        networks.namespaces,
    ],
)
def test_what_removes_and_ends_checks_the_name_itself(kept: Path, name: str, use: Callable[[str], object]) -> None:
    with pytest.raises(Refusal, match="is not a valid name for a cluster"):
        use(name)
    assert (kept / "cluster.json").read_text() == "precious"


def test_a_link_in_the_folder_of_clusters_is_not_followed(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "require_root", lambda: None)
    (kept.parent / "clusters" / "linked").symlink_to(kept)
    for each in commands("linked"):
        assert "is a symbolic link" in said_by_cli(*each), each
    with pytest.raises(Refusal, match="is a symbolic link"):
        clusters.remove("linked")
    assert (kept / "cluster.json").read_text() == "precious"
    assert clusters.names() == []
    assert "No cluster is up" in CliRunner().invoke(local, ["status"]).output


def test_folders_that_are_no_clusters_are_not_shown(kept: Path) -> None:
    (kept.parent / "clusters" / "Not A Cluster").mkdir()
    (kept.parent / "clusters" / "one").mkdir()
    assert clusters.names() == ["one"]
