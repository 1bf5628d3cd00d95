"""The task of the smoke run as a program of a phase: it reports its node, user and GPUs, and writes to a given path."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

from rackwright.checks.acceptance.phase import Job, Output, Program, find_record, program
from rackwright.checks.acceptance.phase import Task as Printed
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.checks.cluster.probes.smoke import Task, parse_task
from rackwright.errors import UndeterminedError
from rackwright.remote.programs import smoke_jobs

_CAREFUL: Final = "\ntry:\n{}\nexcept OSError as error:\n    print('TROUBLE ' + str(error), flush=True)\n"
_NAMES: Final = {
    "job": "JOB_ID",
    "visible": "GPUS_VISIBLE",
    "gpus": "GPUS_GIVEN",
    "node": "NODE_NAME",
    "rank": "RANK",
    "ranks": "WORLD_SIZE",
}
_MEETS: Final = 30
"""Seconds that a job waits for the other: longer than a kubelet takes for a second request of what its pod needs."""
TASK: Final = Program("task.py", f"NAMES = {_NAMES!r}\nPATIENCE = {_MEETS}\n" + _CAREFUL.format(textwrap.indent(smoke_jobs.TASK, "    ")))
"""A node that cannot write reports so and exits with 0: a failing task would end the others with it."""
SHELL: Final = program("shell.py")


def arguments(
    *, folder: str = "", records: int = 0, locks: bool = False, meeting: str = "", me: str = "", other: str = ""
) -> tuple[str, ...]:
    """Return the arguments of TASK: where to write how many lines, and which job to wait for."""
    return (folder, str(records), "locks" if locks else "", meeting, me, other)


def failure_of(printed: Printed) -> str:
    """Return why a task could not write; empty if it could."""
    return next((line.removeprefix("TROUBLE ") for line in printed.out.splitlines() if line.startswith("TROUBLE ")), "")


def record_on(output: Output, node: str) -> Task:
    """Return the report of TASK from a node; raises UndeterminedError if there is none."""
    printed = output.only(node)
    line = next((line for line in printed.out.splitlines() if line.startswith("TASK ")), "")
    if not line:
        raise UndeterminedError(
            f"job {output.job.name} printed no record on {node}: {failure_of(printed) or output.error or 'no reason given'}"
        )
    return parse_task(json.loads(line.removeprefix("TASK ")))


def probe_job(name: str, nodes: tuple[str, ...], question: Probe[Any], **more: Any) -> Job:
    """Return a job that runs a question of the checks on every node, from inside."""
    if not isinstance(question.command, str):
        raise TypeError(f"{question.name} needs a node to run on")
    return Job(name, nodes, SHELL, (question.command,), **more)


def answer(output: Output, node: str, question: Probe[Any]) -> Any:
    """Return the answer from a node; raises UndeterminedError if none can be read."""
    found = find_record(output.only(node).out)
    try:
        raw = CommandOutput(**found) if found is not None else None
    except TypeError:
        raw = None
    if raw is None:
        raise UndeterminedError(f"job {output.job.name} printed no result on {node}: {output.error or 'it printed no JSON'}")
    return question.read(raw)
