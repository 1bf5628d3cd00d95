"""Samples of processes: which are ranks of a job, what they wait for, and readings of GPUs; processes are real or files of a /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.remote.programs import job_samples, process_samples
from rackwright.remote.programs.process_samples import identify, leaders, sample

STAT = "{pid} ({name}) {state} {parent} 1 1 0 -1 0 0 0 0 0 {cpu} 0 {reaped} 0 20 0 1 0 {started} 0 0"
Start = Callable[..., int]


class Proc:
    """Files of a /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        pid: int,
        *,
        parent: int = 1,
        cpu: float = 9.0,
        reaped: float = 0.0,
        state: str = "S",
        wchan: str = "futex_do_wait",
        **environ: str,
    ) -> None:
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        text = STAT.format(
            pid=pid,
            name="python3 (a) b",
            state=state,
            parent=parent,
            cpu=round(cpu * process_samples.TICKS),
            reaped=round(reaped * process_samples.TICKS),
            started=pid,
        )
        (folder / "stat").write_text(text)
        (folder / "wchan").write_text(wchan)
        (folder / "environ").write_text("\0".join(f"{key}={value}" for key, value in environ.items()))

    def group(self, pid: int, text: str) -> None:
        (self.folder / str(pid) / "cgroup").write_text(text)

    def leaders(self, *pids: int) -> dict[int, list[int]]:
        found = {pid: one for pid in pids if (one := identify(pid, ["7"], str(self.folder)))}
        return leaders(found, str(self.folder))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program of Python with an environment, and end it after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def begin(program: str, **environment: str) -> int:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", f"print(1, flush=True); {program}"], env=environment, stdout=subprocess.PIPE
        )
        children.append(child)
        assert child.stdout is not None and child.stdout.readline()
        return child.pid

    yield begin
    for child in children:
        child.kill()
        child.communicate()


TORCH = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "WORLD_SIZE": "2"}


