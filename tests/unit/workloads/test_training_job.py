"""The batch script, run by a real bash with stand-ins for Slurm's commands: ends, restarts, its limit, and two jobs for one attempt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rackwright.workloads.training_job import TASK, TrainingJob, program_files, render, run_files

STANDINS = {
    "scontrol": 'case $1 in show) echo worker0; echo worker1 ;; *) echo "$*" >> "$HOME/scontrol" ;; esac',
    "sbatch": 'echo "$*" >> "$HOME/sbatch"; env > "$HOME/sbatch-environment"; exit "$(cat "$HOME/sbatch-status" 2>/dev/null || echo 0)"',
    # Two tasks, as on two nodes. The second one does not end if its node is lost. A lost node does not run `true` either.
    "srun": """while [ "${1#-}" != "$1" ]; do options="${options-} $1"; shift; done
if [ "$1" = true ]; then
    echo "$options" >> "$HOME/probes"
    [ ! -e "$HOME/returns" ] || [ "$(wc -l < "$HOME/probes")" -lt 3 ] || { rm -f "$HOME/lost"; echo 0 > "$HOME/status"; }
    [ ! -e "$HOME/lost" ]; exit $?
fi
echo "$options $*" > "$HOME/srun"
[ ! -e "$HOME/time-is-up" ] || { kill -USR1 "$PPID"; exec /bin/sleep 600; }
SLURM_PROCID=0 "$@"; first=$?
[ ! -e "$HOME/lost" ] || exec /bin/sleep 600
SLURM_PROCID=1 "$@" && exit "$first"
""",
    "sleep": "exec /bin/sleep 0.02",  # the script looks every second
    "squeue": "echo 7.batch; echo 7.0",
    "scancel": 'echo "$*" >> "$HOME/scancel"',
    "sinfo": 'cat "$HOME/idle" 2>/dev/null',
    "ip": "echo '2: eth7    inet 10.78.0.24/24 scope global eth7'",
}
LAUNCHER = """echo "$GLOO_SOCKET_IFNAME" >> "$HOME/ranks"
[ -e "$HOME/broken" ] || : >> "$HOME/run/events-${RUN_FOLDER##*-}.jsonl"
if [ -e "$HOME/saves" ]; then
    echo '{"event": "checkpoint", "step": 40}' >> "$HOME/run/events-${RUN_FOLDER##*-}.jsonl"
    [ "${RUN_FOLDER##*-}" -lt 6 ] || echo 0 > "$HOME/status"
fi
exit "$(cat "$HOME/status")"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a home folder with a run, and stand-ins that record how they were called."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "run").mkdir()
    for name, text in {**STANDINS, "launcher": LAUNCHER}.items():
        file = tmp_path / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    (tmp_path / "status").write_text("0")
    return tmp_path


def job(cluster: Path, **more: Any) -> TrainingJob:
    """Return a job whose interpreter is a stand-in, too."""
    defaults: dict[str, Any] = {"gpus_per_node": 0, "mode": "ddp", "steps": 200, "batch": 16, "restarts": 2}
    return TrainingJob(
        name="rackwright-train-1",
        run=str(cluster / "run"),
        python=str(cluster / "bin/launcher"),
        partition="main",
        nodes=2,
        ranks_per_node=1,
        network="10.78.0.0/24",
        **{**defaults, **more},
    )


def run_script(cluster: Path, attempt: int = 0, *, restarted: int = 0) -> int:
    """Run the batch script as Slurm does; return its exit status."""
    for path, text in run_files(job(cluster)).items():
        (cluster / "run" / path).parent.mkdir(parents=True, exist_ok=True)
        (cluster / "run" / path).write_text(text)
    environment = {
        "PATH": f"{cluster / 'bin'}:{os.environ['PATH']}",
        "HOME": str(cluster),
        "USER": "alice",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "worker[0-1]",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_NNODES": "2",
        **({"SLURM_RESTART_COUNT": str(restarted)} if restarted else {}),
    }
    return subprocess.run(["bash", str(cluster / "run/job.sh"), str(attempt)], env=environment, check=False, timeout=120).returncode


def events(cluster: Path) -> list[tuple[str, str]]:
    """Return (attempt, event) of the lines that the script wrote."""
    lines = [json.loads(line) for line in (cluster / "run/jobs.jsonl").read_text().splitlines()]
    assert all(line["job"] == "7" and line["nodes"] == "worker[0-1]" and line["time"] > 1e9 for line in lines)
    return [(line["attempt"], line["event"]) for line in lines]


def called(cluster: Path, command: str) -> str:
    """Return the arguments with which a stand-in was called."""
    file = cluster / command
    return file.read_text().strip() if file.exists() else ""


def test_completed_step_ends_run(cluster: Path) -> None:
    assert run_script(cluster) == 0
    assert events(cluster) == [("0", "begin"), ("0", "end")]
    assert called(cluster, "sbatch") == "" and called(cluster, "ranks").split() == ["eth7", "eth7"]
    assert "--rdzv-endpoint=worker0:29500 --rdzv-id=7.0" in called(cluster, "srun")


