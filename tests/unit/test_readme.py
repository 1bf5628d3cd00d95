"""Commands, links and the stack file of the README and of the pages for contributors are right."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from rackwright.cli.commands import COMMANDS
from rackwright.rules import check
from rackwright.stackfile.load import load_cluster
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    ".devcontainer/README.md",
    "RELEASING.md",
    "docs/adr/README.md",
    "docs/contributing/style.md",
    "docs/evidence/README.md",
    "examples/README.md",
    "tests/README.md",
    "tools/README.md",
)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page))
    assert not [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", read(page), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    blocks = "".join(re.findall(r"```\n(.*?)```", read(page), re.DOTALL))
    named = {*re.findall(r"`rackwright ([a-z][a-z-]*)", read(page)), *re.findall(r"^rackwright ([a-z][a-z-]*)", blocks, re.MULTILINE)}
    assert named <= set(COMMANDS)


def test_stack_file_of_the_readme_is_valid() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", read("README.md"), re.DOTALL)
    loaded = load_cluster(load_yaml(block)["config"]["rackwright:cluster"], "lab")
    assert loaded.cluster is not None, loaded.findings
    assert check(loaded, date(2026, 11, 26)) == ()


def test_readme_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 130
