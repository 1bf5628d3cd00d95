"""A complete acceptance against a stand-in for the submitting node: order, verdicts, files, interruption."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, wait_until

from rackwright.checks.acceptance.harness.node_scope import absent
from rackwright.remote.programs import smoke_jobs
from rackwright.report.acceptance import read
from rackwright.report.acceptance_terminal import show_acceptance
from rackwright.yaml_loader import load_yaml

from .conftest import Bench
from .standin import captured

CAPTURED = Path(__file__).parents[2] / "unit" / "acceptance" / "captured"
SMOKE = ("slurm_health", "shared_file_system", "task_placement", "gpu_allocation", "infiniband")


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """Return a run with everything as planned, and its bench."""
    bench = Bench(tmp_path_factory.mktemp("passed"))
    return bench, bench.run("--level", "smoke")


def test_healthy_cluster_passes(passed):
    bench, ended = passed
    assert (ended.status, ended.report["verdict"]) == (0, "passed"), ended.said
    for name in SMOKE:
        assert set(ended.verdicts(name).values()) <= {"passed", "skipped"}, name
        assert ended.phase(name)["verdict"] == "passed"
    assert (bench.home / "acceptance.junit.xml").read_text().count("<testcase") == len(ended.report["checks"])


def test_commands_and_output_are_stored(passed):
    bench, ended = passed
    folder = bench.node.mount / "validation" / "results" / f"infra-smoke-{ended.report['run']}"
    assert ended.report["results"] == str(folder)
    kept = folder / "04-gpu-allocation"
    meta = json.loads((kept / "meta.json").read_text())
    assert (meta["nodes"], meta["left_out"]) == (["worker0", "worker1"], {})
    assert {"kernel", "driver", "python"} == set(meta["versions"]["nodes"]["worker0"])
    assert all(job["status"] == 0 and job["command"][0] == "srun" and job["id"] for job in meta["jobs"])
    assert json.loads((kept / "result.json").read_text())["verdict"] == "passed"
    assert "=== none-gpu-8 (job " in (kept / "stdout").read_text()
    assert {file.name for file in (folder / "programs").iterdir()} == {"task.py", "shell.py", "visible_files.py", "nothing.py"}
    assert not any(file.stat().st_size for file in folder.glob("02-*/part-*/*"))


def test_only_gpu_evidence_is_simulated(passed):
    report = passed[1].report
    evidence = {check["subject"]: check["evidence"] for check in report["checks"]}
    assert (evidence["gpu_allocation"], evidence["task_placement"]) == ("simulated", "real")
    confined = [check for check in report["checks"] if "other_gpus_inaccessible" in check["id"]]
    assert {check["reason"] for check in confined} == {"simulated-hardware"}


def test_acceptance_round_trips_through_its_file(passed):
    bench, ended = passed
    assert read(bench.home / "acceptance.json").as_dict() == ended.report


def test_terminal_shows_every_phase_in_eighty_columns(passed):
    console = Console(width=80, file=io.StringIO(), color_system=None)
    show_acceptance(read(passed[0].home / "acceptance.json"), console)
    text = console.file.getvalue()
    assert [line.split("  ")[0] for line in text.splitlines() if line[:2] in {"1 ", "2 ", "3 ", "4 ", "5 "}] == [
        "1 Slurm health",
        "2 Shared file system",
        "3 Task placement",
        "4 GPU allocation",
        "5 InfiniBand presence",
    ]
    assert "simulated" in text and "results in" in text


def test_phase_outside_plan_is_skipped(bench):
    handed_over = load_yaml((bench.home / "inventory.yml").read_text())
    handed_over["all"]["vars"]["fabric"] = None
    (bench.home / "inventory.yml").write_text(yaml.safe_dump(handed_over))
    phase = bench.run("--phase", "infiniband", "--phase", "slurm-health").phase("infiniband")
    assert (phase["state"], phase["verdict"], phase["reason"]) == ("skipped", "skipped", "not-in-plan")


def test_lost_gpu_fails_with_node_and_remedy(bench):
    bench.node.answer("gpus-worker1", captured("gpus", "lost"))
    ended = bench.run("--level", "smoke")
    assert ended.status == 1
    wrong = [check for check in ended.report["checks"] if check["verdict"] == "failed"]
    assert [check["id"] for check in wrong] == ["gpu_allocation.all_gpus_answer[worker1]"]
    assert (wrong[0]["expected"], wrong[0]["found"]) == ("8 GPUs", "7 GPUs")
    assert "drain worker1" in wrong[0]["remedy"]


def test_failed_phase_stops_later_phases(bench):
    bench.node.answer("mounts-worker1", bench.node.folder.joinpath("mounts-worker0").read_text().replace("fuse mfs", "fuse other"))
    ended = bench.run("--level", "smoke")
    assert ended.status == 1
    assert ended.verdicts("shared_file_system")["is_mounted[worker1]"] == "failed"
    assert [ended.phase(name)["state"] for name in SMOKE] == ["ran", "ran", "not-run", "not-run", "not-run"]
    assert ended.phase("task_placement")["reason"] == "phase 2 (Shared file system) did not pass"
    assert {item["reason"] for item in ended.report["not_run"] if item["id"].startswith("gpu_allocation.")} == {"stopped"}
    assert not any("task-placement" in job for job in bench.node.jobs)


def test_single_phase_gives_no_cluster_verdict(bench):
    ended = bench.run("--phase", "task-placement")
    assert ended.status == 0
    assert not (bench.home / "acceptance.json").exists()
    assert {item["reason"] for item in ended.report["not_run"]} == {"phase"}
    assert {job.split("-")[3] for job in bench.node.jobs} == {"03"}


def test_busy_node_is_skipped_and_broken_node_unknown(bench):
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


@pytest.mark.parametrize(
    ("state", "queue", "private", "free"),
    [
        ("mixed none", "", "none", True),  # slurmctld reported the state for 15 s after the last job had ended
        ("mixed none", "12 COMPLETED\n13 CANCELLED\n", "none", True),
        ("mixed none", "12 COMPLETED\n13 RUNNING\n", "none", False),
        ("mixed none", "", "jobs", False),  # another user's job is not listed
        ("planned none", "", "none", True),  # until the next backfill
        ("planned none", "14 PENDING\n", "none", False),
        ("completing none", "", "none", False),
        ("mixed disk", "", "none", False),
    ],
)
def test_node_with_running_job_is_busy(monkeypatch, state, queue, private, free):
    says = {"sinfo": f"worker1 {state}\n", "scontrol": f"PluginDir = /usr\nPrivateData             = {private}\n", "squeue": queue}
    monkeypatch.setattr(smoke_jobs, "run", lambda argv, limit: (0, says[argv[0]], ""))
    assert (smoke_jobs.states(["worker1"]) == {"worker1": "idle none"}) is free


@pytest.mark.parametrize(
    ("state", "busy", "verdict", "reason"),
    [
        ("mixed none", {"worker1"}, "skipped", "node-busy"),
        ("completing none", {"worker1"}, "skipped", "node-busy"),
        ("mixed none", set(), "skipped", "node-busy"),  # another user's job started meanwhile
        ("completing none", set(), "unknown", "node not usable: completing"),
        ("drained disk", {"worker1"}, "unknown", "node not usable: drained disk"),
    ],
)
def test_completing_node_is_not_skipped(state, busy, verdict, reason):
    assert absent({"worker1": state}, "worker1", busy) == (verdict, reason)


@pytest.mark.parametrize(
    ("seen", "seconds", "completing", "looks"),
    [
        (["completing none"] * 3 + ["idle none"], 0, 60, 4),
        (["completing none"] * 3 + ["mixed none"] * 9, 0, 60, 4),
        (["mixed none"] * 9, 0, 60, 1),
        (["completing none"] * 9, 0, 0, 1),
        (["mixed none", "idle none"], 60, 0, 2),
    ],
)
def test_run_waits_longer_for_completing_node(monkeypatch, seen, seconds, completing, looks):
    told = iter(seen)
    asked = []
    monkeypatch.setattr(smoke_jobs, "states", lambda nodes: asked.append(nodes) or {"worker0": "idle none", "worker1": next(told)})
    monkeypatch.setattr(smoke_jobs.time, "sleep", lambda _: None)
    assert smoke_jobs.wait_for_idle(["worker0", "worker1"], seconds, completing)["worker1"] == seen[looks - 1]
    assert len(asked) == looks


def test_read_only_file_system_keeps_results_locally(bench):
    (bench.node.mount / "validation").write_text("in the way")
    ended = bench.run("--phase", "shared_file_system")
    assert ended.status == 3
    assert ended.verdicts("shared_file_system")["directory_created[login0]"] == "failed"
    assert ended.report["results"].startswith(str(bench.home))


def _interruptible() -> None:
    """Reset SIGINT to its default: background shells set it to ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_run_cancels_only_its_jobs(bench, ending):
    """A hanging job blocks the run, which is then interrupted."""
    (bench.node.tools / "nvidia-smi").write_text(
        f'#!/bin/sh\ncase "$*" in *=driver_version*) echo 580.173.02;; *) exec sleep {ENDLESS_SECONDS};; esac\n'
    )
    (bench.node.folder / "jobs" / "somebodys").write_text("1")
    command = bench.command("--phase", "gpu-allocation")
    child = subprocess.Popen(command, env=bench.environment, stdout=subprocess.PIPE, text=True, preexec_fn=_interruptible)
    wait_until(lambda: any("-all-" in job for job in bench.node.jobs))
    child.send_signal(ending)
    status = child.wait(timeout=HANG_SECONDS)
    cancelled = bench.node.folder / "cancelled"
    wait_until(lambda: cancelled.exists() and cancelled.read_text())
    assert {name.split("-")[0] for name in cancelled.read_text().split()} == {"rackwright"}
    report = json.loads((bench.home / "acceptance.partial.json").read_text())
    assert report["verdict"] == "unknown" and report["totals"]["passed"] == 0
    if ending == signal.SIGINT:
        assert status == 3 and any("interrupted" in check["reason"] for check in report["checks"])


