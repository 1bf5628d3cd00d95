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


def test_fine_tuning_takes_newest_checkpoint(lab: Project, baseline: dict[str, Any]) -> None:
    said = lab.rackwright("demo", lab.stack, "finetune", "--steps", "60")
    assert said.ok and "loss on new text" in said.output, said.end
    document: dict[str, Any] = json.loads(next((lab.home / lab.stack / "demos").glob("finetune-*.json")).read_text())
    assert schema_errors("finetune", document) == []
    assert document["base"]["step"] == int(STEPS) and document["node"] in ("worker0", "worker1")
    assert document["evaluation"]["new"]["after"] < document["evaluation"]["new"]["before"]
    assert kubectl(lab, "-n research get trainjobs,trainingruntimes -o name") == ""


def test_worker_without_image_is_named(lab: Project, baseline: dict[str, Any]) -> None:
    """The image is kept under another name, because its archive has 1 GB."""
    name = lab.ssh("worker1", "ctr -n k8s.io images list -q | grep /training:").output.strip()
    renamed = "ctr -n k8s.io images tag {0} {1} && ctr -n k8s.io images rm {0}"
    assert lab.ssh("worker1", renamed.format(name, "kept.invalid/training:1")).ok
    try:
        said = lab.rackwright("demo", lab.stack, "train", "--steps", STEPS)
        assert said.status == 2 and "worker1 has " in said.output and name in said.output, said.end
        assert lab.rackwright("verify", lab.stack).status == 1
        found = {check["id"]: check["verdict"] for check in lab.report()["checks"]}
        assert found["containerd.workload_images_present[worker1]"] == "failed"
        assert found["containerd.workload_images_present[worker0]"] == "passed"
    finally:
        assert lab.ssh("worker1", renamed.format("kept.invalid/training:1", name)).ok
