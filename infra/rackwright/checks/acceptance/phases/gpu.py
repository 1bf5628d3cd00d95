"""GPUs are healthy, as fast as their model, and alike; a small training gets faster with more GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rackwright import catalog
from rackwright.catalog.compatibility import NVSWITCH_GPUS
from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import health, records
from rackwright.checks.acceptance.evaluators.scaling import scaling
from rackwright.checks.acceptance.evaluators.speed import speed
from rackwright.checks.acceptance.parsers import dcgm, nvidia_smi
from rackwright.checks.acceptance.phase import Finding, Job, Outputs, Phase, PhaseScope, guarded, program, skipped, unknown
from rackwright.checks.acceptance.phases.nccl import gpu_model, gpu_parts, node_counts
from rackwright.checks.cluster.probes.nvidia_smi import query
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason, Verdict

SPEEDS: Final = {
    "matmul_is_fast": (Quantity.MATMUL_BF16,),
    "memory_is_fast": (Quantity.HBM_COPY,),
    "host_link_is_fast": (Quantity.HOST_TO_DEVICE, Quantity.DEVICE_TO_HOST),
    "peer_copies_are_fast": (Quantity.PEER_COPY,),
}
MODES: Final = {"ddp": Quantity.TRAINING_DDP, "fsdp": Quantity.TRAINING_FSDP}
QUERY: Final = (
    "index",
    "name",
    "memory.total",
    "driver_version",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "clocks.max.sm",
    "clocks_event_reasons.active",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
DCGM_SECONDS: Final = 2700
"""Level 3 takes about 15 minutes (docs.nvidia.com, dcgmi diag); the limit is three times that."""
_TOOLS: Final = (
    ("health", ("sh", "-c", query(QUERY, titles=True)), 60),
    ("nvlink", ("nvidia-smi", "nvlink", "--status"), 60),
    ("machine", ("systemd-detect-virt", "--vm"), 10),
    ("dcgm", ("dcgmi", "diag", "-r", "3", "-j"), DCGM_SECONDS),
)


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return the jobs for health and diagnosis, then speeds, on all nodes at once; then training on one node, on two, four … and all."""
    queries = tuple(json.dumps(each) for each in _TOOLS)
    found = []
    for part in gpu_parts(scope):
        gpus = scope.gpus(part.nodes[0])
        for node in part.nodes:
            found.append(
                Job(
                    f"health-{node}",
                    (node,),
                    program("tools.py"),
                    queries,
                    gpus_per_node=gpus,
                    whole_nodes=True,
                    limit_s=DCGM_SECONDS + 180,
                )
            )
            found.append(_job(scope, f"speed-{node}", (node,), "gpu_speed.py", (), gpus, 1, tasks=1))
        for step, mode in enumerate(MODES):
            for node in part.nodes:
                found.append(_job(scope, f"{mode}-{node}", (node,), "training.py", ("--mode", mode), gpus, 2 + step, tasks=gpus))
            for number, size in enumerate(node_counts(len(part.nodes))):
                found.append(
                    _job(
                        scope,
                        f"{mode}-{size}-{part.name}",
                        part.nodes[:size],
                        "training.py",
                        ("--mode", mode),
                        gpus,
                        10 + 2 * number + step,
                        tasks=gpus,
                    )
                )
    return found


