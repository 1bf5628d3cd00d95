"""MIG instances as nvidia-smi lists them, and the check against the plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_gpu
from rackwright.checks.cluster.probes.mig import MIG
from rackwright.checks.cluster.probes.smoke import parts
from rackwright.report.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "captured" / "mig"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def captured(case: str) -> str:
    return (FOLDER / f"{case}.txt").read_text(encoding="utf-8")


def verdict(text: str, *planned: list[str]) -> tuple[Verdict, str]:
    """Return the verdict for a node with these planned instances."""
    mig = [[SimpleNamespace(profile=name, start=0) for name in gpu] for gpu in planned]
    return verdict_of(test_gpu.test_mig_matches_plan, answers_of({MIG: text}), node=SimpleNamespace(gpus=SimpleNamespace(mig=mig)))


SEVEN, THREE = ["1g.10gb"] * 7, ["3g.40gb", "1g.10gb", "1g.10gb"]


@pytest.mark.parametrize(
    ("case", "planned", "result"),
    [
        ("good", [THREE, SEVEN], PASSED),
        ("good", [SEVEN, THREE], PASSED),
        ("good", [SEVEN, SEVEN], FAILED),
        ("good", [THREE, []], FAILED),
        ("good-mixed", [[], ["3g.40gb", "3g.40gb"]], PASSED),
        ("good-mixed", [["3g.40gb", "3g.40gb"]], FAILED),
        ("pending", [[]], FAILED),
        ("good-without-mig", [["7g.80gb"]], FAILED),
        ("lost", [["7g.80gb"], ["7g.80gb"]], UNKNOWN),
        ("broken", [["7g.80gb"]], UNKNOWN),
        ("half", [["7g.80gb"], []], UNKNOWN),
    ],
)
def test_mode_and_instances_are_compared(case: str, planned: list[list[str]], result: Verdict) -> None:
    assert verdict(captured(case), *planned)[0] is result


def test_enabled_gpu_without_instances_is_not_whole() -> None:
    text = "0, Enabled, Enabled\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000001-5c1d-4e2f-9a3b-000000001eef)\n"
    assert verdict(text, [])[0] is FAILED


@pytest.mark.parametrize("end", range(1, 60, 7))
def test_truncated_output_never_lowers_instance_count(end: int) -> None:
    assert verdict(captured("good")[:-end], THREE, SEVEN)[0] is UNKNOWN


def test_missing_instance_in_sequence_is_unknown() -> None:
    lines = captured("good").splitlines(keepends=True)
    assert verdict("".join(lines[:4] + lines[5:]), THREE, SEVEN)[0] is UNKNOWN


ONE, TWO = "a1b2c3d4-0000", "a1b2c3d4-0001"
LISTED = (
    "0, Enabled, Enabled\n1, Enabled, Enabled\n"
    f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-{ONE})\n  MIG 3g.40gb     Device  0: (UUID: MIG-{ONE})\n"
    f"  MIG 1g.10gb+me  Device  1: (UUID: MIG-{TWO})\n"
    f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-{TWO})\n  MIG 7g.80gb     Device  0: (UUID: MIG-{TWO})\n"
)
MIXED = ["3g.40gb", "1g.10gb+me"], ["7g.80gb"]
LOST = "Unable to determine the device handle for GPU1: 0000:2B:00.0: Unknown Error\n"


@pytest.mark.parametrize(
    ("text", "planned", "result"),
    [
        (LISTED, MIXED, PASSED),
        (LISTED, (["3g.40gb"], ["7g.80gb"]), FAILED),
        (f"WARNING: infoROM is corrupted at gpu 0000:1A:00.0\n{LISTED}", MIXED, PASSED),
        (LISTED.replace("\n", "\r\n"), MIXED, PASSED),
        (LISTED.replace("1, Enabled, Enabled", "1, ERR!, Enabled"), MIXED, UNKNOWN),
        (LISTED.replace("1, Enabled, Enabled", "1, ERR!, Enabled"), (["2g.20gb"], ["7g.80gb"]), FAILED),
        (LISTED.replace("MIG 7g.80gb", "ERR! 7g.80gb"), MIXED, UNKNOWN),
        (LISTED.replace("Device  0: (UUID: MIG-" + TWO, "Device"), MIXED, UNKNOWN),
        (LISTED.replace("GPU 1: ", "ERR! 1: "), MIXED, UNKNOWN),
        (LISTED.replace(f"(UUID: GPU-{ONE})", "(UUID: [N/A])"), MIXED, PASSED),
        (LOST + "".join(line for line in LISTED.splitlines(keepends=True)[:1] + LISTED.splitlines(keepends=True)[2:5]), MIXED, UNKNOWN),
        ("0, [N/A], [N/A]\nGPU 0: NVIDIA L4 (UUID: GPU-1)\n", ([],), PASSED),
        ("0, [Not Supported], [Not Supported]\nGPU 0: Tesla T4 (UUID: GPU-1)\n", ([],), PASSED),
        ("0, N/A, N/A\nGPU 0: NVIDIA A10-24Q (UUID: GPU-1)\n", ([],), PASSED),
        ("0, [N/A], [N/A]\nGPU 0: NVIDIA L4 (UUID: GPU-1)\n", (["7g.80gb"],), FAILED),
        ("0, [N/A], Enabled\nGPU 0: NVIDIA H100 (UUID: GPU-1)\n", ([],), UNKNOWN),
        ("0, [Unknown Error], [N/A]\nGPU 0: NVIDIA H100 (UUID: GPU-1)\n", ([],), UNKNOWN),
        (LISTED.replace("1, Enabled, Enabled", "1, Enabled, [N/A]"), MIXED, PASSED),
        (LISTED.replace("1, Enabled, Enabled", "1, [N/A], [N/A]"), MIXED, FAILED),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", ([],), UNKNOWN),
    ],
)
def test_other_gpus_are_judged_beside_an_unread_line(text: str, planned: tuple[list[str], ...], result: Verdict) -> None:
    assert verdict(text, *planned)[0] is result


def test_check_jobs_request_no_gpu_with_mig() -> None:
    nodes = [{"name": "w0", "gpus": 8, "gres": []}, {"name": "w1", "gpus": 14, "gres": [{"type": "h100_1g.10gb"}]}]
    scheduler = {"nodes": nodes, "partitions": [{"name": "gpu", "nodes": ["w0", "w1"]}]}
    declared = SimpleNamespace(cluster={"scheduler": scheduler}, nodes={"w0": {}, "w1": {}})
    found = parts(SimpleNamespace(declared=declared, node={}))
    assert [(part["nodes"], bool(part["first"])) for part in found] == [(["w0"], True), (["w1"], False)]
