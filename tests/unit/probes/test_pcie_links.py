"""PCIe links of GPUs: narrow by design, reduced while the GPU is idle, or sick."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.acceptance.evaluators import health
from rackwright.checks.acceptance.parsers import nvidia_smi
from rackwright.checks.acceptance.phase import guarded
from rackwright.checks.acceptance.phases.gpu import _TOOLS, _lanes, _nvlinks
from rackwright.checks.cluster import test_gpu
from rackwright.checks.cluster.probes.gpu import GPUS, REPAIRS
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ROW = "{}, NVIDIA L4, 23034, 580.95.05, 0, 2040, 0x1, Enabled, 00000000:{:02X}:00.0, No, No, [N/A], {}, {}\n"


def judged(*links, mode="None"):
    """Return verdict and reason for links as nvidia-smi prints them: width, its maximum, generation, its maximum, performance state."""
    text = "".join(ROW.format(number, 16 + number, link.rpartition(", ")[0], link.rpartition(", ")[2]) for number, link in enumerate(links))
    mode = f"    GPU Virtualization Mode\n        Virtualization Mode : {mode}\n" if mode else ""
    repairs = f"Attached GPUs : {len(links)}\n" + "".join(
        f"GPU 00000000:{16 + number:02X}:00.0\n{mode}    GPU Recovery Action : None\n" for number in range(len(links))
    )
    return verdict_of(test_gpu.test_pcie_links_are_full, answers_of({GPUS: text, REPAIRS: repairs}), node=SimpleNamespace())


@each_row(
    ("links", "mode", "verdict"),
    [
        (["16, 16, 5, 5, P0"] * 4, "None", PASSED),
        (["8, 8, 4, 4, P0"] * 4, "None", PASSED),  # cards of eight lanes, or slots of eight
        (["16, 16, 1, 4, P8"] * 4, "None", PASSED),  # idle
        (["16, 16, 1, 4, P0"], "None", FAILED),
        (["8, 16, 4, 4, P0"], "None", FAILED),
        (["8, 16, 4, 4, P0"] * 4, "None", FAILED),
        (["8, 16, 4, 4, P0"] * 4, "Host VGPU", FAILED),
        (["8, 16, 4, 4, P0"] * 4, "Pass-Through", PASSED),
        (["8, 16, 4, 4, P0"], "Pass-Through", PASSED),
        (["8, 16, 4, 4, P8"], "Pass-Through", PASSED),
        (["8, 16, 4, 4, P0"] * 3 + ["4, 16, 4, 4, P0"], "Pass-Through", FAILED),
        (["16, 16, 4, 4, P0"] * 3 + ["8, 16, 4, 4, P0"], "Pass-Through", FAILED),
        (["8, 16, 1, 4, P0"] * 4, "Pass-Through", FAILED),
        (["8, 16, 4, 4, P0"] * 4, "", UNKNOWN),
        (["8, 16, 1, 4, P8"], "None", UNKNOWN),
        (["8, 16, 1, 4, P8", "4, 16, 4, 4, P0"], "None", FAILED),
        (["8, 16, 4, 4, [N/A]"], "None", FAILED),
        (["[N/A], [N/A], [N/A], [N/A], P8"], "VGPU", PASSED),
    ],
)
def test_link_is_judged_by_state_and_machine(links, mode, verdict):
    assert judged(*links, mode=mode)[0] is verdict


def test_reduced_idle_link_says_why_it_is_unknown():
    reason = 'GPU 0 width of the PCIe link, which the driver may reduce while the GPU is idle, is "x8 of x16 in P8"'
    assert judged("8, 16, 1, 4, P8")[1] == reason


TITLES = (
    "index, name, memory.total [MiB], driver_version, ecc.errors.uncorrected.volatile.total, remapped_rows.pending, remapped_rows.failure, "
    "clocks.max.sm [MHz], clocks_event_reasons.active, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
    "pcie.link.width.max\n"
)


@pytest.mark.parametrize(
    ("widths", "status", "verdict"),
    [
        ((8, 8, 8, 8), 0, PASSED),
        ((8, 8, 8, 8), 1, FAILED),
        ((8, 8, 8, 8), 127, FAILED),
        ((8, 8, 8, 4), 0, FAILED),
        ((16, 16, 16, 16), 1, PASSED),
        ((8, 8, 8), 0, FAILED),
    ],
)
def test_acceptance_judges_lanes_by_machine(widths, status, verdict):
    rows = "".join(f"{n}, NVIDIA L4, 23034, 580.95.05, 0, No, No, 2040, 0x0, 4, 4, {width}, 16\n" for n, width in enumerate(widths))
    gpus = nvidia_smi.parse_health(TITLES + rows)
    finding = guarded("p", "w", lambda: _lanes(lambda: {"machine": {"rc": status}}, "p", "w", gpus, 4))
    assert finding.verdict is verdict
    assert "machine" in [json.loads(json.dumps(tool))[0] for tool in _TOOLS]
    assert health.CHECKS["pcie_links_are_wide"] is health.pcie


@pytest.mark.parametrize(("status", "partitioned", "verdict"), [(0, True, UNKNOWN), (1, True, FAILED), (0, False, FAILED)])
def test_links_of_a_part_of_a_board_are_unknown_in_a_guest(status, partitioned, verdict):
    """The hypervisor switches links to the other GPUs off (Fabric Manager User Guide, Full Passthrough)."""
    links = "".join(f"GPU {gpu}: NVIDIA H100\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n" for gpu in range(4))
    for text, expected in ((links, verdict), (links.replace("<inactive>", "26.562 GB/s"), PASSED)):
        found = {"machine": {"rc": status}, "nvlink": {"rc": 0, "out": text, "err": ""}}
        finding = guarded("nvlinks_are_up", "w", lambda found=found: _nvlinks("w", lambda: found, 4, partitioned))
        assert finding.verdict is expected
