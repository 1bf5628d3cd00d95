"""Memory of GPUs in the acceptance: models without ECC, ECC that is off, a corrupted infoROM, fields that a driver lacks."""

from __future__ import annotations

import os
import subprocess

import pytest

from rackwright.checks.acceptance.evaluators.health import CHECKS
from rackwright.checks.acceptance.parsers.nvidia_smi import parse_health
from rackwright.checks.acceptance.phase import guarded
from rackwright.checks.acceptance.phases.gpu import _TOOLS, QUERY
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED
TITLES = ", ".join(QUERY) + "\n"
ROW = "{}, {}, 24576, 580.95.05, {}, {}, {}, {}, 1980, {}, 4, 4, 16, 16\n"


def text(*cells, reasons="0x0", product="NVIDIA L4"):
    """Return rows with ECC mode, uncorrected errors, pending and failed remapping."""
    return TITLES + "".join(ROW.format(number, product, *each, reasons) for number, each in enumerate(cells))


def judged(said, check="no_ecc_errors", planned=2):
    return guarded(check, "w", lambda: CHECKS[check](check, "w", parse_health(said), planned)).verdict


GOOD, NONE, OFF = ("Enabled", "0", "No", "No"), ("[N/A]", "[N/A]", "[N/A]", "[N/A]"), ("Disabled", "[N/A]", "No", "No")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (text(GOOD, GOOD), PASSED),
        (text(NONE, NONE, product="NVIDIA GeForce RTX 3090"), SKIPPED),
        (text(OFF, OFF, product="NVIDIA GeForce RTX 4090"), SKIPPED),
        (text(GOOD, GOOD, product="NVIDIA GeForce RTX 4090"), PASSED),
        (text(NONE, product="NVIDIA GeForce RTX 3090"), UNKNOWN),
        (text(OFF, OFF), UNKNOWN),
        (text(("Disabled", "[N/A]", "No", "Yes"), OFF), FAILED),
        (text(GOOD, ("Enabled", "2", "No", "No")), FAILED),
        (text(GOOD, ("Enabled", "ERR!", "No", "No")), UNKNOWN),
        (text(GOOD, NONE), UNKNOWN),
        (f"WARNING: infoROM is corrupted at gpu 0000:34:00.0\n{text(GOOD, GOOD)}", FAILED),
        (f"{text(NONE, NONE)}WARNING: infoROM is corrupted at gpu 0000:34:00.0\n", FAILED),
    ],
)
def test_memory_is_judged_by_what_the_model_has(said, verdict):
    assert judged(said) is verdict


def test_older_name_of_the_clock_reasons_is_read():
    said = text(GOOD, GOOD, reasons="0x40").replace("clocks_event_reasons", "clocks_throttle_reasons")
    assert judged(said, "not_throttled") is FAILED
    assert judged(said.replace("0x40", "0x4"), "not_throttled") is PASSED


def test_command_of_an_older_driver_lists_the_other_fields(tmp_path):
    rejects = "*clocks_event*) echo 'Field \"clocks_event_reasons.active\" is not a valid field to query.'; exit 2;;"
    (tmp_path / "nvidia-smi").write_text(f'#!/bin/sh\ncase "$*" in {rejects} esac\ncat {tmp_path}/rows\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "rows").write_text(text(GOOD, GOOD).replace("clocks_event_reasons", "clocks_throttle_reasons"))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(list(_TOOLS[0][1]), env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert {judged(ended.stdout, check) for check in CHECKS} == {PASSED}
