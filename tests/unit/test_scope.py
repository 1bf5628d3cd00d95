"""docs/scope.md names phases that can be followed, and its example is a stack file's."""

from __future__ import annotations

import re
from pathlib import Path

from rackwright.cli.commands import COMMANDS
from rackwright.model.phases import AfterPhase
from rackwright.stackfile.load import load_cluster
from rackwright.yaml_loader import load_yaml

PAGE = (Path(__file__).parents[2] / "docs" / "scope.md").read_text(encoding="utf-8")


def test_phases_it_names_exist_and_all_are_named():
    assert set(re.findall(r"after_[a-z]+", PAGE)) == set(AfterPhase)


def test_its_example_is_valid():
    example = load_yaml(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL).group(1))["config"]["rackwright:cluster"]
    lab = {
        "target": {"kind": "lab"},
        "network": {"cidr": "10.77.0.0/24"},
        "groups": {"login": {"count": 1, "roles": ["login", "controller"]}},
    }
    loaded = load_cluster({**lab, **example})
    assert loaded.cluster is not None, loaded.findings


def test_every_line_has_a_reason_and_a_place():
    rows = [
        line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| component", "|---"))
    ]
    assert len(rows) >= 20
    assert all(len(row) >= 2 and all(cell.strip() for cell in row) for row in rows)


def test_commands_it_names_exist():
    assert set(re.findall(r"`rackwright ([a-z-]+)", PAGE)) <= set(COMMANDS)
