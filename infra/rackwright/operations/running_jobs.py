"""The running jobs of a stack, and which of them hang or straggle: samples of their processes on all of their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack
from rackwright.report.jobs.document import JobsReport
from rackwright.report.jobs.samples import NodeSample, RunningJob, read_jobs, read_node
from rackwright.report.jobs.suspicion import diagnose
from rackwright.time_limits import slowness

REACH: Final = 10.0
"""Seconds for connecting to a node."""
_COMMAND: Final = 15.0
"""Seconds for one command of Slurm: slurmctld has MessageTimeout, 10 s by default (slurm.conf(5)), to reply."""
_MARGIN: Final = 45.0
"""Seconds beyond the samples: four answers of nvidia-smi with 10 s each, and the start of Python."""
_INTERVAL: Final = 0.05
"""Seconds between two samples: 150 in 7.5 s, which sufficed (docs/jobs.md)."""


def query_jobs(stack: str, *, job: str = "", seconds: float | None = None) -> JobsReport:
    """Return the jobs that have nodes; with `seconds`, sample their processes for this time and report what is suspicious.

    Raises InputError if the stack is not up or does not run Slurm, and for a job that Slurm does not have or that has no nodes;
    UndeterminedError if no controller answers, and at Ctrl-C.
    """
    running = RunningStack.of(stack)
    scheduler = running.inventory.cluster.get("scheduler") or {}
    if scheduler.get("kind") != "slurm":
        found = str(scheduler.get("kind") or "none").capitalize()
        hint = "run `kubectl get pods --all-namespaces` on a login node for those of Kubernetes"
        raise InputError(f"the command reads jobs of Slurm only (found scheduler {found})", path=f"stack {stack}", hint=hint)
    try:
        return asyncio.run(_query(running, job, seconds))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {stack}") from None


async def _query(running: RunningStack, job: str, seconds: float | None) -> JobsReport:
    answer, remarks = await _list_jobs(running, job)
    jobs = read_jobs(answer)
    if job and (answer["unknown"] or not jobs):
        hint = f"run `rackwright logs {running.name} --job {job}` for why it ended, or what it waits for"
        raise InputError("has no nodes now", path=f"job {job}", hint=hint)
    if seconds is None or not jobs:
        return JobsReport(running.name, answer["now"], jobs, seconds, (), remarks)
    nodes, lost = await _sample(running, jobs, seconds)
    diagnoses = tuple(diagnose(one, nodes, lost, answer["now"]) for one in jobs)
    return JobsReport(running.name, answer["now"], jobs, seconds, diagnoses, remarks)


async def _list_jobs(running: RunningStack, job: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Ask one controller after the other for the jobs; return its answer, and why earlier ones gave none."""
    inventory = running.inventory
    controllers = [name for name in inventory.cluster["scheduler"]["controllers"] if name in inventory.nodes]
    lost = await ssh_connections.connect_all(running.name, controllers, within=REACH)
    reasons = [f"{name}: {why}" for name, why in lost.items()]
    limit = 3 * _COMMAND * await asyncio.to_thread(slowness)
    for name in (one for one in controllers if one not in lost):
        request = {name: {"job": job, "seconds": _COMMAND}}
        sudo = {name: inventory.needs_sudo(name)}
        found, failed = await remote_exec.run_on_nodes(running.name, "slurm_running", request, sudo, target=inventory.target, limit=limit)
        if name in found and (not found[name]["error"] or found[name]["unknown"]):
            return found[name], tuple(reasons)
        reasons.append(f"{name}: {failed[name] if name in failed else found[name]['error']}")
    hint = f"run `rackwright logs {running.name} --unit slurmctld` for the lines of the controllers"
    raise UndeterminedError("\n".join(["no controller answers:", *reasons]), path=f"stack {running.name}", hint=hint)


async def _sample(running: RunningStack, jobs: Sequence[RunningJob], seconds: float) -> tuple[Mapping[str, NodeSample], Mapping[str, str]]:
    """Sample the nodes of all jobs at once; return the samples, and why a node has none."""
    inventory = running.inventory
    wanted = dict.fromkeys(name for job in jobs for name in job.nodes)
    lost = {name: "is no node of the stack" for name in wanted if name not in inventory.nodes}
    lost |= {name: "is out of the cluster, and not read" for name in lost if name in inventory.out}
    names = [name for name in wanted if name not in lost]
    lost |= await ssh_connections.connect_all(running.name, names, within=REACH)
    limit = 2 * seconds + _MARGIN * await asyncio.to_thread(slowness)
    requests = {name: _request(running, name, jobs, seconds) for name in names if name not in lost}
    sudo = {name: inventory.needs_sudo(name) for name in requests}
    found, failed = await remote_exec.run_on_nodes(running.name, "job_samples", requests, sudo, target=inventory.target, limit=limit)
    lost |= failed
    nodes: dict[str, NodeSample] = {}
    for name, answer in found.items():
        try:
            nodes[name] = read_node(name, answer)
        except (KeyError, TypeError, ValueError) as error:
            lost[name] = f"its answer cannot be read: {error!r}"
    return nodes, lost


def _request(running: RunningStack, name: str, jobs: Sequence[RunningJob], seconds: float) -> dict[str, Any]:
    """Return what a node is asked. Simulated GPUs are not read: they are always idle."""
    gpus = running.inventory.nodes[name].get("gpus") or None
    own = {job.raw: job.uid for job in jobs if name in job.nodes}
    return {"jobs": own, "seconds": seconds, "samples": round(seconds / _INTERVAL), "gpus": gpus is not None and not gpus["simulated"]}
