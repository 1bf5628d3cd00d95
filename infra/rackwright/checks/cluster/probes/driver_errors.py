"""Probe of the errors that NVIDIA's drivers write to the kernel log: XIDs of GPUs and SXids of NVSwitches, with their severity.

Sources: NVIDIA, Xid Errors, Analyzing Xid Errors with the Xid Catalog (column Immediate Action, and Decode of XIDs 144 to 150; 2026);
NVIDIA, Fabric Manager User Guide, NVSwitch SXid errors (2023 to 2026).

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.kernel_log import KERNEL_LOG, REQUIRE_KERNEL_LOG

if TYPE_CHECKING:  # Python 3.9 on nodes has no `|` between types
    from typing import TypeAlias

    Judgement: TypeAlias = "Severity | UnreadableValue"


class Severity(Enum):
    """What an error means for the node."""

    FAULT = "fault"
    """The GPU or the links need a reset, a reboot or a replacement. So does an error of a number that no table has."""
    WARNING = "warning"
    """Hardware corrected or contained the error. Jobs go on; worse ones may follow."""
    PROGRAM = "program"
    """A program failed and is restarted; the GPU works."""
    NOTE = "note"
    """No action is needed."""


@dataclass(frozen=True)
class DriverError:
    """One error, without time and host."""

    text: str
    severity: Judgement
    of_nvswitch: bool = False


_PROGRAM: Final = frozenset(
    {8, 11, 13, 14, 25, 31, 32, 37, 38, 39, 40, 41, 43, 44, 45, 60, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89}
    | {*range(96, 106), 108, *range(126, 136), 137, 139, 141, 152, 153}
)
"""XIDs with the immediate action RESTART_APP, IGNORE after a program's fault, or WORKFLOW_XID_45."""
_WARNINGS: Final = frozenset({92, 94, 157, 161, 164, 165})
"""XIDs that jobs survive (94: all but one), and that the catalogue has investigated: many corrected errors, a contained error, no spare
resources to repair with, power smoothing at its end of life."""
_NOTES: Final = frozenset({63, 93, 106, 107, 121, 160, 162, 163})
"""XIDs without an action: a recorded repair (it is due until a reset, which nvidia-smi reports), a limit of writes, test messages,
corrected errors of the link to a Grace CPU, power smoothing."""
_RECOVERY: Final = 154
"""XID whose line has the new recovery action of a GPU (drivers from 565 on)."""
_NVLINK: Final = range(144, 151)
"""XIDs of NVLink 5: the line has the unit and its severity, `149, NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000 …)`."""
_NVLINK_RESETS: Final[Mapping[str, int]] = {
    "SAW_MVB": 0x12,
    "RLW_REMAP": 0xC0,
    "RLW_RSPCOL": 0x2,
    "RLW_SRC_TRACK": 0x31,
    "RLW_TAGSTATE": 0x12_0002,
    "TLW_CTRL": 0x4,
    "TLW_RX": 0x4,
    "TLW_TX": 0x4,
}
"""Bits of the error status, by the beginning of the unit's name, with the action RESET_GPU, whatever the severity of the line."""
_EVENT_RESETS: Final = frozenset({0x1, 0x4, 0x5, 0x7})
"""Error status of NETIR_MFDE_EVENT, which is a number, with the action RESET_GPU."""
_NVLINK_RESTARTS: Final[Mapping[str, int]] = {"RLW_REMAP": 0x3, "RLW_SRC_TRACK": 0xC}
"""Bits of the error status with the action XID_154_EVAL: without an XID 154, restart the program. For the bits 0x3c of RLW_REMAP the
catalogue also asks for an investigation of the links (CHECK_NVLINK_FAILURE_FLOW): they are warnings."""
_LINK_DOWN: Final = re.compile(r"NETIR(_INT|_LINK_EVT|_LINK_DOWN)?$")
"""Units whose errors stop a link, whatever the severity of the line."""
_LINK_STOPPED_ELSEWHERE: Final = frozenset({0x26, 0x28})
"""Sub-codes of a link that software or the host has stopped: the catalogue's action is IGNORE, then an investigation."""
_UNIT: Final = re.compile(r".*\b(?P<unit>[A-Z][A-Z0-9_]+),?\s+(?:Link\s+)?(?P<severity>(?i:non-?fatal|fatal))\b(?P<rest>.*)")
"""Unit and severity. The last ones count: the name of a process, which some lines have before the unit, is its user's choice."""
_REGISTERS: Final = re.compile(r"[(\[]\s*0x([0-9a-fA-F]+)[\s,]+0x([0-9a-fA-F]+)")
"""The first two registers: information about the interrupt (IntrInfo), and the error status."""
_SWITCH_FAULTS: Final = frozenset({11004, 12028, 19084})
"""SXids that the line calls non-fatal, after which the traffic of a GPU stalls until a reset (Fabric Manager User Guide, D.4)."""
_SWITCH_NOTES: Final = frozenset(
    {10005, 11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071, 22013}
    | {24001, 24002, 24003, 28002, 28004}
)
"""SXids without impact: corrected single-bit errors, an interrupt that can be ignored, the end of high temperature (as above)."""
_ERROR: Final = re.compile(r"(?:NVRM:\s*(?:GPU\s?\d+:?\s*)?(?=Xid\b)|\b(?=SXid\b))(?P<text>S?Xid\b.*)")
_NUMBER: Final = re.compile(r"S?Xid\s*(?:\((?P<device>[^)]*)\))?\s*:\s*(?P<number>\d+)\b[,:]?\s*(?P<words>.*)")
_SURVIVED: Final = re.compile(r"non-?fatal\b", re.IGNORECASE)
_DETAIL: Final = re.compile(r"Severity (\d+)\b|Data\b")


