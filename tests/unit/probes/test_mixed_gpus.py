"""Checks of nodes with GPUs of several models: each device file has its model, and GPUs are compared with those of their model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.damage import damages
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_gpu, test_software
from rackwright.checks.cluster.probes.gpu import DEVICE_NUMBERS, GPUS
from rackwright.checks.cluster.probes.software import DCGM_HEALTH
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ROW = "{}, {}, {}, 580.95.05, 0, {}, 0x0000000000000001, Enabled, 00000000:{}:00.0, No, No, [N/A], 16, 16, 4, 4, P0\n"
A100, T4 = ("NVIDIA A100 80GB PCIe", 81920, 1410), ("Tesla T4", 15360, 1590)
ROWS = [ROW.format(0, *A100, "17"), ROW.format(1, *T4, "65"), ROW.format(2, *A100, "B3")]
GOOD = "".join(ROWS)
NUMBER = "/proc/driver/nvidia/gpus/0000:{}:00.0/information:Device Minor: \t {}\n"
NUMBERS = NUMBER.format("17", 1) + NUMBER.format("65", 2) + NUMBER.format("b3", 0)
"""The driver numbers in another order than that of the addresses."""
OTHERS = [SimpleNamespace(model="t4", product="Tesla T4", memory_mib=15360, devices=[2])]
PLAN = SimpleNamespace(model="a100-pcie", count=3, product="NVIDIA A100 80GB PCIe", memory_mib=81920, driver="580.95.05", others=OTHERS)


def verdict(check: str, text: str = GOOD, numbers: str = NUMBERS, plan: Any = PLAN) -> tuple[Verdict, str]:
    """Return the verdict of a check on GPUs."""
    node = SimpleNamespace(gpus=plan)
    return verdict_of(getattr(test_gpu, f"test_{check}"), answers_of({GPUS: text, DEVICE_NUMBERS: numbers}), node=node, limit=0.1)


@pytest.mark.parametrize(
    "check", ["count_matches_plan", "product_matches_plan", "memory_matches_plan", "driver_matches_plan", "max_clocks_match"]
)
def test_planned_gpus_pass(check: str) -> None:
    assert verdict(check) == (PASSED, "")


def test_swapped_device_files_fail() -> None:
    """All products are there, and Slurm would give a T4 to a job that requests an A100."""
    found, why = verdict("product_matches_plan", numbers=NUMBER.format("17", 0) + NUMBER.format("65", 1) + NUMBER.format("b3", 2))
    assert found is FAILED
    assert "expected /dev/nvidia1: NVIDIA A100 80GB PCIe; /dev/nvidia2: Tesla T4" in why
    assert "found /dev/nvidia1: Tesla T4; /dev/nvidia2: NVIDIA A100 80GB PCIe" in why


def test_another_card_in_the_place_of_a_planned_one_fails() -> None:
    assert verdict("product_matches_plan", GOOD.replace("Tesla T4", "NVIDIA L4"))[0] is FAILED


def test_missing_gpu_is_a_fault_of_the_count_alone() -> None:
    assert verdict("count_matches_plan", ROWS[0] + ROWS[1])[0] is FAILED
    assert verdict("product_matches_plan", ROWS[0] + ROWS[1])[0] is PASSED


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (GOOD, NUMBERS.replace("0000:65", "0000:66")),
        (GOOD, NUMBERS.replace("Minor: \t 2", "Minor: \t ?")),
        (GOOD, NUMBERS.replace("Minor: \t 2", "Minor: \t 1")),
        (GOOD, ""),
        (GOOD, "grep: /proc/driver/nvidia/gpus/*/information: No such file or directory\n"),
        (GOOD.replace("00000000:65:00.0", "[Unknown Error]"), NUMBERS),
        (GOOD.replace("00000000:65:00.0", "somewhere"), NUMBERS),
        (GOOD.replace("Tesla T4", "[Unknown Error]"), NUMBERS),
    ],
    ids=["other-address", "no-number", "same-number", "nothing", "no-driver", "unread-address", "odd-address", "unread-product"],
)
def test_gpu_whose_device_file_or_product_was_not_read_is_unknown(text: str, numbers: str) -> None:
    assert verdict("product_matches_plan", text, numbers)[0] is UNKNOWN


def test_damage_never_hides_swapped_device_files() -> None:
    numbers = NUMBER.format("17", 0) + NUMBER.format("65", 1) + NUMBER.format("b3", 2)
    for damaged in damages(numbers, most=200):
        assert verdict("product_matches_plan", numbers=damaged.text)[0] in (FAILED, UNKNOWN), damaged.what


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("15360", "16384", PASSED),
        ("15360", "7680", FAILED),
        ("15360", "81920", FAILED),
        ("81920", "40960", FAILED),
        ("15360", "[Unknown Error]", UNKNOWN),
        ("Tesla T4", "[Unknown Error]", UNKNOWN),
        ("Tesla T4", "NVIDIA L4", UNKNOWN),
    ],
)
def test_memory_is_that_of_the_product(old: str, new: str, result: Verdict) -> None:
    assert verdict("memory_matches_plan", GOOD.replace(old, new))[0] is result


def test_memory_shared_with_the_cpu_is_not_compared() -> None:
    others = [SimpleNamespace(**{**vars(OTHERS[0]), "memory_mib": None})]
    assert (
        verdict("memory_matches_plan", GOOD.replace("15360", "[N/A]"), plan=SimpleNamespace(**{**vars(PLAN), "others": others}))[0]
        is PASSED
    )


def test_clock_limits_are_compared_within_a_model() -> None:
    slow = ROWS[0].replace("1410", "1140") + ROWS[1] + ROWS[2]
    found, why = verdict("max_clocks_match", slow)
    assert found is FAILED and "GPU 0: 1140 MHz" in why and "GPU 1" not in why
    assert verdict("max_clocks_match", GOOD.replace("1590", "[N/A]"))[0] is UNKNOWN
    assert verdict("max_clocks_match", GOOD.replace("Tesla T4", "[Unknown Error]"))[0] is UNKNOWN
    assert verdict("max_clocks_match", slow.replace("Tesla T4", "[Unknown Error]"))[0] is FAILED
    uniform = SimpleNamespace(**{key: value for key, value in vars(PLAN).items() if key != "others"})
    assert verdict("max_clocks_match", plan=uniform)[0] is FAILED


@pytest.mark.parametrize(("model", "result"), [("t4", PASSED), ("v100", FAILED)])
def test_nvlink_of_any_model_counts(model: str, result: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    """DCGM warns of NVLinks on GPUs without any; one model with NVLink makes the warning one of a fault."""
    monkeypatch.setattr(test_software, "faults_of", lambda health, has_nvlink: ["NVLink"] if has_nvlink else [])
    health = SimpleNamespace(overall="Warning", incidents=["NVLink"])
    node = SimpleNamespace(gpus=SimpleNamespace(model="l4", others=[SimpleNamespace(model=model)]))
    assert verdict_of(test_software.test_dcgm_health_passes, {DCGM_HEALTH: lambda: health}, node=node)[0] is result
