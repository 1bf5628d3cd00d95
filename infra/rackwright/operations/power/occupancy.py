"""Nodes that may not be powered off: nodes with jobs, nodes in service, and nodes that all others depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack

_HELD: Final = {"DRAIN", "DRAINED", "DOWN", "FAIL"}
"""States and flags in which Slurm starts no job on a node (sinfo(1), NODE STATE CODES)."""
_REACH: Final = 15.0
"""Seconds for a connection to a controller, as for a rolling update."""
_LIMIT: Final = 60.0
"""Seconds for the answer: two commands for each node, of which each takes well under a second while slurmctld answers."""
_WORKER: Final = "worker"
_FORCE: Final = "add --force to power them off nevertheless"


async def require_free(stack: str, nodes: Sequence[str]) -> None:
    """Return if all nodes are drained workers without jobs.

    Raises RackwrightError with the reason of every node that is not; UndeterminedError if that cannot be determined.
    """
    try:
        running = RunningStack.of(stack)
    except InputError as error:
        cause = f"whether jobs run on {', '.join(nodes)} is unknown: {error.cause}"
        raise UndeterminedError(cause, path=f"stack {stack}", hint=_FORCE) from None
    scheduler = running.inventory.cluster.get("scheduler") or {}
    if scheduler.get("kind") != "slurm":
        hint = f"run `kubectl drain` for each node, then {_FORCE}"
        raise UndeterminedError("whether pods run on the nodes is not queried on Kubernetes", path=f"stack {stack}", hint=hint)
    records = {**running.inventory.nodes, **running.inventory.out}
    others = [name for name in nodes if name in records and set(records[name]["roles"]) != {_WORKER}]
    reasons = [f"{name} has the roles {', '.join(records[name]['roles'])}, on which other nodes depend" for name in others]
    workers = [name for name in nodes if name in running.inventory.nodes and name not in others]
    if workers:
        reasons += await _occupied(running, workers)
    if reasons:
        hint = f"drain workers with `scontrol update NodeName=NAME State=DRAIN Reason=power` and wait for their jobs, or {_FORCE}"
        raise RackwrightError("\n".join(["no node was powered off:", *reasons]), path=f"stack {stack}", hint=hint)


async def _occupied(running: RunningStack, workers: Sequence[str]) -> list[str]:
    """Return why workers may not be powered off, from the first controller that answers."""
    inventory = running.inventory
    controllers = [name for name in inventory.cluster["scheduler"]["controllers"] if name in inventory.nodes]
    lost = await ssh_connections.connect_all(running.name, controllers, within=_REACH)
    causes = [f"{name}: {why}" for name, why in lost.items()]
    for name in (one for one in controllers if one not in lost):
        answers, failed = await remote_exec.run_on_nodes(
            running.name,
            "slurm_occupancy",
            {name: {"nodes": list(workers)}},
            {name: inventory.needs_sudo(name)},
            target=inventory.target,
            limit=_LIMIT + len(workers),
        )
        if name in answers:
            return [reason for node, seen in answers[name]["nodes"].items() for reason in _reasons(node, seen["states"], seen["jobs"])]
        causes.append(f"{name}: {failed[name]}")
    raise UndeterminedError("\n".join(["whether jobs run is unknown:", *causes]), path=f"stack {running.name}", hint=_FORCE)


def _reasons(node: str, states: Sequence[str], jobs: Sequence[str]) -> list[str]:
    """Return why a node may not be powered off.

    >>> _reasons("worker0", ["IDLE"], []), _reasons("worker0", ["DRAIN", "IDLE"], [])
    (['worker0 is not drained (IDLE)'], [])
    """
    if jobs:
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        return [f"{node} runs job {', '.join(jobs[:3])}{more}"]
    return [] if _HELD & set(states) else [f"{node} is not drained ({'+'.join(states)})"]
