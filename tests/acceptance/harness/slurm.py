"""Jobs as Slurm runs them: the command of each, the text its tasks run, and what came back as `Output`."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acceptance.phase import Job, Output, Program, Task
from cluster.probes.smoke import decisive
from rackwright.errors import BadInput
from rackwright.report.declared import Declared

HEAD: Final = "rackwright-task "
"""How the line begins in which a task says who it is."""
PATIENCE: Final = 45
"""Seconds a job may wait for its nodes, which were idle a moment ago."""
_PRELUDE: Final = Path(__file__).with_name("task_side.py")
_LABELLED: Final = re.compile(r" *(\d+): ?(.*)", re.DOTALL)
_CUT: Final = 1024
"""Bytes after which `srun --label` (seen with 24.11.5) begins a line anew, as if the task had."""
TIMED_OUT: Final = 124


def sent(program: Program) -> str:
    """The text a job's tasks run: the program, with the lines that say who the task is after its docstring and its `__future__`."""
    lines = program.text.splitlines(keepends=True)
    first = 0
    for statement in ast.parse(program.text).body:
        words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not words and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        first = statement.end_lineno or 0
    return "".join([*lines[:first], "\n\n", _PRELUDE.read_text(encoding="utf-8"), "\n\n", *lines[first:]])


def command(job: Job, label: str, declared: Declared) -> list[str]:
    """srun, told everything: nothing is left to the defaults of a site."""
    count = len(job.nodes)
    room = ["--exclusive", "--mem=0"] if job.whole_nodes else [f"--mem={job.memory_mib}"]
    gpus = [f"--gres=gpu:{job.gpus_per_node}"] if job.gpus_per_node else []
    mpi = ["--mpi=pmix"] if job.mpi else []  # Slurm's default is none, and then each task is a program of its own
    environment = {"MASTER_ADDR": job.nodes[0], **job.environment}
    return [
        *("srun", f"--job-name={label}", f"--partition={partition(declared, job.nodes)}", f"--nodelist={','.join(job.nodes)}"),
        *(f"--nodes={count}", f"--ntasks={count * job.tasks_per_node}", f"--ntasks-per-node={job.tasks_per_node}"),
        *(f"--cpus-per-task={job.cpus_per_task}", *room, *gpus, f"--time={math.ceil(job.limit_s / 60)}"),
        *(*mpi, "--chdir=/", "--label", "--kill-on-bad-exit=1"),
        *("env", *(f"{name}={value}" for name, value in environment.items()), job.interpreter, "-I", "-", *job.arguments),
    ]


def partition(declared: Declared, nodes: tuple[str, ...]) -> str:
    """The first queue that has them all."""
    for one in declared.cluster["scheduler"]["partitions"]:
        if set(nodes) <= set(one["nodes"]):
            return str(one["name"])
    raise BadInput(f"no partition of the plan has all of {', '.join(nodes)}", path="scheduler.partitions")


def request(job: Job, run: str, phase: str, declared: Declared, *, waking: int = 0) -> dict[str, Any]:
    """A job as the submitting node is asked for it."""
    label = f"rackwright-{run}-{phase}-{job.name}"
    seconds = job.limit_s + PATIENCE + waking
    return {
        "name": job.name,
        "label": label,
        "argv": command(job, label, declared),
        "seconds": seconds,
        "stdin": sent(job.program),
    }


def output(job: Job, came: Mapping[str, Any]) -> Output:
    """What came back of a job."""
    tasks = _tasks(came["out"])
    status = int(came["status"])
    trouble = ""
    if status:
        late = f"no end after {came['ended'] - came['began']:.0f} s" if status == TIMED_OUT else ""
        trouble = late or decisive(unlabelled(came["err"])) or f"ended with status {status}"
    job_id = next((str(said["job"]) for said, _ in tasks), "")
    told = tuple(Task(said["RANK"], said["node"], said["host"], said["uid"], "\n".join(lines)) for said, lines in tasks)
    return Output(job, job_id, status, trouble, told, came["err"], came["ended"] - came["began"])


def heads(text: str) -> list[dict[str, Any]]:
    """What the tasks of a job said of themselves, by rank."""
    return [said for said, _ in _tasks(text)]


def _tasks(text: str) -> list[tuple[dict[str, Any], list[str]]]:
    """What each task said of itself, and its other lines, by rank. One that never said who it is has no place here."""
    lines: dict[int, list[str]] = {}
    found: dict[int, dict[str, Any]] = {}
    for rank, said in whole_lines(text):
        head = _head(said) if rank not in found else None
        if head is not None:
            found[rank] = head
        else:
            lines.setdefault(rank, []).append(said)
    return [(found[rank], lines.get(rank, [])) for rank in sorted(found)]


def whole_lines(text: str) -> list[tuple[int, str]]:
    """Lines of tasks with the rank of who said them; those that srun cut are put together again."""
    found: list[tuple[int, str]] = []
    open_lines: dict[int, int] = {}
    for line in text.split("\n"):
        labelled = _LABELLED.match(line)
        if not labelled:
            continue
        rank, said = int(labelled[1]), labelled[2]
        if rank in open_lines:
            place = open_lines.pop(rank)
            found[place] = (rank, found[place][1] + said)
        else:
            place = len(found)
            found.append((rank, said))
        if len(said.encode()) == _CUT:
            open_lines[rank] = place
    return found


def of_a_task(line: str) -> bool:
    """Whether a line bears the number of a task."""
    return _LABELLED.match(line) is not None


def _head(line: str) -> dict[str, Any] | None:
    """What a task says of itself; None for every other line, and for one that was torn."""
    if not line.startswith(HEAD):
        return None
    with contextlib.suppress(ValueError):
        said: dict[str, Any] = json.loads(line.removeprefix(HEAD))
        return said
    return None


def unlabelled(text: str) -> str:
    """Lines without the number of the task that said them.

    >>> unlabelled("0: no such file")
    'no such file'
    """
    return "\n".join(match[2] if (match := _LABELLED.match(line)) else line for line in text.splitlines())