FIO = """#!/bin/sh
case "$*" in *randread*) moved='"read": {"io_bytes": 4096, "iops": 900.5}';;
*) moved='"write": {"io_bytes": 4096, "iops": 500.5}, "read": {"io_bytes": 4096, "iops": 700}';; esac
cat << END
fio: a message
{
"fio version": "fio-3.33", "jobs": [{"jobname": "io", "error": ${FAULT:-0}, $moved}]}
END
"""
MPIRUN = '#!/bin/sh\ncp "$STANDIN/hpccoutf" hpccoutf.txt\n'


@pytest.fixture
def declared(bench):
    """Return a bench whose plan has fio and HPCC, with stand-ins for both."""
    file = bench.home / "inventory.yml"
    plan = load_yaml(file.read_text())
    plan["all"]["vars"]["node_stack"]["tools"] = ["fio", "hpcc"]
    for host in plan["all"]["hosts"].values():
        host["node"]["features"] = ["tools"]
    file.write_text(yaml.safe_dump(plan))
    for name, text in (("fio", FIO), ("mpirun", MPIRUN), ("hpcc", "#!/bin/sh\n")):
        (bench.node.tools / name).write_text(text)
        (bench.node.tools / name).chmod(0o755)
    bench.node.answer("hpccoutf", (CAPTURED / "hpcc" / "good.txt").read_text())
    return bench


