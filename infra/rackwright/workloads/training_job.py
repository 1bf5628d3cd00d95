"""The batch job of a training run on Slurm: its script, and the program that it starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

PACKAGE: Final = "rackwright.workloads.training"
PORT: Final = 29500
"""Port of the rendezvous, torchrun's default (PyTorch's documentation of torchrun)."""
_PARENTS: Final = ("rackwright", "rackwright/workloads")
_WARNING_S: Final = 60
"""Seconds before the time limit at which Slurm signals the script; it signals up to 60 s earlier (sbatch(1), --signal)."""


@dataclass(frozen=True)
class TrainingJob:
    """What the script and the program get; all paths are those of nodes."""

    name: str
    """Name of all jobs of the run; no other run has it."""
    run: str
    """Folder of the run on the shared file system."""
    python: str
    """Interpreter with PyTorch."""
    partition: str
    nodes: int
    ranks_per_node: int
    gpus_per_node: int
    """GPUs that the job requests; 0 trains on CPUs."""
    network: str
    """CIDR of the nodes' addresses, by which each node finds the interface for gloo."""
    mode: str
    steps: int
    batch: int
    seed: int = 1
    every: int = 40
    """Steps between two checkpoints."""
    keep: int = 3
    """Checkpoints that are kept."""
    restarts: int = 5
    """Attempts in a row without a new checkpoint, after the first of them: a run that goes forward is not given up. On Kubernetes, JobSet
    counts all attempts."""
    timeout_s: int = 60
    """Seconds that a rank waits for the others before it fails."""
    join_timeout_s: int = 20
    """Seconds that torchrun waits for a node before the step fails."""
    patience_s: int = 300
    """Seconds that a job keeps its nodes while it waits for a lost one and no other is idle."""
    minutes: int = 60
    """Time limit of a job. The next attempt is submitted before it ends. On Kubernetes, each attempt has the limit."""


def run_files(job: TrainingJob) -> dict[str, str]:
    """Return all files of a run's folder by their path: scripts, and the training program below `program`, which PYTHONPATH names."""
    return {"job.sh": render(job), "task.sh": TASK, **program_below_run()}


def program_below_run() -> dict[str, str]:
    """Return the texts of the training program by their path in a run's folder."""
    return {f"program/{path}": text for path, text in program_files().items()}


def program_files() -> dict[str, str]:
    """Return the texts of the training program by their path, with empty packages above it."""
    folder = files(PACKAGE)
    sources = {one.name: one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".py")}
    # The packages above hold code of the product, which nodes do not have.
    parents = {f"{parent}/__init__.py": "" for parent in _PARENTS}
    return parents | {f"{PACKAGE.replace('.', '/')}/{name}": text for name, text in sorted(sources.items())}


def render(job: TrainingJob) -> str:
    """Return the batch script. Its argument is the number of its first attempt.

    Shortly before the job's time limit the script ends the step and submits the next attempt, which resumes from the newest checkpoint.

    A step has failed when the launcher on one node has. The script does not wait for srun, which waits for the tasks of a lost node for
    KillWait + 2 s (step_launch.c). If all nodes respond, or respond again while no other node is idle, the next attempt runs in the same
    job. Otherwise the script submits a new job: a requeued one has to wait for the lifetime of a credential, 121 s by default
    (slurm.conf(5), cred_expire; batch_requeue_fini in job_mgr.c). `--requeue` remains for the loss of the node that runs the script.
    """
    parts = (
        *_head(job),
        *RECORD.format(run=shlex.quote(job.run)).splitlines(),
        *_BEGIN.splitlines(),
        *_environment(job),
        *_functions(job),
        *_end(job),
    )
    return "\n".join(parts) + "\n"


def _head(job: TrainingJob) -> Iterator[str]:
    more = {"gpus-per-node": str(job.gpus_per_node)} if job.gpus_per_node else {}
    # A shorter limit leaves no time to train after the signal of its end.
    more |= {"signal": f"B:USR1@{_WARNING_S}"} if job.minutes > 2 * _WARNING_S // 60 else {}
    yield from batch_header(job.name, job.run, job.partition, job.nodes, job.minutes, {**more, "requeue": ""})


def batch_header(name: str, run: str, partition: str, nodes: int, minutes: int, more: Mapping[str, str]) -> Iterator[str]:
    """Yield the first lines of a batch script that has its nodes alone. `more`: further options of sbatch, with empty values for flags."""
    yield "#!/bin/bash"
    options = {
        "job-name": name,
        "partition": partition,
        "nodes": str(nodes),
        "ntasks-per-node": "1",
        "exclusive": "",
        "mem": "0",
        "time": str(minutes),
        **more,
        "open-mode": "append",
        "output": f"{run}/output.txt",
        "chdir": run,
    }
    yield from (f"#SBATCH --{name}={value}" if value else f"#SBATCH --{name}" for name, value in options.items())


RECORD: Final = """
set -u
run={run}
attempt=${{1:-0}}
record() {{
    printf '{{"event": "%s", "attempt": "%s", "time": %s, "job": "%s", "nodes": "%s"}}\\n' \\
        "$1" "$attempt" "$(date +%s.%3N)" "$SLURM_JOB_ID" "$SLURM_JOB_NODELIST" >> "$run/jobs.jsonl"
}}
"""
"""Lines of every batch script that writes events."""
_BEGIN: Final = """# Slurm may requeue a job that has submitted its successor.
[ ! -e "$run/succeeded-$SLURM_JOB_ID" ] || { record superseded; exit 0; }
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    while [ -e "$run/attempt-$attempt" ]; do attempt=$((attempt + 1)); done
fi
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
"""
ENVIRONMENT: Final = "export PYTHONPATH=$run/program PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1"
"""Line that lets a node import the program of a run."""


