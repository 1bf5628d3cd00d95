"""Smoke run of a Slurm cluster: short jobs on all nodes in parallel, and the files of the jobs as each node then reads them."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from rackwright.checks.cluster.harness.probe import NodeBusyError, Probe, ProbeContext, ProbeStage
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue, answer_of
from rackwright.checks.cluster.probes.slurm_states import at_work, is_idle
from rackwright.errors import UndeterminedError

if TYPE_CHECKING:  # Compute nodes run the health check from this file and have no reports.
    from rackwright.inventory.reader import Inventory

MEMORY: Final = 64
"""MiB of memory that each job requests on a node (rackwright.remote.programs.smoke_jobs)."""
RECORDS: Final = 200
"""Number of lines that each node writes into one file, concurrently with the others."""
LOCKED_RECORDS: Final = 20
"""Number of lines where each is locked, synced to the server's disk and unlocked: 64 nodes with a disk of 10 ms take 13 s."""
_PATIENCE: Final = 20
"""Maximum seconds for a job to wait and run."""


@dataclass(frozen=True)
class Task:
    """Result that one task of a job reports."""

    job: str
    node: str
    host: str
    uid: int
    gpus: tuple[str, ...]
    """Indices of the assigned GPUs on the node."""
    visible: tuple[str, ...] | None
    """Value of CUDA_VISIBLE_DEVICES for programs; None where it is not set."""
    began: float
    ended: float
    memory_mib: int | None = None
    """Limit of its control groups; None where they set no limit."""
    cores: int = 0
    """CPUs on which the task may run."""
    cpus: int = 0
    """CPUs that Slurm assigned to the task."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """By device file of a GPU: `opens`, or the error of open(2), such as EPERM."""


@dataclass(frozen=True)
class ExceedingTask:
    """End of a process that filled more memory than its job requested."""

    signal: int
    """Signal that ended it; 0 without one."""
    status: int
    """Exit status: 0 if the process got the memory, 3 if the kernel refused it the address space."""
    kills: int | None
    """Kills that the kernel counted in the job's control groups meanwhile; None where it does not count them."""


@dataclass(frozen=True)
class ExceedingJob:
    """The job that fills more memory than it requested."""

    nodes: tuple[str, ...]
    output: str
    tasks: Mapping[str, ExceedingTask]
    """By node."""
    states: tuple[str, ...]
    """States of the job and its steps after the end; none where Slurm does not report them."""

    def slurm_state(self) -> str:
        """Return OUT_OF_MEMORY if Slurm reports it, in a state or a message; else its states; empty if it reports nothing."""
        told = "OUT_OF_MEMORY" in self.states or _OUT_OF_MEMORY.search(self.output)
        return "OUT_OF_MEMORY" if told else ", ".join(dict.fromkeys(self.states))


_OUT_OF_MEMORY: Final = re.compile(r"(?i)task[s]? [\d,-]+: out of memory|detected \d+ oom[_-]kill event|exceeded (?:job|step) memory limit")
"""Messages of srun and slurmstepd; older releases write `oom-kill event(s)` or `Exceeded job memory limit`."""


@dataclass(frozen=True)
class Job:
    """One job of the run."""

    name: str
    requested_gpus: int
    nodes: tuple[str, ...]
    rc: int
    output: str
    tasks: tuple[Task, ...]

    @property
    def why(self) -> str | UnreadableValue:
        """Return why the job has no output; UnreadableValue where its time limit passed before srun reported an error."""
        return answer_of(f"job {self.name}", self.output or f"status {self.rc}")


