"""A whole acceptance against a stand-in for the node that jobs are sent from: order, verdicts, files, and what an interruption leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

SMOKE = ("slurm_health", "shared_file_system", "task_placement", "gpu_allocation")


def test_a_good_cluster_passes_and_its_results_are_kept(bench):
    ended = bench.run("--level", "smoke")
    assert (ended.status, ended.report["verdict"]) == (0, "passed"), ended.said
    for name in SMOKE:
        assert set(ended.verdicts(name).values()) <= {"passed", "skipped"}, name
        assert ended.phase(name)["verdict"] == "passed"
    folder = bench.node.mount / "validation" / "results" / f"infra-smoke-{ended.report['run']}"
    assert ended.report["results"] == str(folder)
    kept = folder / "04-gpu-allocation"
    meta = json.loads((kept / "meta.json").read_text())
    assert meta["nodes"] == ["worker0", "worker1"]
    assert {"slurm", "submitter_kernel", "nodes"} == set(meta["versions"])
    assert {"kernel", "driver", "python"} == set(meta["versions"]["nodes"]["worker0"])
    assert all(job["status"] == 0 and job["command"][0] == "srun" and job["id"] for job in meta["jobs"])
    assert json.loads((kept / "result.json").read_text())["verdict"] == "passed"
    assert "=== none-gpu-8 (job " in (kept / "stdout").read_text()
    assert {file.name for file in (folder / "programs").iterdir()} == {"task.py", "shell.py", "seen.py", "nothing.py"}
    assert (bench.home / "acceptance.junit.xml").read_text().count("<testcase") == len(ended.report["checks"])


def test_gpus_are_simulated_and_the_rest_is_real(bench):
    report = bench.run("--level", "smoke").report
    evidence = {check["subject"]: check["evidence"] for check in report["checks"]}
    assert (evidence["gpu_allocation"], evidence["task_placement"]) == ("simulated", "real")
    confined = [check for check in report["checks"] if "opens_no_other_gpu" in check["id"]]
    assert {check["reason"] for check in confined} == {"simulated-hardware"}


def test_a_phase_that_the_plan_lacks_is_shown_as_skipped(bench):
    phase = bench.run("--level", "smoke").phase("infiniband")
    assert (phase["state"], phase["verdict"], phase["reason"]) == ("skipped", "skipped", "not-in-plan")


def test_a_lost_gpu_fails_names_the_node_and_what_to_do(bench):
    good = (bench.node.folder.parents[0] / "node").joinpath("gpus-worker1")
    from .standin import CAPTURED

    good.write_text((CAPTURED / "gpus" / "lost.txt").read_text())
    ended = bench.run("--level", "smoke")
    assert ended.status == 1
    wrong = [check for check in ended.report["checks"] if check["verdict"] == "failed"]
    assert [check["id"] for check in wrong] == ["gpu_allocation.all_gpus_answer[worker1]"]
    assert (wrong[0]["expected"], wrong[0]["found"]) == ("8 GPUs", "7 GPUs")
    assert "drain worker1" in wrong[0]["remedy"]


def test_after_a_phase_that_failed_the_rest_does_not_run_and_it_is_said(bench):
    bench.node.answer("mounts-worker1", bench.node.folder.joinpath("mounts-worker0").read_text().replace("fuse.mfs", "ext4"))
    ended = bench.run("--level", "smoke")
    assert ended.status == 1
    assert ended.verdicts("shared_file_system")["is_mounted[worker1]"] == "failed"
    assert [ended.phase(name)["state"] for name in SMOKE] == ["ran", "ran", "not-run", "not-run"]
    assert ended.phase("task_placement")["reason"] == "phase 2 (Shared file system) did not pass"
    assert {item["reason"] for item in ended.report["not_run"] if item["id"].startswith("gpu_allocation.")} == {"stopped"}
    assert not any("task-placement" in job for job in bench.node.jobs)


def test_asked_to_keep_going_it_goes_on(bench):
    bench.node.answer("mounts-worker1", bench.node.folder.joinpath("mounts-worker0").read_text().replace("fuse.mfs", "ext4"))
    ended = bench.run("--level", "smoke", "--keep-going")
    assert ended.status == 1
    assert [ended.phase(name)["state"] for name in SMOKE] == ["ran"] * 4


def test_one_phase_is_no_verdict_on_the_cluster(bench):
    ended = bench.run("--phase", "task-placement")
    assert ended.status == 0
    assert not (bench.home / "acceptance.json").exists()
    assert {item["reason"] for item in ended.report["not_run"]} == {"phase"}
    assert {job.split("-")[3] for job in bench.node.jobs} == {"03"}


def test_a_node_at_work_is_left_in_peace_and_one_that_is_broken_is_unknown(bench):
    bench.node.answer("states", "worker0 idle none\nworker1 mixed none\n")
    ended = bench.run("--level", "smoke")
    assert ended.status == 0
    busy = [check for check in ended.report["checks"] if check["node"] == "worker1" and "node_takes_jobs" not in check["id"]]
    assert {(check["verdict"], check["reason"]) for check in busy} <= {("skipped", "node-busy"), ("skipped", "simulated-hardware")}
    assert json.loads(
        (bench.node.mount / "validation/results" / f"infra-smoke-{ended.report['run']}" / "03-task-placement/meta.json").read_text()
    )["left_out"] == {"worker1": "mixed none"}

    bench.node.answer("states", "worker0 idle none\nworker1 drained disk\n")
    ended = bench.run("--level", "smoke", "--keep-going")
    assert ended.status == 3
    assert ended.verdicts("slurm_health")["node_takes_jobs[worker1]"] == "failed"
    assert {check["reason"] for check in ended.report["checks"] if check["verdict"] == "unknown"} == {"node not usable: drained disk"}


def test_a_file_system_that_takes_nothing_where_jobs_are_sent_fails_and_results_stay_here(bench):
    (bench.node.mount / "validation").write_text("in the way")
    ended = bench.run("--phase", "shared_file_system")
    assert ended.status == 1
    assert ended.verdicts("shared_file_system")["folder_is_made[login0]"] == "failed"
    assert ended.report["results"].startswith(str(bench.home))


def test_an_interrupted_run_cancels_its_jobs_and_no_others(bench):
    """The stand-in's job that meets another one waits: there the run is interrupted."""
    (bench.node.tools / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (bench.node.folder / "jobs" / "somebodys").write_text("1")
    child = subprocess.Popen(bench.command("--level", "smoke"), env=bench.node.environment, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any("04-gpu" in job for job in bench.node.jobs) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=40) == 3
    cancelled = set((bench.node.folder / "cancelled").read_text().split())
    assert cancelled and all(name.startswith("rackwright-") for name in cancelled)
    report = json.loads((bench.home / "acceptance.json").read_text())
    assert {check["verdict"] for check in report["checks"] if check["subject"] == "gpu_allocation"} <= {"unknown", "skipped"}
    assert any("interrupted" in check["reason"] for check in report["checks"])
    assert {check["verdict"] for check in report["checks"] if check["subject"] == "task_placement"} <= {"passed"}


def test_a_killed_run_cancels_its_jobs_too(bench):
    (bench.node.tools / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    child = subprocess.Popen(bench.command("--level", "smoke"), env=bench.node.environment, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any("04-gpu" in job for job in bench.node.jobs) and time.monotonic() < deadline:
        time.sleep(0.1)
    child.kill()
    child.wait()
    while not (bench.node.folder / "cancelled").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (bench.node.folder / "cancelled").exists()
    assert json.loads((bench.home / "acceptance.json").read_text())["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--phase", "gpu-alocation"), "did you mean `gpu_allocation`?"),
        (("--user", "a;b"), "is no user name"),
    ],
)
def test_bad_input_is_said_and_nothing_is_sent(bench, more, words):
    ended = bench.run(*more)
    assert ended.status == 2
    assert words in ended.said
    assert bench.node.jobs == []