def _environment(job: TrainingJob) -> Iterator[str]:
    yield ENVIRONMENT
    yield f"export NETWORK={shlex.quote(job.network)}"
    if not job.gpus_per_node:
        yield "export OMP_NUM_THREADS=1"


TASK: Final = """#!/bin/sh
# Runs a launcher on each node. A launcher that fails leaves a file, for which the batch script waits.
interface=$(ip -o -4 address show to "$NETWORK" 2>/dev/null | awk '{ print $2; exit }')
[ -z "$interface" ] || export GLOO_SOCKET_IFNAME="$interface"
"$@"
status=$?
[ "$status" = 0 ] || echo "$status" > "$RUN_FOLDER/failed-$SLURM_PROCID"
exit "$status"
"""


def launcher_options(job: TrainingJob) -> tuple[str, ...]:
    """Return the options of the launcher that are the same on every scheduler; the last one is `--rdzv-conf`."""
    return (
        *(f"--nnodes={job.nodes}", f"--nproc-per-node={job.ranks_per_node}", "--max-restarts=3", "--rdzv-backend=c10d"),
        f"--rdzv-conf=join_timeout={job.join_timeout_s}",
    )


def program_options(job: TrainingJob) -> str:
    """Return the options of the training program that are the same in every attempt."""
    program = {
        "mode": job.mode,
        "steps": job.steps,
        "batch": job.batch,
        "seed": job.seed,
        "every": job.every,
        "keep": job.keep,
        "timeout": job.timeout_s,
    }
    return " ".join(f"--{key}={value}" for key, value in program.items())


def _functions(job: TrainingJob) -> Iterator[str]:
    """Yield what starts a step in the background."""
    yield "start_step() {"
    # The step of a lost node is on record until the job ends; --overlap shares its CPUs and GPUs.
    yield '    srun --overlap --kill-on-bad-exit=1 --wait=10 --cpus-per-task="$SLURM_CPUS_ON_NODE" \\'
    yield f'        sh "$run/task.sh" {shlex.quote(job.python)} -m {PACKAGE}.launch {" ".join(launcher_options(job))} \\'
    yield f'        --rdzv-endpoint="$first:{PORT}" --rdzv-id="$SLURM_JOB_ID.$attempt" \\'
    yield f'        -m {PACKAGE}.train --run "$run" --attempt "$attempt" {program_options(job)} &'
    yield "    step=$!"
    yield "}"


_END: Final = """
time_is_up=
trap 'time_is_up=1' USR1
run_step() {{
    start_step
    while kill -0 "$step" 2>/dev/null; do
        if [ -n "$time_is_up" ]; then
            kill -KILL "$step" 2>/dev/null
            break
        fi
        if compgen -G "$RUN_FOLDER/failed-*" > /dev/null; then
            sleep 2
            kill -KILL "$step" 2>/dev/null
            break
        fi
        sleep 1
    done
    wait "$step"
}}
end_steps() {{
    squeue --steps --noheader --job "$SLURM_JOB_ID" --format %i | grep -E '[.][0-9]+$' | xargs -r scancel --quiet --signal=KILL
}}
nodes_respond() {{
    timeout -k 1 10 srun --overlap --ntasks="$SLURM_NNODES" --ntasks-per-node=1 true > /dev/null 2>&1
}}
# Ends with 0 if the next attempt can run here. Idle nodes elsewhere are a better choice than to wait for a lost one.
wait_for_nodes() {{
    local until=$((SECONDS + {patience}))
    while ! nodes_respond; do
        if [ -n "$(sinfo --noheader --responding --states=idle --partition={partition} --format=%N)" ]; then return 1; fi
        if [ "$SECONDS" -ge "$until" ]; then return 1; fi
        sleep 1
    done
}}
# Attempts in a row, the last one included, that saved no checkpoint.
attempts_without_checkpoint() {{
    local count=0 one
    for ((one = attempt; one >= 0; one--)); do
        if grep -q '"event": "checkpoint"' "$run/events-$one.jsonl" 2>/dev/null; then break; fi
        count=$((count + 1))
    done
    echo "$count"
}}
while true; do
    export RUN_FOLDER=$run/attempt-$attempt
    mkdir "$RUN_FOLDER" 2>/dev/null || {{ record superseded; exit 0; }}
    record begin
    if run_step; then
        record end
        exit 0
    fi
    if [ -n "$time_is_up" ]; then record time-limit; else record failed; fi
    if [ "$(attempts_without_checkpoint)" -gt {restarts} ]; then
        record gave-up
        exit 1
    fi
    end_steps
    here=$run/events-$attempt.jsonl
    attempt=$((attempt + 1))
    # An attempt that did not reach its first step is repeated in a new job.
    if [ -n "$time_is_up" ] || [ ! -e "$here" ] || ! wait_for_nodes; then break; fi
done
if env -i PATH="$PATH" HOME="$HOME" USER="$USER" sbatch --parsable "$run/job.sh" "$attempt"; then
    : > "$run/succeeded-$SLURM_JOB_ID"
else
    scontrol requeue "$SLURM_JOB_ID"
fi
exit 1
"""


def _end(job: TrainingJob) -> list[str]:
    return _END.format(restarts=job.restarts, partition=shlex.quote(job.partition), patience=job.patience_s).strip("\n").splitlines()
