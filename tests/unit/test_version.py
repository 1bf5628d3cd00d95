"""The version has one home, and the changelog has the headings that its readers expect."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import rackwright
from rackwright import layout
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[2]
HOME = "infra/rackwright/__init__.py"
PROGRAMS = ("infra", "tools", "ansible_collections", "playbooks", "roles")
HEADINGS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Kinds of changes of Keep a Changelog 1.1."""


def has_string(file, value):
    """Return whether a string literal of the file is the value. Only files with this text are parsed: to parse all takes 2 s."""
    text = file.read_text(encoding="utf-8")
    return value in text and any(isinstance(node, ast.Constant) and node.value == value for node in ast.walk(ast.parse(text)))


def test_no_program_repeats_the_version():
    files = [file for folder in PROGRAMS for file in (ROOT / folder).rglob("*.py")]
    named = [str(file.relative_to(ROOT)) for file in files if has_string(file, rackwright.__version__)]
    assert named == [HOME]


def test_collection_has_the_version_of_the_package():
    """Ansible reads the version from a file of its own."""
    collection = ROOT / layout.COLLECTION
    galaxy = load_yaml((collection / "galaxy.yml").read_text(encoding="utf-8"))
    assert (f"{galaxy['namespace']}.{galaxy['name']}", galaxy["version"]) == (layout.COLLECTION_NAME, rackwright.__version__)


def test_collection_requires_the_ansible_of_the_package():
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (pinned,) = (Requirement(pin) for pin in pins if pin.startswith("ansible-core"))
    runtime = load_yaml((ROOT / layout.COLLECTION_META / "runtime.yml").read_text(encoding="utf-8"))
    required = SpecifierSet(runtime["requires_ansible"])
    for release in ("2.18.9", "2.19.0", "2.19.99", "2.20.0", "3.0.0"):
        assert required.contains(release) is pinned.specifier.contains(release), release


def test_package_metadata_read_the_version_from_the_module():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert ProjectMetadata(str(ROOT), PluginManager()).version == rackwright.__version__


def run(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "infra")}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("version", [rackwright.__version__, "7.8.9"])
def test_command_prints_the_version_of_the_module(version):
    code = f"""
import sys, rackwright; rackwright.__version__ = {version!r}
from rackwright.cli.main import app
sys.argv[1:] = ["--version"]
app()
"""
    assert run(code) == f"{version}\n"


def test_provider_reports_the_version_of_the_module():
    code = """
import asyncio, rackwright; rackwright.__version__ = "7.8.9"
from unittest.mock import Mock
from rackwright.provider.protocol.servicer import ProviderServicer
print(asyncio.run(ProviderServicer(Mock(), Mock()).GetPluginInfo(None, None)).version)
"""
    assert run(code) == "7.8.9\n"


def changelog_sections():
    """Return version and date -> its headings of the third level, in the order of the file."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {section.splitlines()[0]: re.findall(r"^### (.+)$", section, re.MULTILINE) for section in sections}


def test_changelog_has_the_headings_of_keep_a_changelog():
    sections = changelog_sections()
    assert next(iter(sections)) == "[Unreleased]"
    for section, headings in sections.items():
        assert headings == [heading for heading in HEADINGS if heading in headings], section


def test_released_versions_have_a_date_and_descend():
    released = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", line) for line in list(changelog_sections())[1:]]
    assert all(released)
    versions = [tuple(int(part) for part in match.groups()[:3]) for match in released]
    assert versions == sorted(set(versions), reverse=True)
    assert all(date.fromisoformat(match[4]) for match in released)


def test_schema_of_the_inventory_is_the_same_in_every_reader():
    """Roles and checks cannot import the writer, so they name the schema themselves."""
    schema = re.compile(r"rackwright\.inventory/(\d+)")
    files = [
        file
        for folder in ("infra", "ansible_collections", "playbooks")
        for kind in ("py", "json", "yml")
        for file in (ROOT / folder).rglob(f"*.{kind}")
    ]
    found = {str(file.relative_to(ROOT)): set(schema.findall(file.read_text(encoding="utf-8"))) for file in files}
    named = {file: numbers for file, numbers in found.items() if numbers}
    assert len(named) >= 4, "the writer, its JSON schema, the checks and the playbooks name it"
    assert len(set().union(*named.values())) == 1, named
