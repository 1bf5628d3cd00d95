"""XID and SXid lines of the kernel log, and the severity of each (NVIDIA, Xid Catalog and Fabric Manager User Guide)."""

from __future__ import annotations

import re

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.catalog.alerts import alerts
from rackwright.checks.cluster import test_gpu
from rackwright.checks.cluster.probes.driver_errors import XIDS, Severity, parse_xids, severity_of
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
FAULT, WARNING, PROGRAM, NOTE = Severity.FAULT, Severity.WARNING, Severity.PROGRAM, Severity.NOTE
GPU = "NVRM: Xid (PCI:0000:4d:00): "
SWITCH = "nvidia-nvswitch1: SXid (PCI:0000:07:00.0): "
LINK = " XC0 i0 Link 09 ({} 0x{:08x} 0x00000000 0x00000000 0x00000000 0x00000000)"


def verdicts(*lines):
    """Return the verdicts of the checks on the kernel log, without those that pass."""
    answers = answers_of({XIDS: "".join(f"{line}\n" for line in lines)})
    names = ("no_xid_errors", "no_xid_warnings", "no_nvswitch_errors")
    found = {name: verdict_of(getattr(test_gpu, f"test_{name}"), answers)[0] for name in names}
    return {name: verdict for name, verdict in found.items() if verdict is not PASSED}


@each_row("number", [46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 150, 155, 156, 158, 167, 171, 172, 173, 999])
def test_xid_that_needs_a_reset_is_a_fault(number):
    """Also a number that no table has."""
    assert verdicts(f"{GPU}{number}, pid=811, name=train.py, text") == {"no_xid_errors": FAILED}


@each_row("number", [8, 13, 31, 32, 39, 43, 44, 45, 60, 66, 69, 77, 96, 105, 126, 135, 137, 139, 141, 14])
def test_xid_of_a_program_is_no_fault(number):
    assert verdicts(f"{GPU}{number}, pid=811, name=train.py, text") == {}


@pytest.mark.parametrize("number", [63, 93, 106, 107, 121, 160, 162, 163])
def test_informational_xid_is_no_fault(number):
    assert verdicts(f"{GPU}{number}, text") == {}


@pytest.mark.parametrize("number", [92, 94, 157, 161, 164, 165])
def test_survived_xid_is_a_warning(number):
    assert verdicts(f"{GPU}{number}, pid=811, name=train.py, text") == {"no_xid_warnings": FAILED}


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", FAULT),
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", FAULT),
        ("from 0x0 (None) to 0x2 (OS Reboot)", FAULT),
        ("from 0x0 (None) to 0x1 (PF FLR)", FAULT),
        ("from 0x0 (None) to 0x4 (Drain and Reset)", FAULT),
        ("from 0x0 (None) to 0x3 (Drain P2P)", FAULT),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", NOTE),
    ],
)
def test_recovery_action_decides_xid_154(words, severity):
    (error,) = parse_xids(f"{GPU}154, GPU recovery action changed {words}")
    assert error.severity is severity


