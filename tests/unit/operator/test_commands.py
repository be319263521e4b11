"""What `sunk operator` takes, and what it has in common with the other processes."""

import click
import pytest

from sunk.model.contract.lock import LINGER
from sunk.operator.commands import operator
from sunk.service.options import ServiceOptions, serving
from sunk.syncer.commands import syncer

OPTION = "--cordon-reason-annotation"


@pytest.mark.parametrize("key", ["node.coreweave.cloud/cordonReason", "why", "example.com/Why_not.x"])
def test_what_can_be_the_key_of_an_annotation_is_taken(key: str) -> None:
    assert operator.make_context("operator", [OPTION, key]).params["cordon_reason_annotation"] == key


@pytest.mark.parametrize("key", ["", "a b", "/why", "Example.com/why", "a/b/c", "x" * 64, "-why"])
def test_what_cannot_is_refused_with_an_example(key: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a valid annotation key: write it like node\."):
        operator.make_context("operator", [OPTION, key])


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("2.5", 2.5), ("3600", 3600.0)])
def test_a_lock_may_linger_for_any_time_up_to_an_hour(text: str, seconds: float) -> None:
    assert operator.make_context("operator", ["--lock-linger", text]).params["lock_linger"] == seconds
    assert operator.make_context("operator", []).params["lock_linger"] == LINGER


@pytest.mark.parametrize("text", ["-1", "3601", "soon", "nan"])
def test_any_other_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        operator.make_context("operator", ["--lock-linger", text])


@pytest.mark.parametrize(("command", "workers", "stop_seconds"), [(operator, 8, 20.0), (syncer, 16, 10.0)])
def test_every_process_takes_the_shared_options_with_bounds_of_its_own(
    command: click.Command, workers: int, stop_seconds: float
) -> None:
    said = command.make_context("x", ["--cluster", "c"] if command is syncer else []).params
    assert set(ServiceOptions.__struct_fields__) <= said.keys()
    assert (said["workers"], said["stop_seconds"]) == (workers, stop_seconds)


def test_the_shared_options_come_to_a_command_as_one_argument() -> None:
    heard: list[tuple[str, ServiceOptions]] = []

    @click.command()
    @click.option("--own")
    @serving(workers=3, at_once="…", stop_seconds=1.0)
    def command(*, own: str, service_options: ServiceOptions) -> None:
        heard.append((own, service_options))

    command.main(["--own", "x", "--identity", "one", "--port", "0", "--workers", "5"], standalone_mode=False)
    [(own, service_options)] = heard
    assert (
        own,
        service_options.identity,
        service_options.port,
        service_options.workers,
        service_options.stop_seconds,
    ) == ("x", "one", 0, 5, 1.0)
    settings = service_options.settings(name="it", namespaces=("a",), lease_namespace="b")
    assert (settings.name, settings.namespaces, settings.lease_namespace, settings.grace) == ("it", ("a",), "b", 1.0)
