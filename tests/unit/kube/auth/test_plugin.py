"""Credentials from real programs, which are small shell scripts here."""

import asyncio
import ssl
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from sunk.kube.auth import access
from sunk.kube.auth.credentials import AccessError, Proof
from sunk.kube.auth.plugin import Patience, Plugin, Program, Variable, life
from sunk.model import loopclock

V1 = "client.authentication.k8s.io/v1"

Make = Callable[..., Plugin]


def no_certificate(certificate: bytes, key: bytes) -> ssl.SSLContext:
    raise AssertionError(f"no certificate was expected, found {certificate!r} and {key!r}")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a plugin out of the lines of a shell script; keywords go into its entry in the kubeconfig."""

    def make(script: str, *, patience: Patience = Patience(), **entry: Any) -> Plugin:  # noqa: B008 - frozen
        program = tmp_path / "login"
        program.write_text("#!/bin/sh\n" + textwrap.dedent(script))
        program.chmod(0o755)
        # Relative, with a slash: to be found beside the kubeconfig.
        spec = Program(command="./login", api_version=V1, **({"interactive_mode": "Never"} | entry))
        cluster = {"server": "https://10.0.0.1"}
        return Plugin(spec, folder=tmp_path, dress=no_certificate, cluster=cluster, patience=patience)

    return make


def printing(status: dict[str, Any]) -> str:
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.encode(answer).decode()}\nEND\n"


async def test_a_token_is_asked_for_once(make: Make) -> None:
    plugin = make(printing({"token": "t"}))
    assert await plugin.proof() == Proof("Bearer t")
    assert await plugin.proof() == Proof("Bearer t")
    assert plugin.runs == 1


async def test_requests_that_come_together_share_one_run(make: Make) -> None:
    plugin = make("sleep 0.1\n" + printing({"token": "t"}))
    assert set(await asyncio.gather(*(plugin.proof() for _ in range(20)))) == {Proof("Bearer t")}
    assert plugin.runs == 1


async def test_a_failure_is_shared_and_then_tried_again(make: Make) -> None:
    plugin = make("echo no such account >&2; exit 3", patience=Patience(failure=0.3), install_hint="Run: install login")
    found = await asyncio.gather(*(plugin.proof() for _ in range(5)), return_exceptions=True)
    assert plugin.runs == 1
    for one in found:
        assert isinstance(one, AccessError)
        assert '"./login" exited with code 3: no such account' in str(one)
        assert str(one).endswith("Run: install login")
    await asyncio.sleep(0.3)
    with pytest.raises(AccessError):
        await plugin.proof()
    assert plugin.runs == 2


async def test_a_refused_token_is_renewed_once_for_all_who_were_refused(make: Make, tmp_path: Path) -> None:
    script = f"""
        echo run >> {tmp_path}/runs
        printf '{{"apiVersion": "{V1}", "status": {{"token": "t%s"}}}}' $(wc -l < {tmp_path}/runs)
    """
    plugin = make(script)
    old = await plugin.proof()
    assert await asyncio.gather(*(plugin.refused(old) for _ in range(10))) == [True] * 10
    assert await plugin.proof() == Proof("Bearer t2")


async def test_a_program_that_gives_the_same_again_does_no_better(make: Make) -> None:
    plugin = make(printing({"token": "t"}))
    assert not await plugin.refused(await plugin.proof())


async def test_credentials_are_renewed_before_they_end(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=0.1)).isoformat()
    plugin = make(printing({"token": "t", "expirationTimestamp": soon}), patience=Patience(shortest_life=60))
    await plugin.proof()
    await plugin.proof()
    assert plugin.runs == 1, "an end in the past does not mean a run for every request"
    now = loopclock.now
    monkeypatch.setattr(loopclock, "now", lambda: now() + 61)
    await plugin.proof()
    assert plugin.runs == 2


@pytest.mark.parametrize(("left", "used"), [(3600, 3540), (300, 270), (-5, 10), (None, float("inf"))])
def test_credentials_are_used_for_most_of_their_life(left: float | None, used: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    end = None if left is None else now + timedelta(seconds=left)
    assert life(end, now=now, patience=Patience()) == pytest.approx(used)


async def test_the_program_is_told_what_it_asks_for(make: Make, tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $PLACE" > {tmp_path}/said\n'
    entry = {"args": ("get",), "env": (Variable("PLACE", "here"),), "provide_cluster_info": True}
    plugin = make(script + printing({"token": "t"}), **entry)
    await plugin.proof()
    info = json.decode((tmp_path / "info").read_bytes())
    assert info["apiVersion"] == V1
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://10.0.0.1"}}
    assert (tmp_path / "said").read_text() == "get here\n"


@pytest.mark.parametrize(
    ("script", "entry", "said"),
    [
        ("sleep 60", {}, "did not finish within 0.5 s: run it by hand"),
        ("echo hello", {}, "did not print an ExecCredential"),
        (printing({}), {}, "gave neither a token nor a certificate"),
        (
            printing({"token": "t"}).replace("/v1", "/v2"),
            {},
            f"answered in client.authentication.k8s.io/v2: make it answer in {V1}",
        ),
        ("exit 1", {}, "exited with code 1: without output"),
        ("exit 0", {"command": "no-such-program-here"}, "cannot be run (No such file or directory): install it"),
        (printing({"token": "t"}), {"interactive_mode": "Always"}, "needs a terminal"),
    ],
)
async def test_a_program_that_does_not_help_is_named_with_what_it_did(
    make: Make, script: str, entry: dict[str, Any], said: str
) -> None:
    command = entry.pop("command", None)
    plugin = make(script, patience=Patience(run=0.5), **entry)
    if command:
        spec = Program(command=command, api_version=V1, interactive_mode="Never")
        plugin = Plugin(spec, folder=Path(), dress=no_certificate, cluster={})
    with pytest.raises(AccessError) as refused:
        await plugin.proof()
    assert said in str(refused.value)


def test_a_kubeconfig_names_the_program(tmp_path: Path) -> None:
    exec_entry = {"command": "login", "apiVersion": V1, "args": None, "env": None, "interactiveMode": "Never"}
    tree = {
        "clusters": [{"name": "c", "cluster": {"server": "http://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"exec": exec_entry}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_bytes(json.encode(tree))
    assert isinstance(access.from_kubeconfig(path).credentials, Plugin)