def test_last_recovery_action_counts():
    needed = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    cleared = f"{GPU}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert verdicts(needed, cleared) == {}
    assert verdicts(cleared, needed) == {"no_xid_errors": FAILED}
    assert verdicts(needed, cleared.replace("4d", "5e")) == {"no_xid_errors": FAILED}
    assert verdicts(f"{GPU}154, GPU recovery action changed") == {"no_xid_errors": UNKNOWN, "no_xid_warnings": UNKNOWN}


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        ("149, NETIR_LINK_EVT  Fatal  " + LINK.format("0x004505c6", 0), FAULT),
        ("149, NETIR_LINK_DOWN Link Fatal" + LINK.format("0x00450591", 0), FAULT),
        ("149, NETIR_BER_EVENT Nonfatal" + LINK.format("0x00000013", 1), WARNING),
        ("149, NETIR_MFDE_EVENT Nonfatal" + LINK.format("0x00000014", 4), FAULT),
        ("144, SAW_MVB Nonfatal" + LINK.format("0x00000021", 2), FAULT),
        ("144, SAW_MVB Nonfatal" + LINK.format("0x00000021", 1), WARNING),
        ("145, RLW_REMAP Nonfatal" + LINK.format("0x00000082", 2), PROGRAM),
        ("145, RLW_REMAP Nonfatal" + LINK.format("0x00000082", 3), PROGRAM),
        ("145, RLW_REMAP Nonfatal" + LINK.format("0x00000004", 4), WARNING),
        ("145, RLW_REMAP Nonfatal" + LINK.format("0x00000004", 6), WARNING),
        ("145, RLW_REMAP Nonfatal" + LINK.format("0x00000004", 0x42), FAULT),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 02", WARNING),
        ("145, RLW_SRC_TRACK Nonfatal" + LINK.format("0x00000007", 0x18), FAULT),
        ("145, RLW_SRC_TRACK Fatal" + LINK.format("0x00000007", 8), FAULT),
        ("145, RLW_TAGSTATE Nonfatal" + LINK.format("0x00000008", 0x10000), WARNING),
        ("145, RLW_RXPIPE Nonfatal" + LINK.format("0x000000c2", 1), WARNING),
        ("145, RLW_RXPIPE Nonfatal" + LINK.format("0x000004c2", 1), FAULT),
        ("145, RLW_RXPIPE Nonfatal" + LINK.format("0x00000006", 1), WARNING),
        ("145, RLW_RXPIPE Nonfatal" + LINK.format("0x00000086", 1), FAULT),
        ("146, TLW_RX/TLW_RX_PIPE1 Nonfatal" + LINK.format("0x0000000b", 6), FAULT),
        ("148, NVLPW_CTRL/NVLPW Nonfatal" + LINK.format("0x0000000f", 0x80000000), WARNING),
        ("149, NETIR_LINK_EVT/NETIR_LINK_DOWN Link Fatal" + LINK.format("0x02600011", 0), WARNING),
        ("149, NETIR_LINK_EVT Fatal" + LINK.format("0x028001c6", 0), WARNING),
        ("149, NETIR_LINK_EVT Fatal" + LINK.format("0x025001c6", 0), FAULT),
        ("149, NETIR_LINK_EVT Nonfatal" + LINK.format("0x025001c6", 0), FAULT),
        ("149, NETIR Fatal XC0 i0 Link -1 (0x000f2406 0x00000000)", FAULT),
        ("149, NETIR_INT Fatal" + LINK.format("0x02600018", 0), FAULT),
        ("149, NETIR_MFDE_EVENT Nonfatal" + LINK.format("0x00000014", 3), WARNING),
        ("150, MSE_WATCHDOG Nonfatal", FAULT),
        ("145, pid=811, name=nonfatal, RLW_REMAP Fatal" + LINK.format("0x00000082", 1), FAULT),
        ("145, pid=811, name=a, RLW Nonfatal, RLW_REMAP Fatal" + LINK.format("0x00000082", 1), FAULT),
        ("145, RLW_REMAP Non-fatal" + LINK.format("0x00000082", 0x40), FAULT),
        ("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link -1 (0x00000007 0x00000008)", PROGRAM),
        ("146, TLW_RX_PIPE0 Nonfatal" + LINK.format("0x0000000a", 4), FAULT),
        ("147, TREX Nonfatal" + LINK.format("0x0000000e", 1), WARNING),
        ("150, MSE_WATCHDOG Nonfatal" + LINK.format("0x00000000", 0), FAULT),
        ("145, RLW_RXPIPE Nonfatal", WARNING),
        ("145, cut", FAULT),
        ("145, pid=811, name=ray::Worker, RLW_SRC_TRACK Nonfatal" + LINK.format("0x040868e2", 8), PROGRAM),
        ("145, pid='<unknown>', name=<unknown>, RLW_REMAP Nonfatal" + LINK.format("0x00000082", 0x40), FAULT),
        ("146, pid=811, TLW_RX_PIPE0 Nonfatal" + LINK.format("0x0000000a", 4), FAULT),
        ("145, pid=811, name=pt_main_thread, RLW_RXPIPE Nonfatal" + LINK.format("0x0409a0c2", 8), WARNING),
    ],
)
def test_nvlink_xid_is_judged_by_severity_and_status(words, severity):
    """Forms of lines: Xid Catalog, WORKFLOW_NVLINK5_ERR; with a process: leptonai/gpud pull requests 1160 and 1174, GB200."""
    (error,) = parse_xids(GPU + words)
    assert error.severity is severity


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("20009, Non-fatal, Link 28 RX Short Error Rate", {"no_nvswitch_errors": FAILED}),
        ("20001, Non-fatal, Link 12 TX Replay Error", {"no_nvswitch_errors": FAILED}),
        ("23001, Fatal, Link 12 ingress buffer overflow", {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}),
        ("26006, SOE HALT data[0] = 0x               0", {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}),
        ("12028, Non-fatal, Link 32 egress non-posted PRIV error (First)", {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}),
        ("22013, Non-fatal, Link 55 Minion Link DLREQ interrupt", {}),
        ("24001, Non-fatal, Link 3 sourcetrack ECC limit", {}),
        ("22013, Fatal, Link 55 another interrupt", {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}),
    ],
)
def test_sxid_is_judged_by_number_and_word(words, found):
    assert verdicts(SWITCH + words) == found


