"""Run pytest inside our own image: the Python, the packages and the libslurm that are shipped, on a real cluster.

The package under test is the one installed in the image, which is built from this clone; the tests are a copy of the
clone's. pytest and its kin are lent for the run. Tests reach the cluster by libslurm as any client does, and by
`sunk.local.slurm.remote.Remote` from outside.
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from sunk.local.slurm import remote, testpackages
from sunk.local.slurm.boxes.box import SLURM_USER
from sunk.local.slurm.boxes.layout import CLONE
from sunk.local.slurm.configuration import CONTROLLER, TOOLS
from sunk.local.slurm.running import PYTHON, Slurm
from sunk.model.refusal import Refusal

LAST_WORDS: Final = 3000
ALL_PASSED: Final = 0
_NOTHING: Final[Mapping[str, str]] = {}
PYTEST: Final = (
    *("env", f"--chdir={CLONE}", PYTHON, "-m", "pytest"),
    *("-c", f"{CLONE}/pyproject.toml", f"--rootdir={CLONE}", "-p", "no:cacheprovider", "--color=no", "--tb=short"),
    # Only the older family says in which file a test is.
    *("-o", "junit_family=xunit1"),
)
ENVIRONMENT: Final[Mapping[str, str]] = {
    "PYTHONPATH": testpackages.FOLDER,
    "PYTHONDONTWRITEBYTECODE": "1",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",  # noqa: S108 (of a machine that is only ours)
}


class InsideResult(msgspec.Struct, frozen=True):
    """How one test inside went."""

    name: str
    outcome: str
    """passed, failed, error or skipped."""
    text: str = ""


def pytest_inside(
    slurm: Slurm,
    *arguments: str,
    uid: int = SLURM_USER,
    timeout: float = 300.0,
    env: Mapping[str, str] = _NOTHING,
) -> list[InsideResult]:
    """Run tests, named as on pytest's command line from the clone's root. Unless all pass: a Refusal that says which.

    They run as the user slurm unless told: like in production not as root, and with Slurm's full rights.
    """
    slurm.require_tools()
    report = f"/tmp/report-{secrets.token_hex(4)}.xml"  # noqa: S108 (as above)
    command = (*PYTEST, f"--junitxml={report}", *arguments)
    with remote.serve(slurm):
        answer = slurm.attempt(*command, uid=uid, on=TOOLS, timeout=timeout, env={**ENVIRONMENT, **env})
    file = slurm.path(report, on=TOOLS)
    results = list(read(file.read_text())) if file.exists() else []
    if answer.code != ALL_PASSED:
        complaint = _complaint(arguments, results, said=answer.out + answer.err)
        raise Refusal(f"{complaint}\n{slurm.machines.words(CONTROLLER)}")
    return results


def read(report: str) -> Iterator[InsideResult]:
    """Read a report in JUnit's form."""
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 (written by our own pytest a moment ago)
        place = case.get("file") or case.get("classname")
        name = f"{place}::{case.get('name')}" if place else case.get("name", "")
        ended = next((each for each in case if each.tag in {"failure", "error", "skipped"}), None)
        if ended is None:
            yield InsideResult(name=name, outcome="passed")
        else:
            outcome = {"failure": "failed"}.get(ended.tag, ended.tag)
            yield InsideResult(name=name, outcome=outcome, text=ended.text or ended.get("message") or "")


def _complaint(arguments: tuple[str, ...], results: list[InsideResult], *, said: str) -> str:
    bad = [each for each in results if each.outcome in {"failed", "error"}]
    if not bad:
        return f"pytest inside the image could not run {' '.join(arguments)}:\n{said.strip()[-LAST_WORDS:]}"
    told = "\n".join(f"\n{each.outcome}: {each.name}\n{each.text.strip()[-LAST_WORDS:]}" for each in bad)
    return f"of {len(results)} tests inside the image {len(bad)} did not pass:\n{told}"
