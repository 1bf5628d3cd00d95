"""The interface of a phase: the jobs it needs, and its verdict on their output. A launcher turns jobs into commands of a scheduler.

A phase is a module of `phases` with a constant `PHASE`; its checks are rows of catalog/acceptance.yml, under the phase's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.verdict import SkipReason, Verdict

T = TypeVar("T")
PROGRAMS: Final = Path(__file__).with_name("programs")
TIMED_OUT: Final = 124
"""Exit status of a job that timed out, as timeout(1) has it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A text that tasks run. It is sent with the job, so that it runs even if the shared file system is away, and stored with the results.

    It finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, NODE_NAME and JOB_ID in its environment, for every
    launcher; if it has GPUs, their numbers on the node as GPUS_GIVEN, and the numbers that it is to use as GPUS_VISIBLE. It
    reads no stdin. `Phase.evaluate` gets what it prints.
    """

    name: str
    """File name under which it is stored."""
    text: str


def program(name: str) -> Program:
    """Return a program of `acceptance/programs`."""
    return Program(name, (PROGRAMS / name).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a phase: a program and its nodes."""

    name: str
    """Lower case, digits and hyphens; unique in a phase."""
    nodes: tuple[str, ...]
    """All of them, by name; nodes of `Scope.nodes` only."""
    program: Program
    arguments: tuple[str, ...] = ()
    tasks_per_node: int = 1
    gpus_per_node: int = 0
    cpus_per_task: int = 1
    memory_mib: int = 64
    """GPUs per node. Not used if the job has whole nodes."""
    whole_nodes: bool = False
    """Whether the job has its nodes alone, with all memory and CPUs."""
    limit_s: int = 60
    """Seconds that the job may run; the time in the queue does not count."""
    round: int = 0
    """Jobs of one number run at the same time and must fit next to each other; lower numbers run first."""
    mpi: bool = False
    """Whether its tasks find each other through MPI."""
    shared: bool = False
    """Whether its tasks read or write the shared file system, which not every launcher mounts in every job."""
    interpreter: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)


class AcceptanceProbe(Probe[T]):
    """A question that only the acceptance asks; not one of the checks' questions."""

    def __post_init__(self) -> None:
        """Skip the registration among the checks' questions."""


@dataclass(frozen=True, slots=True)
class Task:
    """The output of one task of a job."""

    rank: int
    node: str
    host: str
    """Host name that the machine reports."""
    uid: int
    out: str


@dataclass(frozen=True, slots=True)
class Output:
    """The outcome of a job."""

    job: Job
    id: str
    """Job id of the scheduler; empty if it never accepted the job."""
    status: int
    """Exit status; 124 if the job timed out."""
    error: str
    """The decisive line if the job did not start or did not end with 0; empty otherwise."""
    tasks: tuple[Task, ...]
    stderr: str
    seconds: float
    missing_output: Mapping[str, str] = field(default_factory=dict)
    """Why a node has no output, if the reason is known per node."""

    def on(self, node: str) -> tuple[Task, ...]:
        """Return the tasks on a node, by rank."""
        return tuple(task for task in self.tasks if task.node == node)

    def only(self, node: str) -> Task:
        """Return the only task on a node; raises UndeterminedError if there is none."""
        tasks = self.on(node)
        if not tasks:
            raise UndeterminedError(f"job {self.job.name} printed nothing on {node}: {self.missing_reason(node)}")
        return tasks[0]

    def missing_reason(self, node: str) -> str:
        """Return why a node has no output."""
        return self.missing_output.get(node) or self.error or "no reason given"


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that one job can span."""

    name: str
    nodes: tuple[str, ...]


def runs_pods(declared: Inventory) -> bool:
    """Return whether Kubernetes runs the jobs."""
    return bool((declared.cluster.get("scheduler") or {}).get("kind") == "kubernetes")


def compute_nodes(declared: Inventory) -> tuple[str, ...]:
    """Return all nodes of the plan that run jobs and are not out; a controller of Kubernetes runs none."""
    nodes = declared.cluster["scheduler"]["nodes"]
    return tuple(node["name"] for node in nodes if node["name"] in declared.nodes and node.get("runs_workloads", True))


@dataclass(frozen=True, slots=True)
class PhaseScope:
    """The scope of a phase: the plan, and the nodes that are available to it now."""

    declared: Inventory
    nodes: tuple[str, ...]
    """Compute nodes that take part: in the plan, not out, and idle when the phase began."""
    states: Mapping[str, str]
    """States of the plan's compute nodes in the scheduler: `idle none`, `drained disk`; a node that it does not know is missing."""
    busy: frozenset[str]
    """Nodes that were at work before the run began."""
    run: str
    """Name of this run: not part of any other run's name."""
    submitter: str
    """The node from which jobs are submitted."""
    user: str
    mount: str | None
    """A shared file system of all compute nodes and the submitter to which the user may write; None if there is none."""
    folder: str | None
    """The phase's folder there; None if it could not be created."""
    error: str = ""
    """Why the folder could not be created."""
    parts: tuple[Part, ...] = ()
    """`nodes`, in parts that one job can span: of one partition each, those with GPUs apart from those without."""
    uid: int = 0
    """User id on the node from which jobs are submitted."""
    answers: Mapping[str, CommandOutput] = field(default_factory=dict)
    """Answers to the phase's `questions`, by name."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """Figures of the first passed run on this cluster, by `phase.check[node] name`."""
    namespace: str | None = None
    """Namespace of Kubernetes in which jobs run."""
    max_gpus: int | None = None
    """GPUs that all jobs of the user may hold together; None if there is no limit."""

    @property
    def compute(self) -> tuple[str, ...]:
        """Return all compute nodes of the plan that are not out."""
        return compute_nodes(self.declared)

    @property
    def in_pods(self) -> bool:
        """Return whether jobs run in pods, which see what their image and the device plugin provide, not what the node has."""
        return runs_pods(self.declared)

    @property
    def storage(self) -> Mapping[str, Any]:
        """Return the shared file system that `mount` is, or is part of."""
        mount = PurePosixPath(self.mount or "/")
        return next(one for one in self.declared.cluster["storage"] if mount.is_relative_to(one["mount"]))

    def answer(self, question: Probe[Any]) -> Any:
        """Return the answer to a question of this phase; raises UndeterminedError if there is none."""
        return question.read(self.answers[question.name])

    def gpus(self, node: str) -> int:
        """Return the whole GPUs of NVIDIA that the plan gives the node: 0 where MIG divides them, for their instances are not measured.

        The programs of the phases are built for CUDA: they do not measure GPUs of AMD. They measure all GPUs of a node together, and
        the thresholds are those of one model: GPUs of several models in a node are not measured.
        """
        found = self.declared.nodes[node].get("gpus")
        if not found or found.get("vendor") == "amd" or any(found.get("mig", ())) or found.get("others"):
            return 0
        return int(found["count"])


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured number, for the record and for later comparison."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on one node in a phase. Evidence and remedy come from the check's row."""

    check: str
    node: str
    verdict: Verdict
    reason: str = ""
    expected: str = ""
    found: str = ""
    measurements: tuple[Measurement, ...] = ()


