"""Every check has a fault, and every fault a check."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from support.rows import each_row

from rackwright.catalog.checks import checks
from rackwright.checks.cluster.harness import daemon_dependencies
from rackwright.drift.difference import Layer
from rackwright.yaml_loader import load_yaml

FOLDER = Path(__file__).parents[2] / "faults"


def rows(*names: str) -> dict[str, Any]:
    return {key: row for name in names for key, row in load_yaml((FOLDER / name).read_text(encoding="utf-8")).items()}


ROWS = rows("checks.yml", "kubernetes.yml", "monitoring.yml")
OF_DRIFT = rows("drift.yml", "suspended.yml")
SUSPENDED = rows("suspended.yml")
KEYS = {"where", "red", "first", "everywhere", "apply", "undo", "also", "alerts"}


def test_every_check_has_one_fault():
    assert sorted(ROWS) == sorted(checks())


@each_row("key", ROWS)
def test_rows_are_complete_and_valid(key):
    row = ROWS[key]
    assert set(row) <= KEYS
    assert row["apply"].strip() and row["undo"].strip()
    assert row.get("red", "same") in {"same", "last", "all"}


@each_row("key", [key for key, row in ROWS.items() if row.get("also")])
def test_side_effects_are_checks_with_reasons(key):
    assert set(ROWS[key]["also"]) <= set(checks())
    assert all(why.strip() for why in ROWS[key]["also"].values())


def test_no_two_checks_share_a_fault():
    faults = [(row["apply"], row.get("where", checks()[key].group)) for key, row in ROWS.items()]
    assert {fault for fault in faults if faults.count(fault) > 1} <= {("hostname other-host", "role_worker")}


def test_every_table_is_loaded():
    assert {file.name for file in FOLDER.glob("*.yml")} == {"checks.yml", "kubernetes.yml", "monitoring.yml", "drift.yml", "suspended.yml"}


@each_row("key", OF_DRIFT)
class TestDriftFaults:
    def test_rows_are_complete_and_valid(self, key):
        row = OF_DRIFT[key]
        assert set(row) <= {"where", "here", "apply", "names", "also", "alerts", "cluster", "unknown", "undo", "heal", "stack", "limit_s"}
        assert ("here" in row) is not ("apply" in row), "done here, or on the node"
        assert "undo" in row or row.get("heal"), "taken back, or healed"
        assert row["names"]

    def test_names_exist_in_layers_and_checks(self, key):
        for name in [*OF_DRIFT[key]["names"], *OF_DRIFT[key].get("also", {})]:
            layer, _, subject = name.partition(" ")
            assert layer in {one.value for one in Layer} and subject
            if layer == Layer.BEHAVIOUR and not subject.startswith("baseline."):
                assert any(fnmatchcase(check, subject) for check in checks()), f"no check is called {subject}"

    def test_allowed_differences_have_reasons(self, key):
        assert all(why.strip() for why in OF_DRIFT[key].get("also", {}).values())


@each_row("key", SUSPENDED)
def test_suspended_daemon_is_named_by_one_check_within_the_limit(key):
    row = SUSPENDED[key]
    assert row["limit_s"] == 15 and [name.partition(" ")[0] for name in row["names"]] == [Layer.BEHAVIOUR]
    assert (FOLDER.parents[1] / "stacks" / f"Pulumi.{row.get('stack', 'lab')}.yaml").is_file()


def test_every_daemon_that_others_wait_for_has_a_row():
    named = {name.partition(" ")[2] for row in SUSPENDED.values() for name in row["names"]}
    assert set(daemon_dependencies.CHECKS.values()) | {"sshd.daemon_responds", "slurm.login_daemon_runs"} <= named


def test_drift_faults_are_unique():
    done = [(row.get("apply"), row.get("here"), row.get("where")) for row in OF_DRIFT.values()]
    assert len(set(done)) == len(done)
