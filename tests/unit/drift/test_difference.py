"""One list from three layers, and its state."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from rackwright.catalog.checks import checks
from rackwright.drift import behaviour, configuration
from rackwright.drift.categories import categories
from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan, ScanMethod, difference, max_category
from rackwright.drift.document import DriftReport, State
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).resolve().parents[3]
QUIET = tuple(LayerScan(layer, 1.0) for layer in Layer)


def drift(*scans):
    """Return a document of these scans."""
    return DriftReport("lab", "0" * 12, datetime(2026, 11, 23, 3, 0, tzinfo=UTC), 5.0, scans)


def one(category=Category.BREAKING, **changes):
    """Return a difference."""
    values = {
        "layer": Layer.BEHAVIOUR,
        "node": "worker0",
        "subject": "munge.is_active",
        "declared": "active",
        "live": "dead",
        "remedy": "start it",
    }
    return DriftItem(**{**values, **changes}, category=category)


def check(verdict, **changes):
    """Return a check's result as in a report."""
    values = {
        "id": "munge.is_active[worker0]",
        "node": "worker0",
        "subject": "munge",
        "verdict": verdict,
        "reason": "",
        "expected": "active",
    }
    return {**values, "found": "dead", "remedy": "start it", **changes}


def report(*results):
    return {"schema": "rackwright.report/1", "seconds": 3.9, "checks": list(results)}


class TestState:
    def test_three_layers_without_differences_are_clean(self):
        assert drift(*QUIET).state is State.CLEAN

    @pytest.mark.parametrize("layer", list(Layer))
    def test_unscanned_layer_is_never_clean(self, layer):
        assert drift(*(scan for scan in QUIET if scan.layer is not layer)).state is State.UNKNOWN

    def test_difference_is_drift(self):
        assert drift(*QUIET[:2], LayerScan(Layer.BEHAVIOUR, 1.0, (one(),))).state is State.DRIFTED

    def test_ignored_difference_is_no_drift(self):
        assert drift(*QUIET[:2], LayerScan(Layer.BEHAVIOUR, 1.0, (one(Category.EXPECTED),))).state is State.CLEAN

    def test_unresponsive_node_makes_state_unknown(self):
        scans = (*QUIET[:2], LayerScan(Layer.BEHAVIOUR, 1.0, (one(),), (("worker1", "unreachable"),)))
        assert (drift(*scans).state, drift(*scans).state.exit_code) == (State.UNKNOWN, 3)


def test_heaviest_differences_come_first():
    light, heavy = one(Category.BENIGN, node="a"), one(Category.SECURITY, node="z")
    assert drift(LayerScan(Layer.BEHAVIOUR, 1.0, (light, heavy))).differences == (heavy, light)
    assert max_category([light, heavy]) is Category.SECURITY
    assert max_category([]) is None


def test_difference_identity_ignores_live_value():
    assert one(live="dead").id == one(live="failed").id
    assert one(node="worker1").id != one().id


def test_document_round_trips():
    assert difference(one().as_dict()) == one()
    with pytest.raises(ValueError, match="harmless"):
        difference({**one().as_dict(), "category": "harmless"})


class TestBehaviour:
    def test_failed_result_is_difference_and_passed_none(self):
        assert behaviour.scan(report(check("failed"), check("passed", id="x.y[z]"))).differences == (one(),)

    def test_reason_replaces_missing_value(self):
        assert behaviour.scan(report(check("failed", found="", reason="gone"))).differences[0].live == "gone"

    def test_unknown_results_are_grouped_by_reason(self):
        results = [check("unknown", id=f"x.{n}[worker0]", reason="unreachable") for n in range(9)]
        assert behaviour.scan(report(*results)).unknown == (("worker0", "unreachable"),)

    def test_stopped_daemon_is_one_difference(self):
        skipped = check("skipped", id="slurm.controller_answers_here[worker0]", reason="daemon-down", found="slurmd.service is inactive")
        found = behaviour.scan(report(check("failed"), skipped))
        assert (found.differences, found.unknown) == ((one(),), ())

    def test_other_contract_is_refused(self):
        with pytest.raises(ValueError, match=r"schema is other/1, expected rackwright\.report/1"):
            behaviour.scan({**report(), "schema": "other/1"})


