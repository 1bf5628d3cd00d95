"""Reasons that hold a GPU's clock down, and which of them are faults."""

from __future__ import annotations

from pathlib import Path

from rackwright.checks.cluster.probes.gpu import FAULTY_REASONS, NORMAL_REASONS, clock_faults, parse_gpus

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
