"""Lines of the driver amdgpu in the kernel log, and the severity of each after what followed."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from support.rows import each_row
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_amd_gpu
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.amd_driver_errors import AMD_ERRORS
from rackwright.remote.programs import commands
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
HEALTHY: dict[str, Verdict] = {}
FAULT, WARNING = {"no_driver_errors": FAILED}, {"no_driver_warnings": FAILED}
GPU, OTHER = "amdgpu 0000:0c:00.0: amdgpu: ", "amdgpu 0000:26:00.0: amdgpu: "
SUCCESS = f"{GPU}GPU reset(1) succeeded!"
HANG = "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring comp_1.0.1 timeout, signaled seq=81, emitted seq=83"
LOADED = "[drm] Initialized amdgpu 3.63.0 for 0000:0c:00.0 on minor 1"
IN_BLOCK = "hardware errors detected in umc block"
LOGS = {
    "no-line": ((), HEALTHY),
    "start": (("amdgpu: Virtual CRAT table created for CPU", f"{GPU}RAS: optional ras ta ucode is not available", LOADED), HEALTHY),
    "uncorrectable": ((f"{GPU}2 uncorrectable {IN_BLOCK}",), FAULT),
    "uncorrectable-of-a-die": ((f"{GPU}{{7}}socket: 0, die: 2, 1 new uncorrectable hardware errors detected in gfx block",), FAULT),
    "uncorrectable-without-block": (("amdgpu 0000:0c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",), FAULT),
    "uncorrectable-then-reset": ((f"{GPU}2 uncorrectable {IN_BLOCK}", f"{GPU}GPU reset begin!", SUCCESS), WARNING),
    "reset-then-uncorrectable": ((SUCCESS, f"{GPU}2 uncorrectable {IN_BLOCK}"), FAULT),
    "reset-of-another-gpu": ((f"{OTHER}2 uncorrectable {IN_BLOCK}", SUCCESS), FAULT),
    "no-uncorrectable": ((f"{GPU}0 uncorrectable {IN_BLOCK}", f"{GPU}no uncorrectable {IN_BLOCK}"), HEALTHY),
    "corrected": ((f"{GPU}socket: 0, die: 1, 3 new correctable hardware errors detected in gfx block, no user action is needed",), HEALTHY),
    "total-of-earlier-errors": ((f"{GPU}{{9}}socket: 0, die: 1, 3 uncorrectable hardware errors detected in total in umc block",), HEALTHY),
    "deferred": ((f"{GPU}{{3}}socket: 1, die: 0, 1 new deferred {IN_BLOCK}",), WARNING),
    "deferred-beside-none": ((f"{GPU}0 uncorrectable hardware errors and 2 deferred {IN_BLOCK}",), WARNING),
    "poison": (("amdgpu: RAS poison consumption, unmap queue flow succeeded: client id 27",), WARNING),
    "poison-then-reset": (
        (f"{GPU}{{14}}poison is consumed by client 12, kick off gpu reset flow", f"{GPU}GPU reset begin!", SUCCESS),
        WARNING,
    ),
    "queue-that-cannot-be-removed": (("amdgpu: qcm fence wait loop timeout expired",), FAULT),
    "threshold": ((f"{GPU}RAS records:260 exceed threshold:256, GPU will not be initialized.", SUCCESS), FAULT),
    "threshold-reached": ((f"{GPU}Saved bad pages(256) reaches threshold value(256).",), FAULT),
    "threshold-is-near": ((f"{GPU}RAS records:231 exceeds 90% of threshold:256",), WARNING),
    "power-on": ((f"{GPU}socket: 0, aid: 1, hbm: 3, fw_status: 0x21, hbm bist test failed", LOADED), FAULT),
    "hang": ((HANG,), FAULT),
    "hang-then-reset": ((HANG, f"{GPU}GPU reset begin!. Source:  3", f"{GPU}GPU reset succeeded, trying to resume", SUCCESS), HEALTHY),
    "hang-of-a-queue": ((HANG.replace("[drm:", f"{GPU}[drm:"), f"{GPU}Ring comp_1.0.1 reset succeeded"), HEALTHY),
    "hang-of-a-queue-on-linux-6.12": ((f"{GPU}ring comp_1.0.1 timeout, signaled seq=8", f"{GPU}Ring comp_1.0.1 reset success"), HEALTHY),
    "hang-of-a-queue-whose-reset-fails": ((f"{GPU}ring comp_1.0.1 timeout, signaled seq=8", f"{GPU}Ring comp_1.0.1 reset failed"), FAULT),
    "hang-that-ends": ((f"{GPU}ring comp_1.0.1 timeout, but soft recovered",), HEALTHY),
    "reset-without-end": ((f"{GPU}GPU reset begin!", f"{GPU}GPU reset succeeded, trying to resume"), FAULT),
    "reset-fails": ((f"{GPU}GPU reset begin!", f"{GPU}GPU reset(2) failed"), FAULT),
    "reset-fails-then-succeeds": ((f"{GPU}GPU reset(1) failed", f"{GPU}GPU reset(2) succeeded!"), HEALTHY),
    "scheduler-of-queues": (("[drm:mes_v12_0_submit_pkt [amdgpu]] *ERROR* MES failed to respond to msg=REMOVE_QUEUE",), FAULT),
    "start-fails": ((f"{GPU}Fatal error during GPU init",), FAULT),
    "start-fails-then-driver-is-loaded": ((f"{GPU}Fatal error during GPU init", LOADED), HEALTHY),
    "heat": ((f"{GPU}ERROR: GPU over temperature range(SW CTF) detected!",), WARNING),
    "page-fault-of-a-program": ((f"{GPU}[gfxhub0] no-retry page fault (src_id:0 ring:40 vmid:8 pasid:32771)",), HEALTHY),
    "harmless-error": (("[drm] *ERROR* dc_dmub_srv_log_diagnostic_data: DMCUB error - collecting diagnostic data",), HEALTHY),
    "other-driver": (("ib_core: 1 uncorrectable hardware errors",), HEALTHY),
}
"""Lines, oldest first, and the checks that do not pass."""


def verdicts(raw):
    """Return the verdicts of both checks, without those that pass."""
    names = ("no_driver_errors", "no_driver_warnings")
    found = {name: verdict_of(getattr(test_amd_gpu, f"test_{name}"), {AMD_ERRORS: lambda: AMD_ERRORS.read(raw)})[0] for name in names}
    return {name: verdict for name, verdict in found.items() if verdict is not PASSED}


@pytest.fixture
def node(tmp_path):
    """Return a function that runs the probe with a stand-in for journalctl, whose log has these lines, oldest first."""

    def run(lines, *, pattern=True):
        (tmp_path / "log").write_text("".join(f"{line}\n" for line in ("Linux version 6.12", *lines)))
        grep = 'grep -E "$p"' if pattern else "exit 1"
        program = f"#!/bin/sh\nfor a; do case $a in --grep=*) p=${{a#--grep=}};; esac; done\ntac {tmp_path}/log | {grep}\n"
        (tmp_path / "journalctl").write_text(program)
        (tmp_path / "journalctl").chmod(0o755)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        ended = subprocess.run(["/bin/sh", "-c", AMD_ERRORS.command], env=environment, capture_output=True, text=True)
        return CommandOutput(rc=ended.returncode, out=ended.stdout, err=ended.stderr)

    return run


@each_row("log", LOGS)
def test_severity_follows_from_later_lines(log, node):
    """The command, too: its filter keeps each line that is read."""
    lines, expected = LOGS[log]
    assert verdicts(node(lines)) == expected
    assert verdicts(CommandOutput(out="".join(f"{line}\n" for line in reversed(lines)))) == expected


def test_error_that_repeats_is_listed_once():
    log = "".join(f"{GPU}{number} uncorrectable {IN_BLOCK}\n" for number in range(5, 0, -1))
    assert [error.text for error in AMD_ERRORS.read(CommandOutput(out=log))] == [f"{GPU}5 uncorrectable {IN_BLOCK}"]


def test_loop_of_errors_fits_into_an_answer(node):
    """The newest lines of each form and GPU are kept, and with them the reset that follows."""
    loop = [f"{GPU}{number} uncorrectable {IN_BLOCK}" for number in range(1, 5000)]
    raw = node([*loop, SUCCESS])
    assert verdicts(raw) == WARNING
    assert len(raw.out) < commands.MAX_OUTPUT / 10
    assert verdicts(node([f"{OTHER}1 uncorrectable {IN_BLOCK}", *loop, SUCCESS])) == FAULT | WARNING


def test_log_that_was_not_read_is_unknown(node):
    assert verdicts(node([HANG], pattern=False)) == {"no_driver_errors": UNKNOWN, "no_driver_warnings": UNKNOWN}


def test_address_is_kept_in_reports():
    (error,) = AMD_ERRORS.read(CommandOutput(out=f"[   12.5] {GPU}GPU reset(2) failed\n"))
    assert re.match(r"amdgpu 0000:0c:00\.0: ", error.text)
