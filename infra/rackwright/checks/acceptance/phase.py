"""What a phase is: the jobs it wants, and what it makes of what they said. It names no scheduler: a launcher turns jobs into commands.

A phase is a module of `phases` with a constant `PHASE`; its checks are rows of catalog/acceptance.yml, under the phase's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import Probe, Raw
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.verdict import SkipReason, Verdict

T = TypeVar("T")
PROGRAMS: Final = Path(__file__).with_name("programs")
TIMED_OUT: Final = 124
"""Exit status of a job whose time was up, as timeout(1) has it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A text that tasks run. It is sent with the job, so that it runs also where the shared file system is away, and kept beside results.

    It finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, NODE_NAME and JOB_ID in its environment, whatever
    launched it; where it was given GPUs, their numbers on the node as GPUS_GIVEN, and those that it is told to use as GPUS_VISIBLE. It
    reads no stdin. What it prints is what `Phase.judge` is given.
    """

    name: str
    """File name under which it is kept."""
    text: str


def program(name: str) -> Program:
    """A file of `acceptance/programs`."""
    return Program(name, (PROGRAMS / name).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Job:
    """What is to run where."""

    name: str
    """Lower case, digits and hyphens; once in a phase."""
    nodes: tuple[str, ...]
    """All of them, by name; nodes of `Scope.nodes` only."""
    program: Program
    arguments: tuple[str, ...] = ()
    tasks_per_node: int = 1
    gpus_per_node: int = 0
    cpus_per_task: int = 1
    memory_mib: int = 64
    """Per node. Not used where the job has whole nodes."""
    whole_nodes: bool = False
    """Nothing else runs there meanwhile, and all memory and CPUs are the job's."""
    limit_s: int = 60
    """Seconds it may run; what it waits before does not count."""
    round: int = 0
    """Jobs of one number run at the same time, and must find room beside each other; lower numbers come first."""
    mpi: bool = False
    """Its tasks find each other through MPI."""
    shared: bool = False
    """Whether its tasks read or write the shared file system, which not every launcher gives to every job."""
    interpreter: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)


class Question(Probe[T]):
    """A question that only the acceptance asks: none of the checks'."""

    def __post_init__(self) -> None:
        """It is not put among the checks' questions."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of a job printed."""

    rank: int
    node: str
    host: str
    """The name the machine gives itself."""
    uid: int
    out: str


@dataclass(frozen=True, slots=True)
class Output:
    """How a job went."""

    job: Job
    id: str
    """The scheduler's; empty where it never took the job."""
    status: int
    """Exit status; 124 where its time was up."""
    trouble: str
    """The decisive line where it did not start or did not end with 0; empty else."""
    tasks: tuple[Task, ...]
    stderr: str
    seconds: float
    silent: Mapping[str, str] = field(default_factory=dict)
    """Why nothing came from a node, where that is known node by node."""

    def on(self, node: str) -> tuple[Task, ...]:
        """Its tasks there, by rank."""
        return tuple(task for task in self.tasks if task.node == node)

    def only(self, node: str) -> Task:
        """Its one task there; raises UndeterminedError where there is none."""
        tasks = self.on(node)
        if not tasks:
            raise UndeterminedError(f"job {self.job.name} said nothing from {node}: {self.why(node)}")
        return tasks[0]

    def why(self, node: str) -> str:
        """Why nothing came from there."""
        return self.silent.get(node) or self.trouble or "no reason given"


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that one job can span."""

    name: str
    nodes: tuple[str, ...]


def runs_pods(declared: Inventory) -> bool:
    """Whether Kubernetes runs the jobs."""
    return bool((declared.cluster.get("scheduler") or {}).get("kind") == "kubernetes")


def compute_nodes(declared: Inventory) -> tuple[str, ...]:
    """All nodes of the plan that run jobs and are not out; a controller of Kubernetes runs none."""
    nodes = declared.cluster["scheduler"]["nodes"]
    return tuple(node["name"] for node in nodes if node["name"] in declared.nodes and node.get("runs_workloads", True))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a phase is about: the plan, and the nodes that are there for it now."""

    declared: Inventory
    nodes: tuple[str, ...]
    """Compute nodes that take part: in the plan, not out, and idle when the phase began."""
    states: Mapping[str, str]
    """What the scheduler says of the plan's compute nodes: `idle none`, `drained disk`; one that it does not know is missing."""
    busy: frozenset[str]
    """Who was at work before the run began."""
    run: str
    """Name of this run: part of no other's."""
    submitter: str
    """The node from which jobs are sent."""
    user: str
    mount: str | None
    """A shared file system that all compute nodes and the submitter have and the user may write to; None where there is none."""
    folder: str | None
    """The phase's folder there; None where it could not be made."""
    trouble: str = ""
    """Why not."""
    parts: tuple[Part, ...] = ()
    """`nodes`, in pieces that one job can span: of one queue each, those with GPUs apart from those without."""
    uid: int = 0
    """Number of the user where jobs are sent from."""
    answers: Mapping[str, Raw] = field(default_factory=dict)
    """What the phase's `questions` were answered, by name."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """Figures of the first good run on this cluster, by `phase.check[node] name`."""
    namespace: str | None = None
    """Of Kubernetes, in which jobs run."""
    most_gpus: int | None = None
    """GPUs that all jobs of the user may hold together; None where that is not limited."""

    @property
    def compute(self) -> tuple[str, ...]:
        """All compute nodes of the plan that are not out."""
        return compute_nodes(self.declared)

    @property
    def in_pods(self) -> bool:
        """Whether jobs run in pods: they see what their image and the device plugin give them, not what the node has."""
        return runs_pods(self.declared)

    @property
    def storage(self) -> Mapping[str, Any]:
        """The shared file system that `mount` is, or lies on."""
        mount = PurePosixPath(self.mount or "/")
        return next(one for one in self.declared.cluster["storage"] if mount.is_relative_to(one["mount"]))

    def answer(self, question: Probe[Any]) -> Any:
        """The answer to a question of this phase; raises UndeterminedError where there is none."""
        return question.read(self.answers[question.name])

    def gpus(self, node: str) -> int:
        """Return the whole GPUs that the plan gives the node: 0 where MIG divides them, for their instances are not measured."""
        found = self.declared.nodes[node].get("gpus")
        return int(found["count"]) if found and not any(found.get("mig", ())) else 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that was measured, for the record and for later comparison."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a phase found by one check on one node. Evidence and remedy come from the check's row."""

    check: str
    node: str
    verdict: Verdict
    reason: str = ""
    expected: str = ""
    found: str = ""
    figures: tuple[Figure, ...] = ()


