"""Tasks run where they were submitted to: one on a node, two on a node, two on two nodes, each with a rank of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Phase, PhaseScope, Program, compared, guarded, skipped
from rackwright.report.verdict import SkipReason

_NOTHING: Final = Program("nothing.py", '"""Prints nothing: the launcher prints the identity of the task."""\n')
_PAIRS: Final = 2
"""First round of the pairs; a third round covers the node that an odd number leaves over."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return jobs with one and two tasks on every node, then pairs of nodes: a few at a time would take minutes on a large cluster."""
    found = [Job(f"one-{node}", (node,), _NOTHING) for node in scope.nodes]
    found += [Job(f"two-{node}", (node,), _NOTHING, tasks_per_node=2, round=1) for node in scope.nodes]
    return [*found, *(Job(name, pair, _NOTHING, round=number) for name, pair, number in _pairs(scope))]


def _pairs(scope: PhaseScope) -> list[tuple[str, tuple[str, str], int]]:
    """Return name, nodes and round of the jobs over two nodes: every node with another in its part is in one of them."""
    found = []
    for part in scope.parts:
        nodes = part.nodes
        couples = list(zip(nodes[::2], nodes[1::2], strict=False))
        found += [(f"pair-{first}", (first, second), _PAIRS) for first, second in couples]
        if len(nodes) % 2 and couples:
            found.append((f"pair-{nodes[-1]}", (nodes[0], nodes[-1]), _PAIRS + 1))
    return found


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings of each node from its jobs."""
    pairs = {node: outputs[name] for name, nodes, _ in reversed(_pairs(scope)) for node in nodes}
    for node in scope.nodes:
        yield guarded("one_task_on_one_node", node, partial(_placed, scope, "one_task_on_one_node", node, outputs[f"one-{node}"]))
        yield guarded("two_tasks_on_one_node", node, partial(_placed, scope, "two_tasks_on_one_node", node, outputs[f"two-{node}"]))
        if node in pairs:
            yield guarded("two_tasks_on_two_nodes", node, partial(_placed, scope, "two_tasks_on_two_nodes", node, pairs[node]))
        else:
            alone = len(scope.compute) == 1
            yield skipped("two_tasks_on_two_nodes", node, SkipReason.NOT_IN_PLAN if alone else SkipReason.NODE_BUSY)


def _placed(scope: PhaseScope, check: str, node: str, output: Output) -> Finding:
    """Return which rank ran where; a job that did not run was not placed."""
    job = output.job
    ranks = range(len(job.nodes) * job.tasks_per_node)
    planned = {f"rank {rank}": job.nodes[rank // job.tasks_per_node] for rank in ranks}
    found = {f"rank {task.rank}": task.host for task in output.tasks}
    if scope.in_pods and len(job.nodes) > 1:  # The scheduler decides which index runs on which node.
        found = {**dict.fromkeys(sorted(found), "somewhere"), "nodes": ", ".join(sorted(task.host for task in output.tasks))}
        planned = {**dict.fromkeys(sorted(planned), "somewhere"), "nodes": ", ".join(sorted(job.nodes))}
    return compared(check, node, found if output.tasks else output.missing_reason(node), planned)


PHASE: Final = Phase("task_placement", "Task placement", evaluate, jobs)