def parse_xids(text: str) -> tuple[DriverError, ...]:
    """Return the errors of GPUs and NVSwitches in the kernel log, in its order.

    The driver prints three lines for an SXid: with the word, with the severity as a number, and with registers. The last two are errors of
    their own only where the log has lost the first. Of a GPU's changes of its recovery action the last counts.

    >>> [error.severity.name for error in parse_xids("NVRM: Xid (PCI:0000:10:00): 79, pid=7, GPU has fallen off the bus.")]
    ['FAULT']
    """
    lines = [found["text"].strip() for line in text.splitlines() if (found := _ERROR.search(line))]
    parsed = [(line, _NUMBER.match(line)) for line in lines]
    heads = {_rank(found) for _, found in parsed if found}
    last = {found["device"]: line for line, found in parsed if found and int(found["number"]) == _RECOVERY}
    errors = []
    for line, found in parsed:
        if found is None:
            errors.append(DriverError(line, UnreadableValue("the number of an error", None, line), line.startswith("SXid")))
        elif _is_said_by_another(_rank(found), heads):
            continue
        elif int(found["number"]) != _RECOVERY or line == last[found["device"]]:
            errors.append(_error(line, int(found["number"]), found["words"]))
    return tuple(errors)


class _Rank(NamedTuple):
    """What a line tells of an error."""

    device: str
    number: str
    is_detail: bool
    is_fatal: bool | None
    """None for registers, which do not tell."""


def _rank(found: re.Match[str]) -> _Rank:
    words = found["words"]
    detail = _DETAIL.match(words) if found.string.startswith("SXid") else None
    is_fatal = None if detail and not detail[1] else detail[1] != "0" if detail else not _SURVIVED.match(words)
    return _Rank(found["device"] or "", found["number"], bool(detail), is_fatal)


def _is_said_by_another(line: _Rank, lines: set[_Rank]) -> bool:
    """Return whether a detail belongs to an error that another line tells: of the same severity, or of any for registers."""
    others = {one for one in lines - {line} if one[:2] == line[:2] and one.is_fatal is not None}
    if line.is_fatal is not None:
        others = {one for one in others if not one.is_detail and (one.is_fatal or not line.is_fatal)}
    return line.is_detail and bool(others)


def _error(line: str, number: int, words: str) -> DriverError:
    if line.startswith("SXid"):
        return DriverError(line, _of_switch(number, words, line), of_nvswitch=True)
    if number == _RECOVERY:
        return DriverError(line, _of_recovery(words, line))
    if number in _NVLINK:
        return DriverError(line, _of_nvlink(number, words))
    return DriverError(line, severity_of(number))


def severity_of(number: int) -> Severity:
    """Return the severity of an XID by its number alone.

    >>> severity_of(31).name, severity_of(79).name
    ('PROGRAM', 'FAULT')
    """
    for numbers, severity in ((_PROGRAM, Severity.PROGRAM), (_WARNINGS, Severity.WARNING), (_NOTES, Severity.NOTE)):
        if number in numbers:
            return severity
    return Severity.FAULT