def _job(
    scope: PhaseScope, name: str, nodes: tuple[str, ...], file: str, words: tuple[str, ...], gpus: int, round: int, *, tasks: int
) -> Job:
    pytorch = scope.declared.node_stack.get("pytorch")
    return Job(
        name,
        nodes,
        program(file),
        words,
        tasks_per_node=tasks,
        gpus_per_node=gpus,
        whole_nodes=True,
        limit_s=900,
        round=round,
        interpreter=f"{pytorch['folder']}/bin/python" if pytorch else "python3",
    )


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the findings: health from the tools, speeds per GPU, training per node and its scaling."""
    nodes = [node for part in gpu_parts(scope) for node in part.nodes]
    for node in nodes:
        read = partial(records.record, outputs.get(f"health-{node}"), node)
        yield from _health(scope, node, read)
    for check, quantities in SPEEDS.items():
        yield from _fast(scope, outputs, nodes, check, quantities)
    for mode, quantity in MODES.items():
        yield from _training(scope, outputs, nodes, mode, quantity)
    for part in gpu_parts(scope):
        points = _points(outputs, part.nodes, "ddp")
        for node in part.nodes:
            alone = len(part.nodes) < 2
            yield (
                skipped("training_scales", node, SkipReason.NOT_IN_PLAN)
                if alone
                else guarded("training_scales", node, partial(_scaling, node, points))
            )


def _scaling(node: str, points: Callable[[], Mapping[int, float]]) -> Finding:
    return scaling("training_scales", node, points(), "tokens/s")


def _judged(test: Callable[..., Finding], check: str, node: str, read: Callable[[], dict[str, Any]], gpus: int) -> Finding:
    return test(check, node, nvidia_smi.parse_health(records.tool(read(), "health", both=True)), gpus)


def _health(scope: PhaseScope, node: str, read: Callable[[], dict[str, Any]]) -> Iterator[Finding]:
    gpus = scope.gpus(node)
    for check, test in health.CHECKS.items():
        if test is health.pcie:
            test = partial(_lanes, read)
        yield guarded(
            check,
            node,
            partial(_judged, test, check, node, read, gpus),
        )
    if gpus > 1 and catalog.gpus()[gpu_model(scope, node)].nvlink:
        partitioned = catalog.gpus()[gpu_model(scope, node)].nvswitch and gpus < NVSWITCH_GPUS
        yield guarded("nvlinks_are_up", node, partial(_nvlinks, node, read, gpus, partitioned))
    else:
        yield skipped("nvlinks_are_up", node, SkipReason.NOT_IN_PLAN)
    yield guarded("dcgm_passes", node, partial(_diagnosis, node, read, gpus))


def _nvlinks(node: str, read: Callable[[], dict[str, Any]], gpus: int, partitioned: bool) -> Finding:
    """Return the finding on the links. In a virtual machine with a part of a board, the hypervisor switches links to other parts off."""
    found = read()
    finding = health.nvlinks("nvlinks_are_up", node, nvidia_smi.parse_nvlinks(records.tool(found, "nvlink")), gpus)
    if finding.verdict is Verdict.FAILED and partitioned and _is_guest(found):
        reason = f"the virtual machine has {gpus} GPUs of a board with NVSwitch, whose other links are off ({finding.found})"
        return unknown("nvlinks_are_up", node, reason)
    return finding


def _is_guest(found: Mapping[str, Any]) -> bool:
    """Return whether the node is a virtual machine: systemd-detect-virt then ends with 0."""
    return bool(found.get("machine", {"rc": 1})["rc"] == 0)


def _lanes(read: Callable[[], dict[str, Any]], check: str, node: str, gpus: health.Gpus, planned: int) -> Finding:
    """Return the finding on the lanes, by the kind of machine."""
    return (health.provided_pcie if _is_guest(read()) else health.pcie)(check, node, gpus, planned)


def _diagnosis(node: str, read: Callable[[], dict[str, Any]], gpus: int) -> Finding:
    found = read()
    tests = dcgm.parse(records.tool(found, "dcgm"))
    return health.whole_diagnosis("dcgm_passes", node, tests, gpus, int(found["dcgm"]["rc"]))


def _fast(scope: PhaseScope, outputs: Outputs, nodes: Sequence[str], check: str, quantities: Sequence[Quantity]) -> Iterator[Finding]:
    """Yield the speed of each node, which is that of its slowest GPU, by name; peers are all GPUs of the model."""
    silent, found = set[str](), dict[str, list[Finding]]()
    for quantity in quantities:
        values = dict[str, float]()
        for node in nodes:
            if node in silent:
                continue
            try:
                values.update(_by_gpu(outputs, node, quantity, scope.gpus(node)))
            except UndeterminedError as error:
                silent.add(node)
                yield unknown(check, node, str(error))
        hardware = {key: gpu_model(scope, key.split("/")[0]) for key in values}
        before = {
            key: value
            for key in values
            if (value := scope.baseline.get(f"gpu.{check}[{key.split('/')[0]}] {quantity.value}-{key.split('/')[1]}"))
        }
        for finding in speed(check, quantity, values, hardware=hardware, baseline=before):
            found.setdefault(finding.node.split("/")[0], []).append(finding)
    for node in nodes:
        if node in found and node not in silent:
            yield _slowest(check, node, found[node])
        elif node not in silent:
            yield skipped(check, node, SkipReason.NOT_IN_PLAN)


def _by_gpu(outputs: Outputs, node: str, quantity: Quantity, gpus: int) -> dict[str, float]:
    """Return the lowest value of each GPU, by `node/GPU 3`; every GPU must have one."""
    figures = [each for each in records.record(outputs.get(f"speed-{node}"), node)["figures"] if each["quantity"] == quantity.value]
    measured = {each["gpu"] for each in figures}
    if quantity is Quantity.PEER_COPY and gpus == 1:
        return {}
    if measured != set(range(gpus)):
        raise UndeterminedError(f"{quantity.value} was measured on {len(measured)} of {gpus} GPUs")
    return {f"{node}/GPU {gpu}": min(float(each["value"]) for each in figures if each["gpu"] == gpu) for gpu in sorted(measured)}


def _slowest(check: str, node: str, findings: Sequence[Finding]) -> Finding:
    order = list(Verdict)
    worst = max(findings, key=lambda each: (order.index(each.verdict), -each.measurements[0].value if each.measurements else 0))
    figures = tuple(
        type(figure)(f"{figure.name}-{each.node.split('/')[1]}", figure.value, figure.unit)
        for each in findings
        for figure in each.measurements
    )
    gpu = worst.node.split("/")[1]
    return Finding(
        check, node, worst.verdict, f"{gpu}: {worst.reason}" if worst.reason else "", worst.expected, f"{gpu} {worst.found}", figures
    )


def _training(scope: PhaseScope, outputs: Outputs, nodes: Sequence[str], mode: str, quantity: Quantity) -> Iterator[Finding]:
    """Yield the training speed of each node alone; the loss must fall: repeated random tokens can be memorised."""
    check, values = f"training_{mode}_is_fast", dict[str, float]()
    for node in nodes:
        try:
            found = records.record(outputs.get(f"{mode}-{node}"), node)
            if found["ranks"] != scope.gpus(node):
                raise UndeterminedError(f"{found['ranks']} of {scope.gpus(node)} GPUs trained")
            if not found["last_loss"] < found["first_loss"]:
                yield Finding(
                    check,
                    node,
                    Verdict.FAILED,
                    f"the loss went from {found['first_loss']:.3f} to {found['last_loss']:.3f}",
                    "a loss that falls",
                )
                continue
            values[node] = float(found["tokens_s"])
        except UndeterminedError as error:
            yield unknown(check, node, str(error))
    hardware = {node: f"{gpu_model(scope, node)}-{scope.gpus(node)}" for node in values}
    before = {node: value for node in values if (value := scope.baseline.get(f"gpu.{check}[{node}] {quantity.value}"))}
    yield from speed(check, quantity, values, hardware=hardware, baseline=before)


def _points(outputs: Outputs, nodes: Sequence[str], mode: str) -> Callable[[], Mapping[int, float]]:
    """Return a function for the tokens per second by number of GPUs: the best single node, and every larger run."""

    def look() -> Mapping[int, float]:
        points = dict[int, float]()
        for output in outputs.values():
            if output.job.name.startswith(f"{mode}-") and set(output.job.nodes) <= set(nodes):
                found = records.record(output, output.job.nodes[0])
                points[found["ranks"]] = max(points.get(found["ranks"], 0), float(found["tokens_s"]))
        return points

    return look


PHASE: Final = Phase("gpu", "GPUs", evaluate=evaluate, jobs=jobs)
