"""`rackwright demo STACK train` on Kubernetes with Kubeflow Trainer: undisturbed, then with a killed worker, and what stays in the cluster.

The first run is the baseline of the second.
"""

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
STEPS = "120"


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    """Skip where the image of training pods is not built: it takes 4 minutes and an archive of Debian's packages."""
    bundle = found.wanted(Machine.this(os.environ), ROOT / "tools/kubernetes", None, front.DEFAULT_RELEASE).folder
    if not (bundle / "training" / found.LABEL).exists():
        pytest.skip("training was not tested, because its image is not built. Build it once with: tools/kubernetes/build --with training")


def train(lab: Project, *options: str) -> dict[str, Any]:
    """Run the demo; return its record."""
    said = lab.rackwright("demo", lab.stack, "train", "--steps", STEPS, *options)
    assert said.ok, said.end
    newest = max((lab.home / lab.stack / "demos").glob("train-*.json"), key=lambda file: file.stat().st_mtime)
    document: dict[str, Any] = json.loads(newest.read_text())
    assert schema_errors("demo", document) == []
    return document


@pytest.fixture(scope="module")
def baseline(image: None, lab: Project) -> dict[str, Any]:
    """Return the record of an undisturbed run."""
    return train(lab)


def test_trainer_is_verified(lab: Project, baseline: dict[str, Any]) -> None:
    report = lab.report()
    checked = {check["id"].partition("[")[0]: check["verdict"] for check in report["checks"] if check["id"].startswith("addons.")}
    assert report["verdict"] == "passed" and checked == {"addons.are_available": "passed", "addons.webhooks_respond": "passed"}


def test_training_completes_and_leaves_only_files(lab: Project, baseline: dict[str, Any]) -> None:
    assert (baseline["verdict"]["result"], baseline["verdict"]["rule"], baseline["failures"]) == ("passed", "baseline", [])
    assert [one["step"] for one in baseline["loss"]] == list(range(1, int(STEPS) + 1))
    assert baseline["final_loss"] < baseline["loss"][0]["loss"] / 2 and baseline["environment"]["blas"] == "openblas"
    assert sorted(baseline["attempts"][0]["nodes"].split(",")) == ["worker0", "worker1"]
    assert kubectl(lab, "-n research get trainjobs,trainingruntimes -o name") == ""
    assert lab.as_user(f"test -O {baseline['folder']}/checkpoints/step-{int(STEPS):08d}/manifest.json").ok


def test_killed_worker_ends_in_identical_loss(lab: Project, baseline: dict[str, Any]) -> None:
    document = train(lab, "--kill-worker")
    assert document["verdict"]["rule"] == "identical" and document["final_bits"] == baseline["final_bits"]
    assert document["injected"][0]["undone"] and document["failures"][0]["steps_lost"] > 0
    assert len(document["attempts"]) > 1 and document["attempts"][-1]["outcome"] == "completed"
    assert document["final_loss"] == baseline["final_loss"]