def test_rank_of_torchrun_precedes_task_of_srun(proc: Proc) -> None:
    proc.add(10, SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2")
    proc.add(11, parent=10, **TORCH, RANK="1")
    task, rank = (identify(pid, ["7"], str(proc.folder)) for pid in (10, 11))
    assert task is not None and (task.source, task.rank, task.size) == ("SLURM_PROCID", 1, 2)
    assert rank is not None and (rank.source, rank.rank, rank.size) == ("RANK", 1, 2)
    assert identify(12, ["7"], str(proc.folder)) is None and identify(11, ["8"], str(proc.folder)) is None


@pytest.mark.parametrize(
    ("group", "job", "step"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_3/user/task_0\n", "7", "3"),
        ("4:freezer:/slurm/uid_2001/job_7/step_batch/task_0\n1:name=systemd:/x\n", "7", "batch"),
        ("0::/user.slice\n", "6", "extern"),
    ],
)
def test_control_group_precedes_environment(proc: Proc, group: str, job: str, step: str) -> None:
    proc.add(10, SLURM_JOB_ID="6", SLURM_STEP_ID="4294967292", RANK="0")
    proc.group(10, group)
    found = identify(10, ["6", "7"], str(proc.folder))
    assert found is not None and (found.job, found.step) == (job, step)


def test_batch_script_is_no_rank(proc: Proc) -> None:
    proc.add(10, SLURM_JOB_ID="7", SLURM_PROCID="0")
    found = identify(10, ["7"], str(proc.folder))
    assert found is not None and (found.step, found.rank, found.source) == ("batch", None, "")


def test_data_loaders_are_no_ranks(proc: Proc) -> None:
    proc.add(10, **TORCH, RANK="0")
    proc.add(11, parent=10, cpu=99.0, **TORCH, RANK="0")
    proc.add(12, parent=11, **TORCH, RANK="0")
    proc.add(13, parent=1, **TORCH, RANK="1")
    assert proc.leaders(10, 11, 12, 13) == {10: [10, 11, 12], 13: [13]}


def test_wrapper_is_passed_over(proc: Proc) -> None:
    """A shell, a container runtime below it, and the program with a helper."""
    proc.add(10, cpu=0.01, **TORCH, RANK="0")
    proc.add(11, parent=10, cpu=0.4, **TORCH, RANK="0")
    proc.add(12, parent=11, cpu=30.0, **TORCH, RANK="0")
    proc.add(13, parent=11, cpu=0.1, **TORCH, RANK="0")
    assert list(proc.leaders(10, 11, 12, 13)) == [12]


def test_process_that_waits_for_child_is_passed_over(proc: Proc) -> None:
    """A script that has run for long, and the program that it started last."""
    proc.add(10, cpu=5.0, wchan="do_wait", SLURM_JOB_ID="7")
    proc.add(11, parent=10, cpu=0.0, wchan="request_wait_answer", SLURM_JOB_ID="7")
    assert list(proc.leaders(10, 11)) == [11]


def test_waits_are_counted_by_state_and_name(proc: Proc) -> None:
    proc.add(10, **TORCH, RANK="0")
    proc.add(11, **TORCH, RANK="1", state="D", wchan="0")
    (first, second) = sample([10, 11], {"jobs": ["7"], "seconds": 0.02, "samples": 4}, str(proc.folder))["ranks"]
    assert (first["waits"], first["samples"], first["command"]) == ({"S futex_do_wait": 4}, 4, "python3 (a) b")
    assert second["waits"] == {"D ?": 4}, "0 is what the kernel shows to a reader without rights"
    assert (first["run_delay"], first["read"], first["members"]) == (None, None, [10])


def test_process_id_that_is_used_again_is_another_process(proc: Proc) -> None:
    proc.add(10, **TORCH, RANK="0")
    process = identify(10, ["7"], str(proc.folder))
    assert process is not None
    watch = process_samples.Watch(process, [10], str(proc.folder))
    watch.sample()
    stat = proc.folder / "10" / "stat"
    stat.write_text(stat.read_text().replace(" 10 0 0", " 99 0 0"))
    watch.sample()
    watch.sample()
    assert (watch.result()["samples"], watch.result()["ended"]) == (1, True)


def test_cpu_time_of_ended_children_counts(proc: Proc) -> None:
    proc.add(10, cpu=1.0, SLURM_JOB_ID="7")
    proc.add(11, SLURM_JOB_ID="7")
    found = {pid: one for pid in (10, 11) if (one := identify(pid, ["7"], str(proc.folder)))}
    proc.add(10, cpu=1.5, reaped=0.25, SLURM_JOB_ID="7")
    (proc.folder / "11" / "stat").unlink()
    totals = process_samples.totals(found, 2.0, str(proc.folder))
    assert totals == {"7": {"processes": 1, "ended": 1, "cpu": 0.75, "seconds": 2.0, "stopped": []}}


def run(jobs: dict[str, int], **more: Any) -> dict[str, Any]:
    return job_samples.main({"jobs": jobs, "seconds": 1.0, "samples": 20, "gpus": False, **more})


def wait_for_state(pid: int, state: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        os.sched_yield()


def test_real_processes_are_sampled(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sleeps, one that is stopped, one that ends, and one of a job that is not asked for."""
    sleeps = start("import time; time.sleep(600)", **TORCH, RANK="0")
    stopped = start("import time; time.sleep(600)", **TORCH, RANK="1")
    ends = start("import time; time.sleep(600)", **TORCH, RANK="2")
    start("import time; time.sleep(600)", SLURM_JOB_ID="8", RANK="0")
    os.kill(stopped, signal.SIGSTOP)
    wait_for_state(stopped, "T")
    wait_for_state(sleeps, "S")
    clock = [0.0]

    def advance(seconds: float) -> None:
        clock[0] += seconds
        if 0.45 < clock[0] < 0.55:
            os.kill(ends, signal.SIGKILL)
            wait_for_state(ends, "Z")

    monkeypatch.setattr(process_samples, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=advance))
    answer = run({"7": os.getuid()})
    found = {one["pid"]: one for one in answer["ranks"]}
    assert set(found) == {sleeps, stopped, ends} and answer["errors"] == []
    assert {seen[0] for seen in found[sleeps]["waits"]} == {"S"} and {seen[0] for seen in found[stopped]["waits"]} == {"T"}
    assert found[ends]["ended"] and found[ends]["samples"] == 10 and found[sleeps]["samples"] == 20
    assert answer["jobs"]["7"]["stopped"] == [stopped] and (answer["jobs"]["7"]["processes"], answer["jobs"]["7"]["ended"]) == (2, 1)
    assert answer["gpu_error"] == "" and not answer["apps"]
    assert answer["network"] is None or answer["network"] >= 0


def test_processes_of_other_users_are_not_read(start: Start) -> None:
    """A user may name any job in the environment."""
    start("import time; time.sleep(60)", **TORCH, RANK="0")
    assert run({"7": os.getuid() + 1})["ranks"] == []
    assert run({"7": os.getuid() + 1, "9": os.getuid()})["ranks"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the identity of another user")
def test_child_has_identity_of_user() -> None:
    def ids() -> list[Any]:
        return [os.getresuid(), os.getresgid(), os.getgroups()]

    def with_groups() -> Any:
        os.setgroups([3, 4])
        return job_samples.finish(*job_samples.start_as(2001, 2002, ids))

    assert job_samples.finish(*job_samples.start_as(0, 0, with_groups)) == [[2001] * 3, [2002] * 3, []]


def test_child_that_fails_or_is_killed_has_a_reason() -> None:
    def fail() -> None:
        raise PermissionError(1, "Operation not permitted")

    assert "Operation not permitted" in job_samples.finish(*job_samples.start_as(os.getuid(), os.getgid(), fail))["error"]
    child, pipe = job_samples.start_as(os.getuid(), os.getgid(), lambda: time.sleep(60))
    os.kill(child, signal.SIGKILL)
    assert job_samples.finish(child, pipe) == {"error": "the process that samples was ended"}


SMI = """#!/bin/sh
case "$*" in
*--query-gpu=*) echo 'GPU-a, 0, 100, 130.25, 700.00'; echo 'GPU-b, 1, [N/A], [N/A], [N/A]';;
*--query-compute-apps=*) echo "$RANK_PID, GPU-a";;
esac
"""


def smi(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nvidia-smi").write_text(text)
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_gpus_are_read_with_their_ranks(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = start("import time; time.sleep(60)", **TORCH, RANK="0")
    monkeypatch.setenv("RANK_PID", str(pid))
    smi(tmp_path, SMI, monkeypatch)
    answer = run({"7": os.getuid()}, gpus=True, seconds=0.1)
    assert answer["ranks"][0]["gpus"] == ["GPU-a"] and "members" not in answer["ranks"][0]
    first, second = answer["gpus"]
    assert first == {"uuid": "GPU-a", "index": "0", "busy": [100.0] * 3, "power": [130.25] * 3, "limit": 700.0}
    assert (second["busy"], second["limit"], answer["apps"], answer["gpu_error"]) == ([None] * 3, None, True, "")


def test_failing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n", monkeypatch)
    answer = run({}, gpus=True, seconds=0.1)
    assert "version mismatch" in answer["gpu_error"] and not answer["apps"]


ROWS = "case \"$*\" in *--query-gpu=*) echo 'GPU-a, 0, 100, 130.25, 700.00';; esac"


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("Unable to determine the device handle for GPU0000:4D:00.0: Unknown Error", 255, "GPU0000:4D:00.0"),
        ("WARNING: infoROM is corrupted at gpu 0000:4D:00.0", 14, ""),
    ],
)
def test_lost_gpu_hides_no_other(line: str, status: int, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, f"#!/bin/sh\n{ROWS}\necho '{line}'; exit {status}\n", monkeypatch)
    answer = run({}, gpus=True, seconds=0.1)
    assert [gpu["uuid"] for gpu in answer["gpus"]] == ["GPU-a"]
    assert error in answer["gpu_error"] and bool(answer["gpu_error"]) == bool(error)


def test_counters_are_summed(tmp_path: Path) -> None:
    for name, text in (("net/eth0/tx", "5"), ("net/lo/tx", "70"), ("net/eth1/tx", "nothing")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert job_samples.counted((f"{tmp_path}/net/*/tx",)) == 5
    assert job_samples.counted((f"{tmp_path}/infiniband/*/tx",)) is None