Outputs = Mapping[str, Output]
"""How a phase's jobs went, by name."""


def _no_jobs(_scope: Scope) -> Sequence[Job]:
    return ()


def _no_files(_scope: Scope) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of the acceptance. `judge` must tell of every check on every node: what it leaves out is unknown."""

    name: str
    title: str
    judge: Callable[[Scope, Outputs], Iterable[Finding]]
    jobs: Callable[[Scope], Sequence[Job]] = _no_jobs
    questions: tuple[Probe[Any], ...] = ()
    """What the user asks on the submitter after the jobs. Plain commands, which find $FOLDER, the phase's, and $MOUNT."""
    files: Callable[[Scope], Mapping[str, str]] = _no_files
    """What has to lie in the phase's folder before its jobs, by name."""
    leaves: tuple[str, ...] = ()
    """What its jobs leave there that is no result, as patterns: emptied afterwards."""

    def folder(self, number: int) -> str:
        """The name of its folder among the results.

        >>> Phase("task_placement", "Task placement", judge=lambda scope, outputs: ()).folder(3)
        '03-task-placement'
        """
        return f"{number:02d}-{self.name.replace('_', '-')}"


def compared(check: str, node: str, found: Any, planned: Any, *, holds: bool | None = None, figures: Sequence[Figure] = ()) -> Finding:
    """Passed when found is as planned, or when `holds` says so, else failed.

    >>> compared("count_matches_plan", "worker0", 7, 8).reason
    'expected 8, found 7'
    """
    expect, reason = Expect(), ""
    try:
        expect(found, planned, holds=holds)
    except Mismatch as error:
        reason = str(error)
    verdict = Verdict.FAILED if reason else Verdict.PASSED
    return Finding(check, node, verdict, reason, expect.planned, expect.found, tuple(figures))


def unknown(check: str, node: str, reason: str) -> Finding:
    """It could not be told, and why."""
    return Finding(check, node, Verdict.UNKNOWN, reason)


def job_runs(output: Output, node: str, why: str = "") -> Finding:
    """Whether a job ran there; unknown where its time was up. `why`: what is known to have kept it from there."""
    ran = output.on(node)
    if not ran and not why and not output.silent.get(node) and output.status == TIMED_OUT:
        return unknown("job_runs", node, output.why(node))
    return compared("job_runs", node, f"ran on {ran[0].host}" if ran else f"did not: {why or output.why(node)}", f"ran on {node}")


def skipped(check: str, node: str, reason: SkipReason) -> Finding:
    """It was left out, for one of the reasons that count."""
    return Finding(check, node, Verdict.SKIPPED, reason.value)


def told(check: str, node: str, look: Callable[[], Finding]) -> Finding:
    """What `look` finds; unknown where it raises UndeterminedError."""
    try:
        return look()
    except UndeterminedError as error:
        return unknown(check, node, str(error))
