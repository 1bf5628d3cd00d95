"""Odd, damaged or missing rows of nvidia-smi in the acceptance test and the hardware report."""

from __future__ import annotations

import pytest
from support.verdicts import accepted_gpus

from rackwright.checks.acceptance.evaluators import health
from rackwright.checks.acceptance.parsers import nvidia_smi
from rackwright.checks.acceptance.phase import guarded
from rackwright.checks.cluster.probes.gpu import parse_gpus
from rackwright.checks.hardware import parsers as hardware
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ROW = "0, NVIDIA H100 80GB HBM3, 81559, 580.95.05, 0, 1980, 0x0000000000000001, Enabled, 00000000:1A:00.0, No, No, [N/A], 16, 16, 5, 5, P0"
TITLES = (
    "index, name, memory.total [MiB], driver_version, ecc.errors.uncorrected.volatile.total, remapped_rows.pending, remapped_rows.failure, "
    "clocks.max.sm [MHz], clocks_event_reasons.active, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
    "pcie.link.width.max\n"
)
HEALTH = [f"{index}, NVIDIA H200, 143771, 570.86.15, 0, No, No, 1980, 0x0000000000000000, 5, 5, 16, 16\n" for index in range(8)]


def test_acceptance_reads_the_same_rows():
    assert accepted_gpus(TITLES + "".join(HEALTH)) == {}
    blind = HEALTH[2].replace("1980", "[N/A]")
    found = accepted_gpus(TITLES + "".join([*HEALTH[:2], blind, *HEALTH[3:]]))
    assert {name: verdict for name, (verdict, _) in found.items()} == {"not_throttled": UNKNOWN}
    assert 'GPU 2 clocks.max.sm is "[N/A]" in the line "2, NVIDIA H200' in found["not_throttled"][1]
    unified = HEALTH[2].replace("143771", "[N/A]")
    assert accepted_gpus(TITLES + "".join([*HEALTH[:2], unified, *HEALTH[3:]])) == {}
    reset = HEALTH[2].replace("0, No, No", "[GPU requires reset], No, No")
    assert accepted_gpus(TITLES + "".join([*HEALTH[:2], reset, *HEALTH[3:]]))["no_ecc_errors"][0] is FAILED


def test_acceptance_names_unresponsive_gpu():
    lost = "Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error\n"
    found = accepted_gpus(lost + TITLES + "".join([*HEALTH[:2], *HEALTH[3:]]))
    assert found["count_matches_plan"] == (FAILED, "expected 8, found 7 of 8 GPUs respond; 0000:34:00.0 does not")
    assert {verdict for name, (verdict, _) in found.items() if name != "count_matches_plan"} == {UNKNOWN}


def test_acceptance_judges_whole_rows_of_truncated_list():
    text = (TITLES + "".join(HEALTH))[:-30]
    assert {verdict for verdict, _ in accepted_gpus(text).values()} == {UNKNOWN}
    slow = text.replace(", 16, 16\n", ", 8, 16\n", 1)
    assert accepted_gpus(slow)["pcie_links_are_wide"][0] is FAILED


FOUR = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(4))
LINKS = "".join(f"GPU {gpu}: NVIDIA H200 (UUID: GPU-{gpu})\n{FOUR}" for gpu in range(2))


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("\t Link 2: 26.562 GB/s\n", "\t Link 2: <inactive>\n", FAILED),
        ("\t Link 2: 26.562 GB/s\n", "\t Link 2: ERR!\n", UNKNOWN),
        ("\t Link 2: 26.562 GB/s\n", "", UNKNOWN),
        ("\t Link 2: 26.562 GB/s\n", "\t Link 2: 26,562 GB/s\n", UNKNOWN),
        ("\t Link 2: 26.562 GB/s\n", "\t Link 2: 26.562 GB/s\n" * 2, PASSED),
        ("\n", "\r\n", PASSED),
        ("GPU 1: NVIDIA", "a warning\nGPU 1: NVIDIA", PASSED),
        (LINKS, LINKS.partition("GPU 1")[0] + "GPU 1: x\nNVML: Unable to retrieve NVLink information as all links are inActive\n", FAILED),
        (LINKS, LINKS.partition("GPU 1")[0], UNKNOWN),
        (LINKS, LINKS[:-30], UNKNOWN),
    ],
)
def test_links_are_read_one_by_one(old, new, verdict):
    text = LINKS.replace(old, new, -1 if old == "\n" else 1)
    assert (
        guarded("nvlinks_are_up", "w", lambda: health.nvlinks("nvlinks_are_up", "w", nvidia_smi.parse_nvlinks(text), 2)).verdict is verdict
    )


def test_all_parsers_accept_each_list():
    """The same odd line before the same rows, in the formats of the three parsers."""
    odd = "Unable to determine the device handle for GPU7: 0000:d2:00.0: Unknown Error\n"
    assert parse_gpus(odd + ROW).lost == ("0000:d2:00.0",)
    assert nvidia_smi.parse_health(odd + TITLES + HEALTH[0]).lost == ("0000:d2:00.0",)
    assert hardware.parse_gpus(odd + "0, NVIDIA H200, 143771, 570.86.15, 00000000:1A:00.0\n").lost == ("0000:d2:00.0",)