class TestConfiguration:
    TASK = {"host": "worker0", "phase": "scheduler", "role": "slurm_worker", "task": "Run slurmd"}
    TASK |= {"detail": "/etc/default/slurmd", "live": "", "declared": ""}

    def test_pending_change_of_task_is_difference(self):
        found = configuration.scan("lab", 3.0, [self.TASK], [])
        (only,) = found.differences
        assert (only.node, only.subject, only.live, only.category) == (
            "worker0",
            "scheduler.Run slurmd",
            "/etc/default/slurmd",
            Category.BREAKING,
        )
        assert "--reconcile" in only.remedy

    def test_present_and_planned_values_are_shown(self):
        (only,) = configuration.scan("lab", 3.0, [{**self.TASK, "live": "/etc/x: b 7", "declared": "/etc/x: b 8"}], []).differences
        assert (only.declared, only.live) == ("/etc/x: b 8", "/etc/x: b 7")

    def test_failed_check_mode_task_is_unknown(self):
        found = configuration.scan("lab", 3.0, [], [{**self.TASK, "detail": "timed out"}])
        assert found.unknown == (("worker0", "scheduler: Run slurmd: timed out"),)


class TestWeights:
    def test_every_check_subject_has_a_weight(self):
        assert {name for name in categories().behaviour if "." not in name} == {spec.subject for spec in checks().values()}

    def test_weight_keys_name_existing_checks(self):
        assert {name for name in categories().behaviour if "." in name} <= set(checks())

    def test_weight_of_check_precedes_subject(self):
        assert categories().of_check("munge.key_is_the_same_everywhere", "munge") is Category.SECURITY
        assert categories().of_check("munge.is_active", "munge") is Category.BREAKING

    def test_every_role_has_a_weight(self):
        assert set(categories().configuration) == {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}

    def test_nothing_has_two_weights(self):
        found = load_yaml((ROOT / "infra/rackwright/drift/categories.yml").read_text())
        for part in found.values():
            names = [name for names in part.values() for name in names]
            assert len(names) == len(set(names))


def test_document_matches_schema():
    schema = Draft202012Validator(json.loads(files("rackwright.drift").joinpath("drift.schema.json").read_text(encoding="utf-8")))
    found = drift(LayerScan(Layer.BEHAVIOUR, 1.0, (one(),), (("worker1", "silent"),))).as_dict()
    assert list(schema.iter_errors(found)) == []
    assert list(schema.iter_errors({**found, "state": "fine"})) != []


def test_layer_names_method_and_reason_together():
    schema = Draft202012Validator(json.loads(files("rackwright.drift").joinpath("drift.schema.json").read_text(encoding="utf-8")))
    found = drift(LayerScan(Layer.CONFIGURATION, 1.0, (), (), ScanMethod.CACHED, "nodes answer as before")).as_dict()
    layer = found["layers"][0]
    assert (layer["method"], layer["message"]) == ("cached", "nodes answer as before")
    assert list(schema.iter_errors(found)) == []
    for wrong in ({**layer, "method": "guessed"}, {name: value for name, value in layer.items() if name != "message"}):
        assert list(schema.iter_errors({**found, "layers": [wrong]})) != []


def test_control_characters_of_users_are_escaped():
    """Users choose the names of units, files and accounts."""
    found = one(subject="baseline.units \x1b[2Ja.service", live="a\x07\udcff\nb")
    assert (found.subject, found.live) == ("baseline.units \\x1b[2Ja.service", "a\\x07\\udcff\nb")
    assert json.dumps(found.as_dict(), ensure_ascii=False).encode("utf-8")