HEAD, FATAL = f"{SWITCH}20009, Non-fatal, Link 28 RX Short Error Rate", f"{SWITCH}20009, Fatal, Link 28 text"
MILD, GRAVE = (f"{SWITCH}20009, Severity {number} Engine instance 28 Sub-engine instance 00" for number in (0, 1))
DATA = f"{SWITCH}20009, Data {{0x50610002, 0x00000000}}"
IS_FAULT, IS_WARNING = {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}, {"no_nvswitch_errors": FAILED}
IS_UNKNOWN = {"no_nvswitch_errors": UNKNOWN, "no_xid_errors": UNKNOWN}


@pytest.mark.parametrize(
    ("lines", "found", "count"),
    [
        ([HEAD, MILD, DATA], IS_WARNING, 1),
        ([FATAL, GRAVE, DATA], IS_FAULT, 1),
        ([DATA, MILD, HEAD], IS_WARNING, 1),
        ([FATAL, MILD, DATA], IS_FAULT, 1),
        ([MILD], IS_WARNING, 1),
        ([GRAVE], IS_FAULT, 1),
        ([MILD, DATA], IS_WARNING, 1),
        ([GRAVE, DATA], IS_FAULT, 1),
        ([DATA], IS_UNKNOWN, 1),
        ([DATA, HEAD.replace("07", "08")], {**IS_UNKNOWN, **IS_WARNING}, 2),
        ([DATA, HEAD.replace("20009", "20001")], {**IS_UNKNOWN, **IS_WARNING}, 2),
        ([DATA.replace("20009", "12028")], IS_FAULT, 1),
        ([DATA.partition(" {")[0]], IS_UNKNOWN, 1),
        ([HEAD, MILD, DATA, GRAVE, DATA], IS_FAULT, 2),
        ([HEAD, f"{SWITCH}20009, Sever"], IS_FAULT, 2),
    ],
)
def test_details_of_an_sxid_count_where_its_first_line_is_lost(lines, found, count):
    """The driver prints three lines for each error: with the word, with the severity as a number, and with registers."""
    assert (verdicts(*lines), len(parse_xids("\n".join(lines)))) == (found, count)


@pytest.mark.parametrize(
    "line",
    [
        "[  812.1] NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.",
        "kernel: NVRM: Xid (PCI:0000:4d:00 GPU-I:02): 95, pid=7, Ch 00000008",
        "NVRM:  Xid (PCI:0000:4d:00): 119, Timeout after 6s of waiting for RPC response from GPU1 GSP!",
        "NVRM: GPU0 Xid (PCI:0000:4d:00): 120, text",
        "NVRM: Xid (PCI:0000:4d:00): 140\r",
        "<4>[1] nvidia-nvswitch0 SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ],
)
def test_lines_of_older_and_newer_drivers_are_read(line):
    assert verdicts(line)["no_xid_errors"] is FAILED


@pytest.mark.parametrize("line", [f"{GPU}ERR!, pid=1", "NVRM: Xid (PCI:0000:4d", "nvidia-nvswitch0: SXid (PCI:"])
def test_line_without_number_is_unknown(line):
    assert verdicts(line)["no_xid_errors"] is UNKNOWN
    assert verdicts(line, f"{GPU}79, text")["no_xid_errors"] is FAILED


@pytest.mark.parametrize(
    "line", ["NVRM: GPU 0000:4d:00.0: RmInitAdapter failed!", "audit: name=Xid", "NVRM: loading NVIDIA UNIX Open Kernel Module"]
)
def test_other_lines_are_ignored(line):
    assert parse_xids(line) == ()


def test_alert_leaves_out_the_numbers_that_the_check_passes():
    left_out = "|".join(re.findall(r'xid!~"([^"]+)"', alerts()["GpuXid"].expression))
    silent = {number for number in range(200) if re.fullmatch(left_out, str(number))}
    assert silent == {number for number in range(200) if severity_of(number) in (PROGRAM, NOTE)}


def test_alerts_of_nvswitches_agree_with_the_checks():
    fatal = re.findall(r'sxid=~"([^"]+)"', alerts()["NvswitchSxidFatal"].expression)
    left_out = re.findall(r'sxid!~"([^"]+)"', alerts()["NvswitchSxidNonFatal"].expression)
    for number in range(10000, 31000):
        (error,) = parse_xids(f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {number}, Non-fatal, Link 04 text")
        alarmed = FAULT if matches(fatal, number) else NOTE if matches(left_out, number) else WARNING
        assert error.severity is alarmed, number


def matches(patterns, number):
    return any(re.fullmatch(pattern, str(number)) for pattern in patterns)