@dataclass(frozen=True)
class SmokeResults:
    """Results of the whole run."""

    states: Mapping[str, str]
    jobs: tuple[Job, ...]
    batch: Mapping[str, Any] | None
    accounts: Mapping[str, Any] | None
    folder: str | None
    records: int
    """Number of lines of each node in the common file."""
    exceeding: tuple[ExceedingJob, ...] = ()
    """Jobs that filled more memory than they requested."""

    def job(self, name: str, node: str) -> Job:
        """Return the job of that name on the node. Raise NodeBusy where the node runs other jobs, UndeterminedError where it takes none."""
        state = self.states.get(node, "it did not respond, so no job was submitted to it")
        if at_work(state):
            raise NodeBusyError
        if not is_idle(state):
            raise UndeterminedError(f"node not usable: {state}")
        found = next((job for job in self.jobs if job.name == name and node in job.nodes), None)
        if found is None:
            raise UndeterminedError(f"no {name} job ran on {node}")
        return found

    def exceeding_job(self, node: str) -> ExceedingJob:
        """Return the job that filled more memory than it requested on the node. Raise UndeterminedError where none ran."""
        self.job("plain", node)  # raises for a node that took no job
        found = next((job for job in self.exceeding if node in job.nodes), None)
        if found is None:
            raise UndeterminedError(f"no job that exceeds its memory was submitted to {node}")
        return found

    def record(self, job: Job) -> Mapping[str, Any] | UnreadableValue:
        """Return the accounting record of a job; UnreadableValue if the run timed out before a record existed."""
        accounts = self.accounts or {"jobs": (), "said": ""}
        found: Mapping[str, Any] = next((one for one in accounts["jobs"] if one["JobID"] == job.tasks[0].job), {})
        late = bool(accounts["said"]) and (found.get("State") in _UNFINISHED if found else not accounts["jobs"])
        return MissingAnswer(f"accounting of job {job.name}", f"{found.get('State', 'no record')}, {accounts['said']}") if late else found

    @property
    def batch_output(self) -> str | UnreadableValue:
        """Return the output of the batch job; UnreadableValue where its time limit passed before it ended."""
        batch = self.batch or {"output": "", "said": ""}
        state = batch.get("state", "")
        if not batch["output"] and (state in _UNFINISHED or state.startswith("unknown")):
            return MissingAnswer(f"batch job {batch['job']}", f"{state} after {batch['seconds']} s")
        return str(batch["output"]) or answer_of("batch job", batch["said"] or "no output")

    def require_jobs_sent(self) -> None:
        """Raise where no job was sent: NodeBusy if all nodes run jobs, UndeterminedError for any other reason."""
        if self.jobs:
            return
        if self.states and all(map(at_work, self.states.values())):
            raise NodeBusyError
        raise UndeterminedError("no node was idle")

    def task(self, name: str, node: str) -> Task | None:
        """Return the result of the job's task on the node; None where the task did not start there."""
        return next((task for task in self.job(name, node).tasks if task.node == node), None)


