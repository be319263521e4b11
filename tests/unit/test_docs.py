"""Pages say what is so: their links lead somewhere, and their examples work."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sunk.directory.domain.options import OPTIONS
from sunk.insight.check.evictions import TOLERATION
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.render.layers import definitions
from sunk.operator.slurmcluster.render.values import spec
from sunk.operator.slurmcluster.resolve import resolve

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("charts/**/*.md")])
GUIDE = PROJECT / "docs" / "guides" / "slurm-cluster.md"
USERS = PROJECT / "docs" / "guides" / "users.md"
AGENT = PROJECT / "docs" / "concepts" / "directory.md"
SHARED = PROJECT / "docs" / "guides" / "shared-nodes.md"
CODE = PROJECT / "docs" / "concepts" / "code.md"
KUBERNETES_NAMES = {"cordon", "SlurmDrain", "SlurmCordon"}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def fenced(page: Path, kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == kind]


def headings(page: Path) -> set[str]:
    """As they are linked to."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.findall(prose):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [*broken(page)] == []


@pytest.mark.parametrize("page", [GUIDE, USERS], ids=lambda page: page.stem)
def test_a_guide_shows_values_that_make_a_cluster(tmp_path: Path, page: Path) -> None:
    blocks = fenced(page, "yaml")
    assert len(blocks) >= 2
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        found = spec(PROJECT / "charts" / "slurm", [file])
        assert objects(resolve(found, name="slurm", namespace="default"))


def test_the_guide_to_users_names_settings_that_exist() -> None:
    """In prose, values of directories and logins stand in backticks, alone or with their path."""
    values = (PROJECT / "docs" / "reference" / "values.md").read_text()
    for name in (
        "overrideUidAttr",
        "sshKeyAttr",
        "refreshInterval",
        "sessionWaitSeconds",
        "createHomes",
        "overrideShell",
    ):
        assert f"`{name}`" in USERS.read_text() or f".{name}`" in USERS.read_text()
        assert name in values


def test_the_page_about_the_agent_lists_the_options_that_it_knows() -> None:
    section = AGENT.read_text().split("## Options")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([a-z_0-9, ]+) \|", section, re.MULTILINE)
    listed = [name for row in rows[1:] for name in row.split(", ")]
    assert sorted(listed) == sorted(OPTIONS)


def test_what_the_guide_shows_of_render_is_what_it_prints(tmp_path: Path) -> None:
    (example,) = [block for block in fenced(GUIDE, "yaml") if "h100-east" in block]
    (sample,) = [block for block in fenced(GUIDE, "") if block.startswith("$ sunk render")]
    file = tmp_path / "my-values.yaml"
    file.write_text(example)
    shown = definitions(spec(PROJECT / "charts" / "slurm", [file]).compute)
    printed = {" ".join(line.split()) for line in shown.splitlines()}
    lines = {" ".join(line.split()) for line in sample.splitlines()[1:] if line.strip() != "…"}
    assert lines <= printed
    assert yaml.safe_load(example)["compute"]["nodes"]["debug"]["env"] is None
    (debug,) = [part for part in shown.split("\n\n") if part.startswith("debug: ")]
    assert "env" not in debug


def test_the_guide_to_shared_nodes_shows_the_toleration_that_check_prints() -> None:
    first, *_ = fenced(SHARED, "yaml")
    assert yaml.safe_load(first) == {"tolerations": [TOLERATION]}


def test_the_map_of_the_code_names_functions_that_exist() -> None:
    rows = re.findall(
        r"^\| \[`([a-z_.]+)`\]\([^)]*\) \| (.*) \|$", CODE.read_text().split("## Four walks")[1], re.MULTILINE
    )
    assert len(rows) >= 25
    for module, text in rows:
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", text):
            if name[0].isupper() or name.islower():
                assert exists(f"sunk.{module}", name), (module, name)


def exists(module: str, name: str) -> bool:
    """Whether a module has this; annotations, conditions and the like have a hyphen or stand in Kubernetes."""
    found: object = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            return name in KUBERNETES_NAMES
        found = getattr(found, part)
    return True
