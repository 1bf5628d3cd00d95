"""Collectives over 1, 8, 16 … GPUs: right results, over the declared network, as fast as the links allow, and monitored meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from rackwright import catalog
from rackwright.catalog.compatibility import has_nvlink_rack, has_nvswitch
from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import collectives, monitoring, records
from rackwright.checks.acceptance.evaluators.collectives import ExpectedTopology, PeerLinks
from rackwright.checks.acceptance.evaluators.topology import gpus_connected
from rackwright.checks.acceptance.parsers import nccl, nvidia_smi
from rackwright.checks.acceptance.parsers.nccl import Run
from rackwright.checks.acceptance.parsers.nccl_log import Transport
from rackwright.checks.acceptance.phase import Finding, Job, Output, Outputs, Part, Phase, PhaseScope, guarded, program, skipped, unknown
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason, Verdict

COLLECTIVES: Final = (Quantity.ALL_REDUCE, Quantity.ALL_GATHER, Quantity.REDUCE_SCATTER, Quantity.ALLTOALL)
FOLDER: Final = "/opt/nccl-tests"
"""Folder in which the role `nccl` builds the programs, per set of versions; used if they are not on PATH."""
SIZES: Final = ("-b", "8", "-e", "16G", "-f", "2", "-c", "1")
SECONDS: Final = 600
"""For one run: 32 sizes, 16 GiB at the end. A run that hangs ends then."""
_RUN: Final = program("collective.py")
_TOOLS: Final = program("tools.py")
_WITHOUT_NVLS: Final = frozenset({"volta", "ampere"})
"""Architectures whose NVSwitches do not reduce (NCCL 2.17 release notes: NVLink SHARP on Hopper and later)."""
_BEFORE_AMPERE: Final = frozenset({"pascal", "volta", "turing"})
_EFA_WITHOUT_GPUDIRECT: Final = re.compile(r"(g\d|p3)\w*\.")
"""Instance types on which aws-ofi-nccl does not require GPUDirect (src/platform-aws: gdr_required is false, or no row)."""
_FAST: Final = tuple(f"{each.value}_is_fast" for each in COLLECTIVES)
_CHECKS: Final = (
    "results_are_right",
    "gpus_are_connected",
    "data_goes_over_the_declared_network",
    "gpudirect_is_on",
    "gpu_activity_seen",
    "rails_carried_data",
)


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return the jobs on one GPU of each node, on each node, then on 2, 4, 8 … nodes, and all. Jobs that share links run one by one."""
    found: list[Job] = []
    for part in gpu_parts(scope):
        gpus = scope.gpus(part.nodes[0])
        found.extend(_job(scope, f"one-{node}", (node,), 1, Quantity.ALL_REDUCE, 0) for node in part.nodes)
        if gpus > 1:
            found.extend(
                _job(scope, f"{_word(each)}-{node}", (node,), gpus, each, 1 + number)
                for number, each in enumerate(COLLECTIVES)
                for node in part.nodes
            )
        if gpus > 1 and _links(gpu_model(scope, part.nodes[0])) is PeerLinks.ALL:
            found.extend(_topology_job(node, gpus) for node in part.nodes)
        sizes = enumerate(node_counts(len(part.nodes)))
        found.extend(
            _job(scope, f"{_word(each)}-{size}-{part.name}", part.nodes[:size], gpus, each, 10 + 4 * step + number)
            for step, size in sizes
            for number, each in enumerate(COLLECTIVES)
        )
    return found