Outputs = Mapping[str, Output]
"""Outputs of a phase's jobs, by name."""


def _no_jobs(_scope: PhaseScope) -> Sequence[Job]:
    return ()


def _no_files(_scope: PhaseScope) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of the acceptance. `evaluate` must return a finding for every check on every node: a missing one is unknown."""

    name: str
    title: str
    evaluate: Callable[[PhaseScope, Outputs], Iterable[Finding]]
    jobs: Callable[[PhaseScope], Sequence[Job]] = _no_jobs
    probes: tuple[Probe[Any], ...] = ()
    """Shell commands that the user runs on the submitter after the jobs, with $FOLDER, the phase's folder, and $MOUNT."""
    files: Callable[[PhaseScope], Mapping[str, str]] = _no_files
    """Files that the phase's folder needs before its jobs run, by name."""
    cleanup_patterns: tuple[str, ...] = ()
    """Patterns of files that its jobs leave there and that are no results: truncated afterwards."""

    def folder(self, number: int) -> str:
        """Return the name of the phase's folder among the results.

        >>> Phase("task_placement", "Task placement", evaluate=lambda scope, outputs: ()).folder(3)
        '03-task-placement'
        """
        return f"{number:02d}-{self.name.replace('_', '-')}"


def compared(
    check: str, node: str, found: Any, planned: Any, *, holds: bool | None = None, measurements: Sequence[Measurement] = ()
) -> Finding:
    """Return passed if found is as planned, or if `holds` is true, else failed.

    >>> compared("count_matches_plan", "worker0", 7, 8).reason
    'expected 8, found 7'
    """
    expect, reason = Expect(), ""
    try:
        expect(found, planned, holds=holds)
    except Mismatch as error:
        reason = str(error)
    verdict = Verdict.FAILED if reason else Verdict.PASSED
    return Finding(check, node, verdict, reason, expect.planned, expect.found, tuple(measurements))


def unknown(check: str, node: str, reason: str) -> Finding:
    """Return a finding that is unknown, with its reason."""
    return Finding(check, node, Verdict.UNKNOWN, reason)


def find_record(text: str) -> dict[str, Any] | None:
    """Return the longest JSON object in a text; None if there is none or one is cut. Users' profiles and libraries print beside it."""
    longest, length, place = None, 0, text.find('{"')
    while place >= 0:
        try:
            found, end = json.JSONDecoder().raw_decode(text, place)
        except ValueError:
            return None
        if end - place > length:
            longest, length = found, end - place
        place = text.find('{"', end)
    return longest


def job_runs(output: Output, node: str, why: str = "") -> Finding:
    """Return whether a job ran on a node; unknown if it timed out. `why`: the known reason why it did not run there."""
    ran = output.on(node)
    if not ran and not why and not output.missing_output.get(node) and output.status == TIMED_OUT:
        return unknown("job_runs", node, output.missing_reason(node))
    return compared(
        "job_runs", node, f"ran on {ran[0].host}" if ran else f"did not: {why or output.missing_reason(node)}", f"ran on {node}"
    )


def skipped(check: str, node: str, reason: SkipReason) -> Finding:
    """Return a finding that was skipped, with one of the accepted reasons."""
    return Finding(check, node, Verdict.SKIPPED, reason.value)


def guarded(check: str, node: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of `look`; unknown if it raises UndeterminedError."""
    try:
        return look()
    except UndeterminedError as error:
        return unknown(check, node, str(error))
