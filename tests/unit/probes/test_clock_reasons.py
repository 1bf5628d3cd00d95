"""Reasons that hold a GPU's clock down, and which of them are faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.acceptance.parsers.nvidia_smi import parse_health
from rackwright.checks.cluster import test_gpu
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.gpu import FAULTY_REASONS, GPUS, NORMAL_REASONS, clock_faults, parse_gpus
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).parents[1] / "captured" / "gpus"


def test_idle_or_power_capped_gpu_has_no_fault() -> None:
    """Both as an H100 printed them: idle, and during BF16 products at 700 of 700 W."""
    for name, reasons in {"good-one-h100": 0x1, "good-at-its-power-limit": 0x4}.items():
        (gpu,) = parse_gpus((CAPTURED / f"{name}.txt").read_text(encoding="utf-8"))
        assert (gpu.clock_reasons, clock_faults(gpu.clock_reasons)) == (reasons, ())


def test_every_reason_is_normal_or_fault() -> None:
    """Bits of nvml.h, each in one table."""
    assert not set(NORMAL_REASONS) & set(FAULTY_REASONS)
    assert sum(NORMAL_REASONS) + sum(FAULTY_REASONS) == 0x1FF


@pytest.mark.parametrize(
    ("reasons", "verdict"),
    [("0x0", Verdict.PASSED), ("0x5", Verdict.PASSED), ("0x48", Verdict.FAILED), ("0x200", Verdict.UNKNOWN), ("0x248", Verdict.FAILED)],
)
def test_reason_of_a_newer_driver_is_unknown(reasons: str, verdict: Verdict) -> None:
    row = f"0, NVIDIA H100, 81559, 610.10.02, 0, 1980, {reasons}, Enabled, 00000000:1A:00.0, No, No, [N/A], 16, 16, 5, 5, P0\n"
    assert verdict_of(test_gpu.test_not_throttled, answers_of({GPUS: row}))[0] is verdict
    (gpu,) = parse_health(f"index, clocks_event_reasons.active\n0, {reasons}\n")
    assert isinstance(gpu.clock_faults, UnreadableValue) is (verdict is Verdict.UNKNOWN)