def _job(scope: PhaseScope, name: str, nodes: tuple[str, ...], gpus: int, quantity: Quantity, round: int) -> Job:
    """Return a job: inside a node one task drives all its GPUs; over several nodes there is one task per GPU."""
    several = len(nodes) > 1
    options = (
        "--folder",
        built_folder(scope),
        "--seconds",
        str(SECONDS),
        f"{quantity.value}_perf",
        *SIZES,
        "-g",
        "1" if several else str(gpus),
    )
    return Job(
        name,
        nodes,
        _RUN,
        options,
        tasks_per_node=gpus if several else 1,
        gpus_per_node=gpus,
        whole_nodes=True,
        limit_s=SECONDS + 60,
        round=round,
        mpi=True,
        environment={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,P2P,SHM"},
    )


def _topology_job(node: str, gpus: int) -> Job:
    words = (json.dumps(["topo", ["nvidia-smi", "topo", "-m"], 60]),)
    return Job(f"topo-{node}", (node,), _TOOLS, words, gpus_per_node=gpus, whole_nodes=True, limit_s=120, round=5)


def _links(model: str) -> PeerLinks:
    """Return the links between the GPUs of a node; a model that the catalogue does not have is taken to have NVLink."""
    gpu = catalog.gpus().get(model)
    if gpu is None or (gpu.nvlink and gpu.architecture not in _BEFORE_AMPERE):
        return PeerLinks.ALL
    return PeerLinks.SOME if gpu.nvlink else PeerLinks.NONE


def built_folder(scope: PhaseScope) -> str:
    """Return the folder of the programs that were built for the stack's versions."""
    versions = (scope.declared.cluster.get("software") or {}).get("versions") or {}
    if "nccl-tests" not in versions:
        return f"{FOLDER}/build"
    return f"{FOLDER}/{versions['nccl-tests']}-cuda{versions['cuda']}-nccl{versions['nccl']}/source/build"


def _word(quantity: Quantity) -> str:
    return quantity.value.replace("_", "-")


def node_counts(count: int) -> Sequence[int]:
    """Return 2, 4, 8 … nodes, and all of them; nothing for a single node.

    >>> node_counts(6), node_counts(1)
    ((2, 4, 6), ())
    """
    doubled = [2**step for step in range(1, count.bit_length()) if 2**step < count]
    return (*doubled, count) if count > 1 else ()


def gpu_parts(scope: PhaseScope) -> Iterator[Part]:
    """Yield nodes with GPUs that one job can span, grouped by number and model of GPUs."""
    for part in scope.parts:
        nodes = sorted((node for node in part.nodes if scope.gpus(node)), key=lambda node: (gpu_model(scope, node), scope.gpus(node)))
        for number, (_, alike) in enumerate(groupby(nodes, key=lambda node: (gpu_model(scope, node), scope.gpus(node)))):
            yield Part(f"{part.name}-{number}", tuple(sorted(alike)))


def gpu_model(scope: PhaseScope, node: str) -> str:
    return str(scope.declared.nodes[node]["gpus"]["model"])


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield for each check the worst finding of all runs in which a node took part."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for output in outputs.values():
        for finding in _connected(scope, output) if output.job.program is _TOOLS else _of(scope, output):
            found.setdefault((finding.check, finding.node), []).append(finding)
    for (check, node), all_of_it in found.items():
        yield _together(check, node, all_of_it)
    for node in dict.fromkeys(node for output in outputs.values() for node in output.job.nodes):
        # One GPU or one node alone: no run could measure it.
        yield from (skipped(check, node, SkipReason.NOT_IN_PLAN) for check in (*_CHECKS, *_FAST) if (check, node) not in found)


def _connected(scope: PhaseScope, output: Output) -> Iterator[Finding]:
    """Yield the finding on the links between the GPUs of a node."""
    node, check = output.job.nodes[0], "gpus_are_connected"
    read = partial(records.record, output, node)
    yield guarded(
        check, node, lambda: gpus_connected(check, node, nvidia_smi.parse_topology(records.tool(read(), "topo")), scope.gpus(node))
    )


def _together(check: str, node: str, findings: Sequence[Finding]) -> Finding:
    """Return the worst finding, with the figures of all."""
    order = list(Verdict)
    worst = max(findings, key=lambda each: order.index(each.verdict))
    figures = tuple(figure for each in findings for figure in each.measurements)
    return Finding(check, node, worst.verdict, worst.reason, worst.expected, worst.found, figures)


def _of(scope: PhaseScope, output: Output) -> Iterator[Finding]:
    """Yield the findings of one run. If its output cannot be read, all its checks are unknown."""
    job = output.job
    quantity = Quantity(job.arguments[4].removesuffix("_perf"))
    several, gpus = len(job.nodes) > 1, job.gpus_per_node
    checks = [
        each for each in _CHECKS if each != "gpus_are_connected" and (several or each not in ("gpudirect_is_on", "rails_carried_data"))
    ]
    bandwidth = f"{quantity.value}_is_fast" if gpus > 1 or several else ""
    try:
        reports = {node: records.record(output, node) for node in job.nodes}
        run = nccl.parse("\n".join(f"{task_said['out']}\n{task_said['err']}" for task_said in _all_said(output)))
    except UndeterminedError as error:
        yield from (unknown(check, node, f"{job.name}: {error}") for node in job.nodes for check in (*checks, bandwidth) if check)
        return
    wanted = _wanted(scope, output, reports)
    yield from _each("results_are_right", job, lambda: collectives.results("results_are_right", run, wanted))
    if gpus > 1 or several:
        yield from collectives.transport("data_goes_over_the_declared_network", run, wanted)
        yield from _each(bandwidth, job, lambda: _fast(scope, output, quantity, run, wanted, bandwidth))
    if several and wanted.network:
        yield from collectives.gpudirect("gpudirect_is_on", run, wanted)
    yield from (finding for node in job.nodes for finding in _watched(output, node, reports[node], wanted))


def _each(check: str, job: Job, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of one check; unknown on every node of the run if a value was not read. Other checks are not affected."""
    try:
        yield from tuple(look())
    except UndeterminedError as error:
        yield from (unknown(check, node, f"{job.name}: {error}") for node in job.nodes)


def _all_said(output: Output) -> Iterator[dict[str, Any]]:
    return (records.parse(task, output) for task in output.tasks)


def _fast(scope: PhaseScope, output: Output, quantity: Quantity, run: Run, wanted: ExpectedTopology, check: str) -> Iterator[Finding]:
    """Yield the bandwidth. The figure's name contains the number of GPUs: a result of 16 is not compared with one of 8."""
    name = f"{quantity.value}-{wanted.ranks}"
    before = {node: value for node in wanted.nodes if (value := scope.baseline.get(f"nccl.{check}[{node}] {name}")) is not None}
    for finding in collectives.bandwidth(check, quantity, run, wanted, before):
        figures = tuple(type(figure)(name, figure.value, figure.unit) for figure in finding.measurements)
        reason = f"{output.job.name}: {finding.reason}" if finding.reason else ""
        yield Finding(check, finding.node, finding.verdict, reason, finding.expected, finding.found, figures)


def _watched(output: Output, node: str, report: Mapping[str, Any], wanted: ExpectedTopology) -> Iterator[Finding]:
    """Yield the findings of the monitoring during the run."""
    samples = partial(monitoring.parse, report.get("samples", ()))
    yield guarded("gpu_activity_seen", node, lambda: monitoring.gpus_worked("gpu_activity_seen", node, samples(), output.job.gpus_per_node))
    rails = tuple(wanted.rails.get(node, ()))
    if len(wanted.nodes) > 1 and rails:
        yield guarded("rails_carried_data", node, lambda: monitoring.rails_carried("rails_carried_data", node, samples(), rails))
    elif len(wanted.nodes) > 1:
        yield skipped("rails_carried_data", node, SkipReason.NOT_IN_PLAN)


def _wanted(scope: PhaseScope, output: Output, reports: Mapping[str, Mapping[str, Any]]) -> ExpectedTopology:
    """Return the plan's values: InfiniBand or RoCE if the plan has a fabric; EFA if a machine has such adapters, which AWS connects."""
    job, first = output.job, output.job.nodes[0]
    fabric: Mapping[str, Any] = scope.declared.fabric or {}
    gpu, instance = catalog.gpus().get(gpu_model(scope, first)), str(reports[first].get("machine", ""))
    old = gpu is not None and gpu.architecture in _BEFORE_AMPERE
    efa = any(each.get("efa") for each in reports.values())
    rails = {node: tuple(scope.declared.nodes[node].get("rails") or ()) for node in job.nodes} if fabric else {}
    return ExpectedTopology(
        nodes=job.nodes,
        gpus_per_node=job.gpus_per_node,
        gpu=gpu_model(scope, first),
        network=Transport.INFINIBAND if fabric else Transport.LIBFABRIC if efa else None,
        link=str(fabric.get("rate", "")).lower(),
        nics=len(rails.get(first, ())),
        instance=instance,
        nvls=gpu is not None and has_nvswitch(gpu, job.gpus_per_node) and gpu.architecture not in _WITHOUT_NVLS,
        rails=rails,
        links=_links(gpu_model(scope, first)),
        nvlink_domain=gpu is not None and has_nvlink_rack(gpu),
        gpudirect=not (gpu is not None and "GeForce" in gpu.product) and not _EFA_WITHOUT_GPUDIRECT.match(instance),
        gpudirect_sends=not old or (gpu is not None and gpu.nvlink) or job.gpus_per_node == 1,
    )


PHASE: Final = Phase("nccl", "NCCL collectives", evaluate=evaluate, jobs=jobs)
