"""`sunk slurm` where there is no libslurm."""

import pytest
from click.testing import CliRunner

from sunk.cli import main


@pytest.mark.parametrize("command", ["nodes", "jobs", "partitions", "stats"])
def test_without_libslurm_it_says_where_to_run_it(command: str) -> None:
    done = CliRunner().invoke(main, ["slurm", command])
    assert done.exit_code == 2
    assert "libslurm is not available" in done.output
    assert "kubectl exec" in done.output


@pytest.mark.parametrize("command", ["nodes", "jobs", "partitions", "stats"])
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(main, ["slurm", command, "--help"])
    assert done.exit_code == 0
    assert {"--json", "--watch"} <= set(done.output.split())
