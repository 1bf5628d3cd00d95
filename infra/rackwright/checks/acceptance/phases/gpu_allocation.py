"""Jobs get the GPUs that they request, no others, and all of them work; also when two jobs share a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from rackwright.checks.acceptance.phase import AcceptanceProbe, Finding, Job, Outputs, Part, Phase, PhaseScope, compared, guarded, skipped
from rackwright.checks.acceptance.smoke import TASK, answer, arguments, probe_job, record_on
from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.probes.gpu import GPUS
from rackwright.checks.cluster.probes.nvidia_smi import GpuList
from rackwright.checks.cluster.probes.smoke import gpus_to_ask
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason

OPENED: Final = AcceptanceProbe(
    "acceptance-opened",
    on="gpu",
    command='for f in /dev/nvidia[0-9]*; do (exec 3<>"$f") 2>/dev/null && echo "$f"; done; true',
    parse=lambda text: tuple(text.split()),
)
"""Device files of GPUs that a job may open, as the cgroup allows, not as the environment states."""
FILES: Final = AcceptanceProbe(
    "acceptance-files",
    on="gpu",
    command='for f in /dev/nvidia[0-9]*; do [ -e "$f" ] && echo "$f"; done; true',
    parse=lambda text: tuple(text.split()),
)
"""Device files of GPUs that a pod has; simulated ones cannot be opened, because no driver serves them."""
_ALL: Final = 2
"""Round of the jobs that use every GPU of a node."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return the jobs without GPUs, with some GPUs, twice at the same time, and with all."""
    found: list[Job] = []
    meeting = scope.folder or "/dev/shm"
    for part in _parts(scope):
        first, second = gpus_to_ask([scope.gpus(part.nodes[0])])
        # The two jobs of a node exchange a file: only then is it certain that they ran at the same time.
        names = [f"{word}-{part.name}-{scope.run}" for word in ("first", "second")]
        exchange = arguments(meeting=meeting, me=names[0], other=names[1] if second else "")
        found.append(Job(f"none-{part.name}", part.nodes, TASK, arguments()))
        found.append(Job(f"first-{part.name}", part.nodes, TASK, exchange, gpus_per_node=first, round=1, shared=True))
        if second:
            exchange = arguments(meeting=meeting, me=names[1], other=names[0])
            found.append(Job(f"second-{part.name}", part.nodes, TASK, exchange, gpus_per_node=second, round=1, shared=True))
        count = scope.gpus(part.nodes[0])
        found.append(probe_job(f"all-{part.name}", part.nodes, _whole(scope), gpus_per_node=count, round=_ALL))
        if _confined(scope):
            found.append(probe_job(f"opened-{part.name}", part.nodes, OPENED, gpus_per_node=first, round=_ALL + 1))
    return found


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings per node, from the GPUs that the jobs were given and those that they found."""
    for part in _parts(scope):
        for node in part.nodes:
            yield guarded("no_gpu_without_request", node, partial(_none, outputs, part, node))
            yield guarded("gets_requested_gpus", node, partial(_given, outputs, part, node))
            if f"second-{part.name}" in outputs:
                yield guarded("gpus_exclusive", node, partial(_apart, outputs, part, node))
            else:
                yield skipped("gpus_exclusive", node, SkipReason.NOT_IN_PLAN)
            yield guarded("all_gpus_answer", node, partial(_all, scope, outputs, part, node))
            if _confined(scope):
                yield guarded("other_gpus_inaccessible", node, partial(_opened, outputs, part, node))
            else:
                yield skipped("other_gpus_inaccessible", node, SkipReason.NOT_IN_PLAN)


def _none(outputs: Outputs, part: Part, node: str) -> Finding:
    task = record_on(outputs[f"none-{part.name}"], node)
    hidden = task.visible in (None, (), ("NoDevFiles",))
    return compared("no_gpu_without_request", node, task.visible or (), "none", holds=hidden and not task.gpus)


def _given(outputs: Outputs, part: Part, node: str) -> Finding:
    output = outputs[f"first-{part.name}"]
    task, requested = record_on(output, node), output.job.gpus_per_node
    found = f"{len(set(task.gpus))} given, {len(task.visible or ())} visible"
    return compared("gets_requested_gpus", node, found, f"{requested} given, {requested} visible")


def _apart(outputs: Outputs, part: Part, node: str) -> Finding:
    first, second = (record_on(outputs[f"{word}-{part.name}"], node) for word in ("first", "second"))
    if first.ended < second.began or second.ended < first.began:
        raise UndeterminedError("the two jobs did not run at the same time")
    good = bool(first.gpus and second.gpus) and not set(first.gpus) & set(second.gpus)
    return compared("gpus_exclusive", node, f"{','.join(first.gpus)} and {','.join(second.gpus)}", "none in common", holds=good)


def _all(scope: PhaseScope, outputs: Outputs, part: Part, node: str) -> Finding:
    output = outputs[f"all-{part.name}"]
    if scope.in_pods and "Insufficient" in output.missing_output.get(
        node, ""
    ):  # A node that lacks a GPU never gets the pod that requests all.
        return compared("all_gpus_answer", node, output.missing_output[node], f"{scope.gpus(node)} GPUs")
    gpus = answer(output, node, _whole(scope))
    planned = scope.gpus(node)
    found = gpus.responding(planned) if isinstance(gpus, GpuList) else len(gpus)
    found = f"{found} GPUs" if isinstance(found, int) else found
    return compared("all_gpus_answer", node, found, f"{planned} GPUs")


def _whole(scope: PhaseScope) -> Probe[Any]:
    """Return the probe of a job with all GPUs of a node: the driver's list; in pods with simulated GPUs (no driver), their files."""
    return FILES if scope.in_pods and "gpu" in scope.declared.simulated else GPUS


def _opened(outputs: Outputs, part: Part, node: str) -> Finding:
    output = outputs[f"opened-{part.name}"]
    opened = answer(output, node, OPENED)
    return compared("other_gpus_inaccessible", node, f"{len(opened)} opened", f"{output.job.gpus_per_node} opened")


def _parts(scope: PhaseScope) -> list[Part]:
    """Return parts of nodes with equal numbers of GPUs, within the user's quota; nodes without GPUs are left out."""
    found = []
    for part in scope.parts:
        for count, nodes in groupby(sorted(part.nodes, key=scope.gpus), key=scope.gpus):
            names = tuple(nodes)
            at_once = max(1, scope.max_gpus // count) if count and scope.max_gpus is not None else len(names)
            pieces = [names[start : start + at_once] for start in range(0, len(names) if count else 0, at_once)]
            found += [Part(f"{part.name}-{count}" + (f"-{number}" if number else ""), piece) for number, piece in enumerate(pieces)]
    return found


def _confined(scope: PhaseScope) -> bool:
    """Return whether the plan confines jobs to their devices by cgroups, and there are devices that can be opened."""
    confines = scope.in_pods or "devices" in (scope.declared.cluster["scheduler"].get("constrains") or ())
    return confines and "gpu" not in scope.declared.simulated


PHASE: Final = Phase("gpu_allocation", "GPU allocation", evaluate, jobs, cleanup_patterns=("first-*", "second-*"))