def _of_recovery(words: str, line: str) -> Judgement:
    """Return the severity of `GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)`."""
    action = re.search(r"\bto\s+(?:0x[0-9a-fA-F]+\s*)?\(([^)]+)\)", words)
    if not action:
        return UnreadableValue("the recovery action of a GPU", None, line)
    return Severity.NOTE if action[1].strip().lower() == "none" else Severity.FAULT


def _of_nvlink(number: int, words: str) -> Severity:
    """Return the severity of an error of NVLink 5. A line of another form counts as a fault."""
    found = _UNIT.match(words)
    if number == _NVLINK[-1] or not found:
        return Severity.FAULT
    unit, registers = found["unit"], _REGISTERS.search(found["rest"])
    information, status = (int(registers[1], 16), int(registers[2], 16)) if registers else (0, 0)
    is_fatal = found["severity"].lower() == "fatal"
    if _LINK_DOWN.match(unit):
        # Bits 25 to 20 of IntrInfo are the sub-code.
        return Severity.WARNING if "_LINK_" in unit and information >> 20 & 0x3F in _LINK_STOPPED_ELSEWHERE else Severity.FAULT
    if is_fatal or status & _bits(_NVLINK_RESETS, unit) or _is_promoted(unit, information):
        return Severity.FAULT
    if unit == "NETIR_MFDE_EVENT" and status in _EVENT_RESETS:
        return Severity.FAULT
    restarts = _bits(_NVLINK_RESTARTS, unit)
    return Severity.PROGRAM if status & restarts and not status & ~restarts else Severity.WARNING


def _bits(table: Mapping[str, int], unit: str) -> int:
    return next((bits for name, bits in table.items() if unit.startswith(name)), 0)


def _is_promoted(unit: str, information: int) -> bool:
    """Return whether IntrInfo makes an error of RLW_RXPIPE fatal: bit 10 of drivers before 575, bit 7 of later ones (column Action 2).

    The older ones have the unit in bits 9 to 5, the later ones in bits 6 to 0.
    """
    return unit == "RLW_RXPIPE" and (information & 0x7FF == 0x4C2 or information & 0xFF == 0x86)


def _of_switch(number: int, words: str, line: str) -> Judgement:
    """Return the severity of an error of an NVSwitch, by its number and the word in its line: one without a word counts as a fault.

    That of registers alone is unknown, unless its number is a fault in any case.
    """
    detail = _DETAIL.match(words)
    if detail and not detail[1] and number not in _SWITCH_FAULTS:
        return UnreadableValue(f"the severity of SXid {number}", None, line)
    survived = _SURVIVED.match(words) or (detail and detail[1] == "0")
    if number in _SWITCH_FAULTS or not survived:
        return Severity.FAULT
    return Severity.NOTE if number in _SWITCH_NOTES else Severity.WARNING


def errors_of(errors: tuple[DriverError, ...], severity: Severity, *, of_nvswitch: bool | None = None) -> list[str | UnreadableValue]:
    """Return the texts of the errors with a severity, and errors whose severity is unknown; with `of_nvswitch`, of one of the sources."""
    chosen = [error for error in errors if of_nvswitch is None or error.of_nvswitch is of_nvswitch]
    return [
        error.severity if isinstance(error.severity, UnreadableValue) else error.text
        for error in chosen
        if isinstance(error.severity, UnreadableValue) or error.severity is severity
    ]


def _xids(context: ProbeContext) -> str:
    """Return the command that reads the kernel log. Simulated GPUs have a log of their own, because a container reads that of its host."""
    if context.node["gpus"]["simulated"]:
        return "cat /var/lib/rackwright/gpu-kernel.log 2>/dev/null; true"
    # A program that fails in a loop logs thousands of errors of its own, more than an answer may have.
    few = "awk '{ if (match($0, /Xid \\([^)]*\\): (13|31|43|45|69),/) && ++n[substr($0, RSTART, RLENGTH)] > 20) next; print }'"
    found = f'x=$({KERNEL_LOG} --grep=\'NVRM:.*Xid|SXid\' | {few}) || exit 3; [ -z "$x" ] || {{ echo "$x"; exit; }}'
    return f"{found}; {REQUIRE_KERNEL_LOG}"


XIDS = Probe("gpu-xids", on="gpu", command=_xids, parse=parse_xids)