def test_declared_benchmarks_run_and_are_recorded(declared):
    """HPCC's output is longer than a line of srun."""
    ended = declared.run("--phase", "file-io", "--phase", "hpcc")
    assert (ended.status, set(ended.verdicts("file_io").values()), set(ended.verdicts("hpcc").values())) == (0, {"passed"}, {"passed"}), (
        ended.said
    )
    measured = {one["name"]: one["value"] for one in ended.phase("file_io")["measurements"] if one["node"] == "worker1"}
    assert measured == {"storage-random-write": 500.5, "storage-random-read": 900.5}
    evidence = {check["subject"]: check["evidence"] for check in ended.report["checks"]}
    assert evidence == {"file_io": "real", "hpcc": "simulated"}
    assert not any(part.name.startswith("rackwright-io-") for part in declared.node.mount.rglob("*"))


def test_declared_benchmarks_report_faults(declared):
    (declared.node.tools / "fio").write_text(FIO.replace("${FAULT:-0}", "84"))
    declared.node.answer("hpccoutf", (CAPTURED / "hpcc" / "good.txt").read_text().replace("Success=1", "Success=0"))
    ended = declared.run("--keep-going", "--phase", "file-io", "--phase", "hpcc")
    assert ended.verdicts("file_io")["blocks_are_right[worker0]"] == "failed" and ended.status == 3
    assert ended.verdicts("hpcc")["results_are_right[worker1]"] == "failed"


def test_undeclared_benchmarks_are_skipped(bench):
    ended = bench.run("--phase", "file-io", "--phase", "hpcc")
    assert {ended.phase(name)["reason"] for name in ("file_io", "hpcc")} == {"not-in-plan"} and bench.node.jobs == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--phase", "gpu-alocation"), "did you mean `gpu_allocation`?"),
        (("--user", "a;b"), "is not a user name"),
    ],
)
def test_bad_input_is_reported_and_submits_nothing(bench, more, words):
    ended = bench.run(*more)
    assert ended.status == 2
    assert words in ended.said
    assert bench.node.jobs == []
