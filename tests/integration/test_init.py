"""`/init` of the slurm image: what it starts, what it starts again, and how it ends."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
from tests.box import Box, File, Plan, box, network, wait_for

from sunk.local.artifacts import images

SLURM_USER = 64030


class Boxes(msgspec.Struct, frozen=True):
    """Starts boxes of the slurm image."""

    plan: Plan

    def __call__(
        self, *command: str, services: dict[str, dict[str, str]] | None = None, user: int = 0
    ) -> AbstractContextManager[Box]:
        mounted = {
            f"etc/sunk/s6/{service}/{file}": File(text)
            for service, files in (services or {}).items()
            for file, text in files.items()
        }
        return box(msgspec.structs.replace(self.plan, files=mounted, user=user), *command)


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[Boxes]:
    with network() as net:
        yield Boxes(Plan(image=images.root_file_system("slurm"), folder=tmp_path / "box", network=net))


def longrun(script: str, **more: str) -> dict[str, str]:
    return {"type": "longrun\n", "script": script, **more}


def oneshot(script: str, **more: str) -> dict[str, str]:
    return {"type": "oneshot", "script": script, **more}


IDLE = longrun("exec sleep infinity")


def test_a_name_that_is_no_service_is_refused_with_the_names_that_are(boxes: Boxes) -> None:
    with boxes("/init", "bash") as made:
        assert made.ended() == 2
        assert "bash is not a service of this image. It has: sackd slurmctld slurmd" in made.said()


def test_a_service_of_unknown_type_is_refused(boxes: Boxes) -> None:
    with boxes("/init", services={"odd": {"type": "daily", "script": "true"}}) as made:
        assert made.ended() == 2
        assert "/etc/sunk/s6/odd/type says 'daily'; it must be oneshot or longrun" in made.said()


def test_oneshots_are_over_before_a_longrun_starts_and_go_by_name(boxes: Boxes) -> None:
    services = {
        "20-second": oneshot("#!/bin/sh\necho second"),
        "10-first": oneshot("#!/usr/bin/env bash\nsleep 1; echo first"),
        "lasting": longrun("echo third; exec sleep infinity"),
    }
    with boxes("/init", services=services) as made:
        wait_for(lambda: "third" in made.said(), what="the longrun")
        assert made.said().split() == ["first", "second", "third"]


def test_scripts_come_after_what_they_depend_on_of_whatever_type(boxes: Boxes) -> None:
    services = {
        "10-mount": oneshot("echo mount with $(s6-svstat -o up /run/s6/network)", dependencies="network\n"),
        "network": longrun("exec sleep infinity", dependencies="keys"),
        "keys": oneshot("sleep 0.5; echo keys"),
        "agent": longrun("echo agent; exec sleep infinity", dependencies="10-mount\nnetwork\n"),
    }
    with boxes("/init", services=services) as made:
        wait_for(lambda: "agent" in made.said(), what="the last one")
        assert made.said().splitlines() == ["keys", "mount with true", "agent"]
        assert made.stop() == 0


def test_dependencies_that_cannot_be_met_are_refused(boxes: Boxes) -> None:
    services = {"a": oneshot("true", dependencies="b"), "b": longrun("true", dependencies="a")}
    with boxes("/init", services=services) as made:
        assert made.ended() == 2
        assert "init: dependencies in /etc/sunk/s6 go round in a circle: a needs b needs a." in made.said()


def test_a_oneshot_that_goes_wrong_after_a_longrun_ends_that_too(boxes: Boxes) -> None:
    services = {
        "lasting": longrun("trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.1; done"),
        "bad": oneshot("sleep 1; echo reason >&2; exit 9", dependencies="lasting"),
    }
    with boxes("/init", "slurmrestd", services=services) as made:
        assert made.ended() == 9
        assert "oneshot bad exited with code 9: starting nothing more" in made.said()
        assert made.said().index("reason") < made.said().index("told")
        assert "slurmrestd" not in made.said()


def test_a_longrun_that_cannot_start_holds_up_those_that_need_it(boxes: Boxes) -> None:
    services = {"odd": longrun("#!/no/such/program"), "next": oneshot("echo never", dependencies="odd")}
    with boxes("/init", services=services) as made:
        assert made.process.wait(90) == 1
        assert "longrun odd did not start within 30 s" in made.said()
        assert "never" not in made.said()


def test_a_process_that_a_oneshot_leaves_behind_can_still_write(boxes: Boxes) -> None:
    services = {
        "leaves": oneshot("(sleep 4; echo later) & echo first"),
        "lasting": longrun("echo second; exec sleep infinity"),
    }
    with boxes("/init", services=services) as made:
        wait_for(lambda: "later" in made.said(), what="the word of the process")
        assert made.said().split() == ["first", "second", "later"]
        assert made.stop() == 0


def test_a_oneshot_that_goes_wrong_ends_the_container_with_its_code(boxes: Boxes) -> None:
    services = {"bad": oneshot("exit 7"), "lasting": longrun("echo lives")}
    with boxes("/init", services=services) as made:
        assert made.ended() == 7
        assert "oneshot bad exited with code 7" in made.said()
        assert "lives" not in made.said()


def test_a_oneshot_that_takes_too_long_is_ended(boxes: Boxes) -> None:
    services = {"slow": oneshot("sleep 60", **{"timeout-up": "500"}), "lasting": IDLE}
    with boxes("/init", services=services) as made:
        assert made.ended() == 124


def test_a_container_can_be_ended_while_a_oneshot_runs(boxes: Boxes) -> None:
    services = {"slow": oneshot("echo began; sleep 60"), "lasting": longrun("echo lives")}
    with boxes("/init", services=services) as made:
        wait_for(lambda: "began" in made.said(), what="the oneshot")
        assert made.stop() == 0
        assert "lives" not in made.said()


def test_services_end_in_the_reverse_of_the_order_they_started_in(boxes: Boxes) -> None:
    tell = "trap 'echo {0} ends; exit 0' TERM; echo {0} begins; while :; do sleep 0.1; done"
    services = {name: longrun(tell.format(name)) for name in ("a", "b")}
    with boxes("/init", services=services) as made:
        wait_for(lambda: made.said().count("begins") == 2, what="both services")
        assert made.stop() == 0
        # They are started in their order too, but which of two shells speaks first is up to the kernel.
        assert made.said().splitlines()[2:] == ["b ends", "a ends"]


def test_a_service_that_ignores_the_signal_is_killed_in_time(boxes: Boxes) -> None:
    deaf = longrun("trap '' TERM; echo up; while :; do sleep 0.1; done", **{"timeout-down": "500"})
    with boxes("/init", services={"deaf": deaf}) as made:
        wait_for(lambda: "up" in made.said(), what="the service")
        assert made.stop() == 0


def test_processes_that_are_no_service_are_asked_to_end_before_the_container_does(boxes: Boxes) -> None:
    orphan = (
        "( trap 'sleep 0.5; echo orphan ends; exit' TERM; echo up; while :; do sleep 0.1; done ) &\nexec sleep infinity"
    )
    with boxes("/init", services={"parent": longrun(orphan)}) as made:
        wait_for(lambda: "up" in made.said(), what="the process")
        assert made.stop() == 0
        assert "orphan ends" in made.said()


def test_orphans_are_reaped(boxes: Boxes) -> None:
    with boxes("/init", services={"lasting": IDLE}) as made:
        wait_for(lambda: "sleep" in made.run("ps", "-e"), what="the service")
        made.run("sh", "-c", "for i in 1 2 3; do setsid sh -c 'sleep 0.2' & done")
        time.sleep(1)
        wait_for(lambda: "Z" not in made.run("ps", "-e", "-o", "stat="), what="the end of all zombies")


def test_a_longrun_that_dies_is_started_again(boxes: Boxes) -> None:
    with boxes("/init", services={"mortal": longrun("echo born; sleep 0.5")}) as made:
        wait_for(lambda: made.said().count("born") >= 3, what="the third life")


def test_a_main_service_that_cannot_live_ends_the_container_with_its_code(boxes: Boxes) -> None:
    with boxes("/init", "slurmrestd", "--", "--no-such-option") as made:
        assert made.ended() == 1
        assert "slurmrestd exited 5 times within 600 s; the container exits with code 1" in made.said()


def test_everything_works_without_root(boxes: Boxes) -> None:
    services = {"tell": longrun("echo I am $(id -u); exec sleep infinity")}
    with boxes("/init", services=services, user=SLURM_USER) as made:
        wait_for(lambda: f"I am {SLURM_USER}" in made.said(), what="the service")
        assert made.stop() == 0
