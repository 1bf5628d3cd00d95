"""`rackwright demo STACK serve` in a lab: what `train` left, scaled up, updated and scaled down under load without a lost request."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from support.kubernetes import kubectl
from support.project import ROOT, Project

from bootstrap.machine import Machine
from bundle import found, front
from rackwright.report.schemas import schema_errors

pytestmark = [pytest.mark.podman, pytest.mark.engine]

STACK = "lab-k8s-train"


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    """Skip where the image of training pods is not built: it takes 4 minutes and an archive of Debian's packages."""
    bundle = found.wanted(Machine.this(os.environ), ROOT / "tools/kubernetes", None, front.DEFAULT_RELEASE).folder
    if not (bundle / "training" / found.LABEL).exists():
        pytest.skip("serving was not tested, because its image is not built. Build it once with: tools/kubernetes/build --with training")


@pytest.fixture(scope="module")
def served(image: None, lab: Project) -> dict[str, Any]:
    """Train, serve, and return the record of the latter."""
    refused = lab.rackwright("demo", lab.stack, "serve")
    assert refused.status == 2 and "run train first" in refused.output, refused.end
    trained = lab.rackwright("demo", lab.stack, "train", "--steps", "50")
    assert trained.ok, trained.end
    said = lab.rackwright("demo", lab.stack, "serve")
    assert said.ok, said.end
    (file,) = (lab.home / lab.stack / "demos").glob("serve-*.json")
    document: dict[str, Any] = json.loads(file.read_text())
    assert schema_errors("serve", document) == []
    return document


def test_no_request_is_lost(served: dict[str, Any]) -> None:
    totals = served["totals"]
    assert (served["verdict"]["result"], served["ended"], totals["lost"]) == ("passed", True, 0)
    assert totals["sent"] == totals["completed"] > 100
    assert all(one["reached"] and one["latency"]["p50"] <= one["latency"]["p99"] for one in served["stages"])


def test_queue_adds_and_removes_replica(served: dict[str, Any]) -> None:
    assert [(one["from"], one["to"]) for one in served["scalings"]] == [(1, 2), (2, 1)]
    assert max(one["ready"] for one in served["replicas"]) >= 2 and served["replicas"][-1]["ready"] == 1


def test_update_replaces_checkpoint_under_load(served: dict[str, Any]) -> None:
    before, after = served["settings"]["checkpoints"]
    stages = {one["name"]: one["served_by"] for one in served["stages"]}
    assert set(stages["scale-up"]) == {f"{before}/revision-1"} and set(stages["scale-down"]) == {f"{after}/revision-2"}
    assert set(stages["rolling-update"]) == {f"{before}/revision-1", f"{after}/revision-2"}


def test_nothing_but_files_stays(lab: Project, served: dict[str, Any]) -> None:
    kinds = "deployments,services,configmaps,poddisruptionbudgets,pods"
    assert kubectl(lab, f"-n research get {kinds} -l rackwright/run -o name") == ""
    assert lab.as_user(f"test -s {served['folder']}/events-load.jsonl").ok
    assert "<h2>Serving</h2>" in (lab.home / lab.stack / "report.html").read_text()
