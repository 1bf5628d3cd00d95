"""Phases that run packaged benchmarks, fio and HPCC: forms of their output, verdicts on good and sick nodes, and plans without them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from rackwright import inventory
from rackwright.catalog.checks import Feature, Level, acceptance
from rackwright.checks.acceptance.parsers import fio
from rackwright.checks.acceptance.parsers import hpcc as hpcc_parser
from rackwright.checks.acceptance.phase import Job, PhaseScope
from rackwright.checks.acceptance.phases import file_io, hpcc
from rackwright.errors import UndeterminedError
from rackwright.inventory import Host, paths
from rackwright.inventory.reader import from_inventory
from rackwright.plan import expand
from rackwright.report.check_plan import plan_checks
from rackwright.report.verdict import Evidence
from rackwright.stackfile.load import load_stack
from rackwright.yaml_loader import load_yaml

from .played import FAILED, FOUR, NODES, SKIPPED, UNKNOWN, checks_of, judged, scope, text, verdicts


def fio_json(
    *, error: int = 0, write: float | None = 5000.0, read: float | None = 9000.0, version: str = "fio-3.33", **jobs: object
) -> str:
    """Return the JSON of one job; None for a direction that moved nothing."""

    def direction(rate: float | None) -> dict[str, object]:
        percentile = {"percentile": {"99.000000": 1_500_000}}
        return {"io_bytes": 0, "iops": 0.0} if rate is None else {"io_bytes": 2**24, "iops": rate, "clat_ns": percentile}

    job = {"jobname": "io", "groupid": 0, "error": error, "read": direction(read), "write": direction(write)}
    return json.dumps({"fio version": version, "jobs": [job], **jobs}, indent=2) + "\n"


FIO_FORMS = {
    "plain": fio_json(),
    "CRLF": fio_json().replace("\n", "\r\n"),
    "message before": "fio: this platform does not support process shared mutexes, forcing use of threads.\n" + fio_json(),
    "message with a brace": "note: ioengine={psync} ignores iodepth {1}\n{\n" + fio_json().removeprefix("{\n"),
    "message after": fio_json() + "fio: terminating on signal 15\n",
    "not a number in another value": fio_json().replace('"groupid": 0', '"groupid": 0, "latency_depth": -nan'),
    "clients": fio_json().replace('"jobs"', '"client_stats"'),
    "disks": fio_json(disk_util=[{"name": "vda", "util": 97.1}]),
}


@pytest.mark.parametrize("form", FIO_FORMS)
def test_form_of_fio_is_read(form: str) -> None:
    found = fio.parse(FIO_FORMS[form])
    assert (found.operations_s("write"), found.operations_s("read"), found.errors) == (5000.0, 9000.0, {})


def test_fio_2_counts_kilobytes_and_microseconds() -> None:
    old = fio_json(version="fio-2.2.10").replace("clat_ns", "clat").replace("1500000", "1500")
    (read, _) = fio.parse(old).streams
    assert (read.bytes_moved, read.p99_ms) == (2**34, 1.5) and fio.parse(fio_json()).streams[0].p99_ms == 1.5


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "printed nothing"),
        ("fio: failed parsing directory=/x\n", "failed parsing"),
        (fio_json()[:200], "cut short"),
        ('{\n"fio version": "fio-3.33",\n"jobs": []\n}\n', "ran no job"),
        ('fio: pid=9, got signal=9\n{"fio version": "fio-3.33"}\n', "got signal=9"),
    ],
)
def test_fio_without_result_is_refused(said: str, reason: str) -> None:
    with pytest.raises(UndeterminedError, match=reason):
        fio.parse(said)


@pytest.mark.parametrize("cell", ["null", '"84"', "true", "84.0", "-nan"])
def test_unread_error_of_fio_is_not_none(cell: str) -> None:
    damaged = fio_json(error=84).replace('"error": 84', f'"error": {cell}')
    assert damaged != fio_json(error=84)
    with pytest.raises(UndeterminedError, match="ended with an error cannot be read"):
        fio.parse(damaged)


def test_unread_rate_of_fio_is_unknown() -> None:
    found = fio.parse(fio_json().replace("5000.0", "-nan"))
    assert found.operations_s("read") == 9000.0
    with pytest.raises(UndeterminedError, match="io write iops"):
        found.operations_s("write")


def io_said(write: object = None, read: object = None, rates: Mapping[str, float] | None = None) -> Callable[[Job, str, int], object]:
    """Return good results of fio, or those given as (status, output, errors); `rates`: share of the good rate by node."""

    def said(job: Job, node: str, rank: int) -> object:
        share = (rates or {}).get(node, 1.0)
        good = {"write": (0, fio_json(write=5000.0 * share), ""), "read": (0, fio_json(write=None, read=9000.0 * share), "")}
        given = {name: value for name, value in (("write", write), ("read", read)) if value is not None}
        return {name: dict(zip(("rc", "out", "err"), value, strict=True)) for name, value in {**good, **given}.items()}

    return said


def io_scope(nodes: tuple[str, ...] = NODES, **given: object) -> PhaseScope:
    return scope(nodes, tools=("fio",), scratch="/scratch", **given)


def test_good_file_systems_pass() -> None:
    found = judged(file_io, io_scope(), io_said())
    assert {check for check, _ in found} == checks_of("file_io") and verdicts(found) == {}
    assert found["scratch_reads_are_fast", "worker0"].found == "9,000 1/s"


RIGHT = ("blocks_are_right", "scratch_blocks_are_right")
WRITES = ("random_writes_are_fast", "scratch_writes_are_fast")
READS = ("random_reads_are_fast", "scratch_reads_are_fast")
CHECKSUM = "verify: bad magic header e7a1, wanted acca at file io.0.0 offset 16384, length 4096\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (io_said(write=(1, CHECKSUM + fio_json(error=84), "")), {RIGHT: FAILED, WRITES: UNKNOWN}),
        (
            io_said(write=(1, "fio: io_u error on file io.0.0: Input/output error\n" + fio_json(error=5), "")),
            {RIGHT: FAILED, WRITES: UNKNOWN},
        ),
        (io_said(read=(1, fio_json(error=5), "")), {RIGHT: FAILED, READS: UNKNOWN}),
        (io_said(write=(1, fio_json(error=28), "")), {RIGHT: UNKNOWN, WRITES: UNKNOWN}),
        (io_said(write=(1, fio_json(error=22, write=None, read=None), "")), {RIGHT: UNKNOWN, WRITES: UNKNOWN}),
        (io_said(write=(0, fio_json(read=None), "")), {RIGHT: UNKNOWN}),
        (io_said(write=(124, "", "fio did not end within 140 s")), {RIGHT: UNKNOWN, WRITES: UNKNOWN, READS: UNKNOWN}),
        (io_said(read=(137, "", "")), {RIGHT: UNKNOWN, WRITES: UNKNOWN, READS: UNKNOWN}),
        (io_said(write=(0, fio_json(write=0.0), "")), {WRITES: UNKNOWN}),
        (lambda *_: {"unknown": "fio is not installed"}, {RIGHT: UNKNOWN, WRITES: UNKNOWN, READS: UNKNOWN}),
    ],
    ids=(
        "checksum",
        "write error",
        "read error",
        "full",
        "no direct I/O",
        "not read back",
        "timed out",
        "killed",
        "no rate",
        "not installed",
    ),
)
def test_sick_file_system_never_passes(said: Callable[..., object], expected: Mapping[tuple[str, str], object]) -> None:
    planned = {f"{check}[{node}]": verdict for checks, verdict in expected.items() for check in checks for node in NODES}
    assert verdicts(judged(file_io, io_scope(), said)) == planned


def test_changed_block_is_quoted() -> None:
    found = judged(file_io, io_scope(), io_said(write=(1, CHECKSUM + fio_json(error=84), "")))["blocks_are_right", "worker0"]
    assert "a checksum differs" in found.reason and "bad magic header" in found.reason


def test_slow_node_is_named_against_peers_and_baseline() -> None:
    slow = judged(file_io, io_scope(FOUR), io_said(rates={"worker2": 0.5}))
    assert verdicts(slow) == {f"{check}[worker2]": FAILED for check in (*WRITES, *READS)}
    past = {"file_io.random_writes_are_fast[worker0] storage-random-write": 9000.0}
    assert verdicts(judged(file_io, io_scope(baseline=past), io_said())) == {"random_writes_are_fast[worker0]": FAILED}
    assert verdicts(judged(file_io, io_scope(FOUR, baseline=past, target="lab"), io_said(rates={"worker2": 0.5}))) == {}


def test_missing_folder_leaves_shared_file_system_unknown() -> None:
    about = dataclasses.replace(io_scope(), folder=None, error="Read-only file system")
    found = judged(file_io, about, io_said())
    assert verdicts(found) == {f"{check}[{node}]": UNKNOWN for check in (RIGHT[0], WRITES[0], READS[0]) for node in NODES}
    assert "Read-only file system" in found["blocks_are_right", "worker0"].reason


def hpcc_said(change: tuple[str, str] = ("", ""), **answer: object) -> Callable[[Job, str, int], object]:
    summary = text("hpcc", "good")
    assert change[0] in summary
    good = {"rc": 0, "out": "", "err": "", "processes": 1, "summary": summary.replace(*change) if change[0] else summary}
    return lambda job, node, rank: {**good, **answer}


CPU = ("results_are_right", "linpack_is_fast", "triad_is_fast")
HPCC_CASES = {
    "good": (hpcc_said(), {}),
    "a test failed": (hpcc_said(("Success=1", "Success=0")), {CPU[0]: FAILED}),
    "residual": (hpcc_said(("...... PASSED", "...... FAILED")), {CPU[0]: FAILED}),
    "residual in the count": (hpcc_said(("0 tests completed and failed", "1 tests completed and failed")), {CPU[0]: FAILED}),
    "wrong memory": (
        hpcc_said(("Found 0 errors in 131072 locations (passed).", "Found 9 errors in 131072 locations (failed).")),
        {CPU[0]: FAILED},
    ),
    "no memory": (hpcc_said(("Begin of StarSTREAM section.", "Failed to allocate memory (53333 3)")), dict.fromkeys(CPU, UNKNOWN)),
    "linpack without a number": (hpcc_said(("HPL_Tflops=0.00485947", "HPL_Tflops=-nan")), {CPU[1]: UNKNOWN}),
    "triad missing": (hpcc_said(("StarSTREAM_Triad=61.8174\n", "")), {CPU[2]: UNKNOWN}),
    "test not run": (hpcc_said(("StarSTREAM_Triad=61.8174", "StarSTREAM_Triad=-1")), {CPU[2]: UNKNOWN}),
    "cut": (hpcc_said(("End of Summary section.", "")), dict.fromkeys(CPU, UNKNOWN)),
    "too few slots": (hpcc_said(summary="", rc=1, err="There are not enough slots available in the system\n"), dict.fromkeys(CPU, UNKNOWN)),
    "not installed": (lambda *_: {"unknown": "hpcc is not installed"}, dict.fromkeys(CPU, UNKNOWN)),
    "no output": (lambda *_: None, dict.fromkeys(CPU, UNKNOWN)),
}


@pytest.mark.parametrize("case", HPCC_CASES)
def test_result_of_hpcc_is_judged(case: str) -> None:
    said, expected = HPCC_CASES[case]
    found = judged(hpcc, scope(tools=("hpcc",)), said)
    assert {check for check, _ in found} == checks_of("hpcc")
    assert verdicts(found) == {f"{check}[{node}]": verdict for check, verdict in expected.items() for node in NODES}


def test_slow_cpu_is_named_and_simulated_one_is_not() -> None:
    def said(job: Job, node: str, rank: int) -> object:
        return hpcc_said(("HPL_Tflops=0.00485947", f"HPL_Tflops={0.004 if node == 'worker1' else 0.00485947}"))(job, node, rank)

    assert verdicts(judged(hpcc, scope(FOUR, tools=("hpcc",)), said)) == {"linpack_is_fast[worker1]": FAILED}
    assert verdicts(judged(hpcc, scope(FOUR, tools=("hpcc",), target="lab"), said)) == {}
    past = {"hpcc.triad_is_fast[worker0] memory-triad": 90.0}
    assert verdicts(judged(hpcc, scope(tools=("hpcc",), baseline=past), hpcc_said())) == {"triad_is_fast[worker0]": FAILED}


def test_failed_line_of_hpcc_is_quoted() -> None:
    found = hpcc_parser.parse(text("hpcc", "good").replace("...... PASSED", "...... FAILED"))
    assert "||Ax-b||" in found.failure and found.failure.endswith("FAILED")


@pytest.mark.parametrize(("phase", "tool"), [(file_io, "fio"), (hpcc, "hpcc")])
def test_undeclared_benchmark_gets_no_jobs(phase: ModuleType, tool: str) -> None:
    """Declared on other nodes only, or not at all."""
    plain = scope()
    assert phase.PHASE.jobs(plain) == [] and set(verdicts(judged(phase, plain, io_said())).values()) == {SKIPPED}
    declared = scope(tools=(tool,), scratch="/scratch")
    declared.declared.nodes["worker1"]["features"] = []
    assert {node for job in phase.PHASE.jobs(declared) for node in job.nodes} == {"worker0"}


@pytest.mark.parametrize(("stack", "expected"), [("lab", {Feature.FIO, Feature.HPCC}), ("lab-k8s", set())])
def test_declared_tools_are_features_of_slurm_only(stack: str, expected: set[Feature]) -> None:
    """A pod has none of its node's tools."""
    plan = expand(load_stack(paths.stack_file(stack)).cluster, stack)
    hosts = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes}
    declared = from_inventory(inventory.inventory(plan, hosts))
    for tools in ([], ["fio", "hpcc"]):
        features = dataclasses.replace(declared, node_stack={**declared.node_stack, "tools": tools}).features
        assert features & {Feature.FIO, Feature.HPCC} == (expected if tools else set())


def test_lab_with_tools_owes_their_checks(tmp_path: Path) -> None:
    """The lab has no scratch; its CPUs are simulated, its shared file system is not."""
    declared = load_yaml(paths.stack_file("lab").read_text(encoding="utf-8"))
    declared["config"]["rackwright:cluster"]["software"] = {"tools": ["fio", "hpcc"]}
    file = tmp_path / "Pulumi.benchmarks.yaml"
    file.write_text(yaml.safe_dump(declared), encoding="utf-8")
    plan = expand(load_stack(file).cluster, "benchmarks")
    hosts = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes}
    expected = plan_checks(from_inventory(inventory.inventory(plan, hosts)), acceptance(), Level.FULL).expected.values()
    owed = {(item.spec.key, item.node): item.evidence for item in expected if item.spec.subject in ("file_io", "hpcc")}
    shared = ("blocks_are_right", "random_writes_are_fast", "random_reads_are_fast")
    assert owed == {
        **{(f"file_io.{check}", node): Evidence.REAL for check in shared for node in NODES},
        **{(f"hpcc.{check}", node): Evidence.SIMULATED for check in CPU for node in NODES},
    }
