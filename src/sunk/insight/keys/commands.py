"""`sunk keys`: the keys with which the daemons of a cluster trust each other, exchanged step by step by a person.

The Secret is written with the rights of who asks: no process of ours may change a key. Nothing here waits for daemons,
since nobody in Kubernetes can tell which key a process has read; each step says what has to be so before the next.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.kube.api.client import Client
    from sunk.model.contract.keyset import KeySet

_READ_AGAIN = """\
Files in Pods are updated within two minutes; docs/guides/security.md says how to check. Then make the daemons read them, and repeat this for Pods that were down:
  kubectl exec deployment/{cluster}-controller -c slurmctld -- scontrol reconfigure
  kubectl rollout restart deployment/{cluster}-accounting
"""
_THEN = {
    "add": "Only after every daemon has read them: sunk keys use {kid}",
    "use": "Only after every daemon has read them and ten minutes have passed: sunk keys drop, with the id of the old key",
    "drop": "Daemons that have only the dropped key are no longer trusted.",
}


@click.group()
def keys() -> None:
    """Rotate Slurm's key while jobs run.

    \b
      sunk keys add
      sunk keys use ID       once every daemon knows the new key
      sunk keys drop OLD     once every daemon uses it

    docs/guides/security.md, "Rotate the key of Slurm", describes what to do between the steps.
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped


_cluster = click.option("--cluster", "-c", default="slurm", show_default=True, help="Name of the SlurmCluster.")


@keys.command("list")
@_cluster
@reaching
def list_(*, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """List the ids of the keys and mark the one in use. The keys themselves are never shown."""

    async def show(client: "Client", where: str) -> "KeySet":
        from sunk.insight.keys.secret import load

        return (await load(client, where, cluster=cluster)).keys

    _show(asked(show, kubeconfig=kubeconfig, context=context, namespace=namespace))


@keys.command()
@click.option("--id", "kid", default="", help="Id of the new key.  [default: today's date]")
@_cluster
@reaching
def add(*, kid: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Add a new key, which daemons accept but do not use yet."""
    from datetime import UTC, datetime
    from secrets import token_bytes

    from sunk.insight.keys.secret import KEY_BYTES

    new = kid or datetime.now(UTC).strftime("%Y-%m-%d")
    value = token_bytes(KEY_BYTES)
    _change("add", new, lambda one: one.add(value, kid=new), cluster=cluster, at=(kubeconfig, context, namespace))


@keys.command()
@click.argument("kid", metavar="ID")
@_cluster
@reaching
def use(*, kid: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Make daemons sign with this key. Daemons that do not know it yet refuse such messages."""
    _change("use", kid, lambda one: one.use(kid), cluster=cluster, at=(kubeconfig, context, namespace))


@keys.command()
@click.argument("kid", metavar="ID")
@_cluster
@reaching
def drop(*, kid: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Remove a key. The key in use cannot be removed."""
    _change("drop", kid, lambda one: one.drop(kid), cluster=cluster, at=(kubeconfig, context, namespace))


def _change(
    step: str,
    kid: str,
    change: "Callable[[KeySet], KeySet]",
    *,
    cluster: str,
    at: tuple[Path | None, str | None, str | None],
) -> None:
    async def store(client: "Client", where: str) -> "KeySet":
        from sunk.insight.keys import secret

        return await secret.change(client, where, cluster=cluster, to=change)

    kubeconfig, context, namespace = at
    _show(asked(store, kubeconfig=kubeconfig, context=context, namespace=namespace))
    click.echo(f"\n{_READ_AGAIN.format(cluster=cluster)}{_THEN[step].format(kid=kid)}")


def _show(keyset: "KeySet") -> None:
    for key in keyset.keys:
        click.echo(f"{key.kid}{'  (in use)' if key.kid == keyset.default.kid else ''}")