def lose_node(cluster: Path, *, idle: str = "", returns: bool = False) -> None:
    """Let the launcher on the other node fail, and the second node run nothing any more, for good or until it is probed three times."""
    (cluster / "status").write_text("1")
    (cluster / "lost").write_text("")
    (cluster / "idle").write_text(idle)
    if returns:
        (cluster / "returns").write_text("")


def test_lost_node_with_idle_one_submits_next_attempt(cluster: Path) -> None:
    """srun would wait for the lost node's task; the script ends it. `run_script` has a time limit far below that of the stand-in."""
    lose_node(cluster, idle="worker2")
    assert run_script(cluster, 1) == 1
    assert events(cluster) == [("1", "begin"), ("1", "failed")]
    assert called(cluster, "sbatch") == f"--parsable {cluster}/run/job.sh 2" and called(cluster, "scontrol") == ""
    assert "SLURM_" not in called(cluster, "sbatch-environment"), "the next job inherits settings of this one"
    assert called(cluster, "scancel") == "--quiet --signal=KILL 7.0", "ranks that a lost node may still run"


def test_returned_node_continues_in_same_job(cluster: Path) -> None:
    """A new job would wait until Slurm has cleaned up the old one on the lost node."""
    lose_node(cluster, returns=True)
    assert run_script(cluster) == 0
    assert events(cluster) == [("0", "begin"), ("0", "failed"), ("1", "begin"), ("1", "end")]
    assert called(cluster, "sbatch") == "" and "--rdzv-id=7.1" in called(cluster, "srun")


def test_refused_submission_requeues_job(cluster: Path) -> None:
    lose_node(cluster, idle="worker2")
    (cluster / "sbatch-status").write_text("1")
    assert run_script(cluster) == 1
    assert called(cluster, "scontrol") == "requeue 7"


def test_attempts_are_limited(cluster: Path) -> None:
    (cluster / "status").write_text("1")
    assert run_script(cluster) == 1
    assert events(cluster)[-2:] == [("2", "failed"), ("2", "gave-up")] and called(cluster, "sbatch") == ""


def test_attempts_that_save_checkpoints_are_not_limited(cluster: Path) -> None:
    """A run of a week loses more nodes than one of an hour."""
    (cluster / "status").write_text("1")
    (cluster / "saves").write_text("")
    assert run_script(cluster) == 0
    assert events(cluster)[-3:] == [("5", "failed"), ("6", "begin"), ("6", "end")]


def test_next_attempt_is_submitted_before_the_time_limit(cluster: Path) -> None:
    (cluster / "time-is-up").write_text("")
    assert run_script(cluster, 1) == 1
    assert events(cluster) == [("1", "begin"), ("1", "time-limit")]
    assert called(cluster, "sbatch").endswith("job.sh 2") and called(cluster, "probes") == ""
    assert called(cluster, "scancel") == "--quiet --signal=KILL 7.0"


@pytest.mark.parametrize(("minutes", "signalled"), [(60, True), (2, False)])
def test_script_is_signalled_before_its_end_where_time_is_left(cluster: Path, minutes: int, signalled: bool) -> None:
    assert ("#SBATCH --signal=B:USR1@60\n" in render(job(cluster, minutes=minutes))) is signalled


def test_attempt_without_step_is_repeated_in_new_job(cluster: Path) -> None:
    (cluster / "status").write_text("1")
    (cluster / "broken").write_text("")
    assert run_script(cluster) == 1
    assert called(cluster, "sbatch").endswith("job.sh 1") and called(cluster, "probes") == ""


def test_attempt_runs_once(cluster: Path) -> None:
    assert run_script(cluster, 1) == 0
    assert run_script(cluster, 1) == 0
    assert events(cluster) == [("1", "begin"), ("1", "end"), ("1", "superseded")]


def test_requeued_job_takes_next_attempt(cluster: Path) -> None:
    """Slurm lost the node that runs the script."""
    assert run_script(cluster) == 0
    assert run_script(cluster, restarted=1) == 0
    assert events(cluster)[2:] == [("1", "begin"), ("1", "end")]


def test_requeued_job_with_successor_ends(cluster: Path) -> None:
    lose_node(cluster, idle="worker2")
    assert run_script(cluster) == 1
    assert run_script(cluster, restarted=1) == 0
    assert events(cluster)[-1] == ("0", "superseded")


def test_script_requests_gpus_only_where_they_are_real(cluster: Path) -> None:
    assert "gpus-per-node" not in render(job(cluster)) and "OMP_NUM_THREADS" in render(job(cluster))
    real = render(job(cluster, gpus_per_node=8))
    assert "#SBATCH --gpus-per-node=8" in real and "OMP_NUM_THREADS" not in real


def test_scripts_are_valid(cluster: Path) -> None:
    for text, shell in ((render(job(cluster)), "bash"), (TASK, "sh")):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_program_is_importable_alone(tmp_path: Path) -> None:
    """Nodes have the files of the folder and nothing else of the product."""
    for path, text in program_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    code = (
        "import rackwright; from rackwright.workloads.training import batches, manifest; print(rackwright.__file__, batches.batch_size(3))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{tmp_path}/rackwright/__init__.py", "18"]
