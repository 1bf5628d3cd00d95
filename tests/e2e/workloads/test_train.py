"""`rackwright demo STACK train|finetune` in a lab with PyTorch for CPUs: undisturbed, with a killed worker, interrupted; the checkpoints.

The tests build on one another: the first run is the baseline of the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT, Project

from rackwright.report.schemas import schema_errors

STEPS = "120"


def train(lab: Project, *options: str) -> dict[str, Any]:
    """Run the demo; return its record. The JSON on standard output follows messages on standard error, which the copy joins."""
    said = lab.rackwright("demo", lab.stack, "train", "--steps", STEPS, *options)
    assert said.ok, said.end
    newest = max((lab.home / lab.stack / "demos").glob("train-*.json"), key=lambda file: file.stat().st_mtime)
    document: dict[str, Any] = json.loads(newest.read_text())
    assert schema_errors("demo", document) == []
    return document


def remove_files(lab: Project, document: dict[str, Any]) -> None:
    """Delete what a run left: with 64 MiB for each file, the file system of the stack holds four runs."""
    assert lab.as_user(f"rm -r {document['folder']}").ok


@pytest.fixture(scope="module")
def baseline(lab: Project) -> dict[str, Any]:
    """Return the record of an undisturbed run."""
    return train(lab)


def test_training_completes_and_is_recorded_as_baseline(lab: Project, baseline: dict[str, Any]) -> None:
    assert (baseline["verdict"]["result"], baseline["verdict"]["rule"], baseline["failures"]) == ("passed", "baseline", [])
    assert [one["step"] for one in baseline["loss"]] == list(range(1, int(STEPS) + 1))
    assert baseline["final_loss"] < baseline["loss"][0]["loss"] / 2 and baseline["tokens_s"] > 0
    assert baseline["environment"]["device"] == "CPU" and baseline["environment"]["blas"] == "openblas"
    assert "simulated: gpu" in baseline["evidence"]
    users = lab.ssh("login0", f"sacct -nXP -j {baseline['attempts'][0]['job']} -o User,State").output.split()
    assert users == ["alice|COMPLETED"]


def test_killed_worker_ends_in_identical_loss(lab: Project, baseline: dict[str, Any]) -> None:
    document = train(lab, "--kill-worker")
    remove_files(lab, document)
    assert document["verdict"]["rule"] == "identical" and document["final_bits"] == baseline["final_bits"]
    assert [one["node"] for one in document["injected"]] == ["worker1"] and document["injected"][0]["undone"]
    assert len(document["attempts"]) > 1 and document["failures"][0]["steps_lost"] > 0
    assert 0 < document["goodput"] < baseline["goodput"]
    assert [one["outcome"] for one in document["attempts"]][-2:] == ["failed", "completed"], "the batch script outlives the worker"


def test_checkpoints_after_a_killed_rank_are_complete(lab: Project, baseline: dict[str, Any]) -> None:
    """Only the launcher on the rank's own node counts the restart, so that ranks once wrote one checkpoint into two folders."""
    document = train(lab, "--kill-rank")
    shards = lab.as_user(f"find {document['folder']}/checkpoints -name '*.distcp' -printf '%h %f\\n' | sort").output.split()
    remove_files(lab, document)
    assert document["final_bits"] == baseline["final_bits"] and len(document["attempts"]) == 1
    assert shards[1::2] == ["__0_0.distcp", "__1_0.distcp"] * 3, shards


def test_fsdp2_trains_the_same_model(lab: Project, baseline: dict[str, Any]) -> None:
    document = train(lab, "--mode", "fsdp2")
    remove_files(lab, document)
    assert document["final_loss"] == pytest.approx(baseline["final_loss"], rel=0.05)


def test_adapters_of_newest_checkpoint_are_evaluated(lab: Project, baseline: dict[str, Any], tmp_path: Path) -> None:
    """Their files are verified as checkpoints are."""
    said = lab.rackwright("demo", lab.stack, "finetune", "--steps", "60")
    assert said.ok and "loss on new text" in said.output, said.end
    document: dict[str, Any] = json.loads(next((lab.home / lab.stack / "demos").glob("finetune-*.json")).read_text())
    assert schema_errors("finetune", document) == []
    assert document["base"]["step"] == int(STEPS) and document["adapter"]["parameters"] == 65_536
    assert document["evaluation"]["new"]["after"] < document["evaluation"]["new"]["before"]
    config = lab.home / lab.stack / "ssh_config"
    for name, files in (("adapter", {"adapter_config.json", "adapter_model.bin"}), ("merged", {"model.pt"})):
        lab.run(["scp", "-q", "-r", "-F", str(config), f"login0:{document[name]['path']}", str(tmp_path)])
        assert {file.name for file in (tmp_path / name).iterdir()} == {*files, "manifest.json"}
        assert lab.rackwright("checkpoints", "verify", str(tmp_path / name)).ok
    page = (lab.home / lab.stack / "report.html").read_text()
    assert document["run"] in page and "Training" in page and "SIMULATED" in page
    users = lab.ssh("login0", f"sacct -nXP -j {document['job']} -o User,State,NNodes").output.split()
    assert users == ["alice|COMPLETED|1"]


def test_interrupted_run_leaves_nothing(lab: Project) -> None:
    """Ctrl-C while the killed worker is off."""
    command = [str(ROOT / ".venv/bin/python"), "-m", "rackwright.cli.main", "demo", lab.stack, "train", "--steps", "400", "--kill-worker"]
    child = lab.start(command)
    output = ""
    try:
        assert child.stdout is not None
        for line in child.stdout:
            output += line
            if "killed after step" in line:
                child.send_signal(signal.SIGINT)
        child.wait(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 3, output
    assert "interrupted after step" in output and "its jobs are cancelled; worker1, which was killed, is started again" in output, output
    assert lab.ssh("login0", "squeue -h").output.strip() == ""
    assert lab.ssh("worker1", "true").ok, "the worker runs again"


def test_verify_names_damaged_shard(lab: Project, baseline: dict[str, Any], tmp_path: Path) -> None:
    """The checkpoints are copied from the shared file system, and one byte of one of them is changed."""
    config = lab.home / lab.stack / "ssh_config"
    lab.run(["scp", "-q", "-r", "-F", str(config), f"login0:{baseline['folder']}/checkpoints", str(tmp_path)])
    assert lab.rackwright("checkpoints", "verify", str(tmp_path)).ok
    shard = sorted((tmp_path / "checkpoints").glob("step-*/__1_0.distcp"))[-1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    said = lab.rackwright("checkpoints", "verify", str(tmp_path))
    assert said.status == 1 and "__1_0.distcp" in said.output and "damaged" in said.output, said.output