_UNFINISHED: Final = frozenset(
    {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "EXPEDITING", "SUSPENDED", "STOPPED", "REQUEUED", "RESIZING", "SIGNALING"}
    | {"REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "STAGE_OUT"}
)
"""States of a job that has not ended (`man squeue`, JOB STATE CODES)."""


def parse_smoke(text: str) -> SmokeResults:
    """Return the results from the JSON document that the run prints last."""
    data = json.loads(text.strip().splitlines()[-1])
    jobs = tuple(_job(job) for job in data["jobs"])
    exceeding = tuple(_exceeding(job) for job in data.get("exceeding") or ())
    return SmokeResults(data["states"], jobs, data["batch"], data["accounts"], data["folder"], data["records"], exceeding)


def _exceeding(data: Mapping[str, Any]) -> ExceedingJob:
    tasks = {task["node"]: ExceedingTask(int(task["signal"]), int(task["status"]), task["kills"]) for task in data["tasks"]}
    return ExceedingJob(tuple(data["nodes"]), data["said"], tasks, tuple(data["states"]))


def _job(data: Mapping[str, Any]) -> Job:
    tasks = tuple(parse_task(task) for task in data["tasks"])
    return Job(data["name"], data["asked"], tuple(data["nodes"]), data["rc"], decisive(data["said"]), tasks)


def decisive(said: str) -> str:
    """Return the first two errors of srun, without its progress messages.

    >>> decisive("srun: job 7 queued and waiting for resources\\nsrun: error: Unable to create step")
    'error: Unable to create step'
    """
    lines = [line.removeprefix("srun: ") for line in said.splitlines()]
    messages = [line for line in lines if line.strip() and not line.startswith(_COMMENTARY) and not line.endswith("waiting for resources")]
    errors = [line for line in messages if "error" in line.lower()]
    return "; ".join((errors or messages)[:2])


_COMMENTARY: Final = ("job ", "interrupt ", "forcing ", "StepId=", "sending ")


def parse_task(data: Mapping[str, Any]) -> Task:
    """Return the result that a task printed."""
    visible = data["visible"]
    return Task(
        data["job"],
        data["node"],
        data["host"],
        data["uid"],
        tuple(filter(None, (data["gpus"] or "").split(","))),
        tuple(filter(None, visible.split(","))) if visible is not None else None,
        data["began"],
        data["ended"],
        None if data.get("memory") is None else int(data["memory"]) // 2**20,
        int(data.get("cores") or 0),
        int(data.get("cpus") or 0),
        dict(data.get("devices") or {}),
    )


def gpus_to_ask(counts: Iterable[int]) -> tuple[int, int]:
    """Return the number of GPUs that each of two concurrent jobs requests on every node: 3 and 3 of 8; 0 where no GPU is left.

    >>> gpus_to_ask([8, 8]), gpus_to_ask([4]), gpus_to_ask([1]), gpus_to_ask([0])
    ((3, 3), (1, 1), (1, 0), (0, 0))
    """
    fewest = min(counts, default=0)
    first = max(1, fewest * 3 // 8) if fewest else 0
    return first, min(first, fewest - first)


class Sender(Protocol):
    """The node that submits the jobs, with the plan."""

    @property
    def node(self) -> Mapping[str, Any]:
        """Return the record of the node."""

    @property
    def declared(self) -> Inventory:
        """Return the plan."""


def parts(context: Sender) -> list[dict[str, Any]]:
    """Return the planned compute nodes, each in one partition. Nodes with whole GPUs of NVIDIA are separate from the others."""
    scheduler, known = context.declared.cluster["scheduler"], context.declared.nodes
    inside = {
        node["name"]: 0 if node.get("gres") or _has_amd_gpus(known[node["name"]]) else node["gpus"]
        for node in scheduler["nodes"]
        if node["name"] in known
    }
    found: list[dict[str, Any]] = []
    for partition in scheduler["partitions"]:
        for with_gpus in (True, False):
            nodes = [name for name in partition["nodes"] if name in inside and bool(inside[name]) is with_gpus]
            if nodes:
                first, second = gpus_to_ask(inside[name] for name in nodes)
                found.append({"partition": partition["name"], "nodes": nodes, "first": first, "second": second})
            inside = {name: gpus for name, gpus in inside.items() if name not in nodes}
    return found


def _has_amd_gpus(node: Mapping[str, Any] | None) -> bool:
    """Return whether the GPUs of a node are those of AMD, which the jobs do not use: they look for devices of NVIDIA."""
    gpus = (node or {}).get("gpus") or {}
    return bool(gpus.get("vendor") == "amd")


def runner(context: Sender) -> str | None:
    """Return the user of the plan that runs the jobs; None where the plan has none, so that root runs them."""
    users = context.declared.cluster.get("users") or ()
    return users[0]["name"] if users else None


def shared(context: Sender) -> Mapping[str, Any] | None:
    """Return a shared file system that all compute nodes and the submitting node mount, and to which users may write."""
    needed = {name for part in parts(context) for name in part["nodes"]} | {context.node["name"]}
    everywhere = (one for one in context.declared.cluster.get("storage") or () if needed <= set(one["clients"]))
    # Nothing is written to an existing file system, whose mode is not declared.
    return next((one for one in everywhere if one["mode"] and int(one["mode"], 8) & 0o002), None)


def write_requests(storage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where and how nodes write concurrently. NFS keeps concurrent writes to a page only if each writer locks its part (nfs(5))."""
    locks = storage is not None and storage["kind"] == "nfs"
    return {"storage": storage["mount"] if storage else None, "records": LOCKED_RECORDS if locks else RECORDS, "locks": locks}


def as_user(context: ProbeContext, request: Mapping[str, Any]) -> str:
    """Return the command that runs the node's part of the smoke run as the plan's user."""
    from rackwright.remote.command import python_command  # compute nodes have this file, and no programs to send

    user = runner(context)
    change = f"runuser -u {user} -- " if user else ""
    return f"{change}{python_command('smoke_jobs', request)}"


def _command(context: ProbeContext) -> str:
    if "partitions" not in context.declared.cluster["scheduler"]:
        raise UndeterminedError("the cluster does not run Slurm")
    if context.node["name"] != submitter(context):
        return "true"
    saving = context.declared.cluster["scheduler"].get("power_saving") or {}
    responding = {name for part in parts(context) for name in part["nodes"] if context.is_reachable(name)}
    reduced = [{**part, "nodes": [name for name in part["nodes"] if name in responding]} for part in parts(context)]
    request = {
        "parts": [part for part in reduced if part["nodes"]],
        **write_requests(shared(context)),
        "settle_seconds": 3,
        "seconds": _PATIENCE + saving.get("resume_timeout_s", 0),
        "accounting": bool(context.declared.cluster["scheduler"].get("accounting")),
        "accounting_seconds": 10,
        "exceed_memory": "memory" in (context.declared.cluster["scheduler"].get("constrains") or ()),
        "token": os.urandom(4).hex(),
    }
    return as_user(context, request)


def submitter(context: ProbeContext) -> str:
    """Return the node that submits the smoke run."""
    return context.declared.members("@submit")[0]


SMOKE = Probe("smoke", on="@submit", command=_command, parse=parse_smoke, timeout=60, stage=ProbeStage.JOBS)


@dataclass(frozen=True)
class FileContents:
    """Files of the jobs, as a node reads them."""

    files: Mapping[str, str]
    """First line of the file of each node, by name."""
    lines: tuple[str, ...]
    """Content of the common file."""


def parse_file_contents(text: str) -> FileContents:
    """Return the files from lines `file name: content`, then `==`, then the common file."""
    files, mark, together = text.partition("==\n")
    if not mark:
        raise ValueError("no common file")
    return FileContents(dict(line.split(": ", 1) for line in files.splitlines()), tuple(together.splitlines()))


def _files_command(context: ProbeContext) -> str:
    folder = context.earlier_result(SMOKE, submitter(context)).folder
    if not folder:
        raise UndeterminedError("no job ran that could have written anything")
    return f'cd {shlex.quote(folder)} && for f in from-*; do echo "$f: $(cat $f)"; done && echo == && cat together'


FILE_CONTENTS = Probe(
    "smoke-seen", on="storage_client", command=_files_command, parse=parse_file_contents, timeout=15, stage=ProbeStage.AFTER_JOBS
)
