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
from typing import TYPE_CHECKING, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import UnreadableValue

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
_NVLINK_FAULTS: Final[Mapping[str, frozenset[int]]] = {
    "SAW_MVB": frozenset({0x2, 0x10}),
    "RLW_REMAP": frozenset({0x40, 0x80}),
    "RLW_RSPCOL": frozenset({0x2}),
    "RLW_SRC_TRACK": frozenset({0x1, 0x10, 0x20}),
    "RLW_TAGSTATE": frozenset({0x2, 0x20000, 0x100000}),
    "TLW_CTRL": frozenset({0x4}),
    "TLW_RX": frozenset({0x4}),
    "TLW_TX": frozenset({0x4}),
    "NETIR_MFDE_EVENT": frozenset({0x1, 0x4, 0x5, 0x7}),
}
"""Error status, by the beginning of the unit's name, for which the catalogue asks for a reset, whatever the severity of the line."""
_NVLINK_PROGRAMS: Final[Mapping[str, frozenset[int]]] = {
    "RLW_REMAP": frozenset({0x1, 0x2, 0x4, 0x8, 0x10, 0x20}),
    "RLW_SRC_TRACK": frozenset({0x4, 0x8}),
}
"""Error status with the action XID_154_EVAL: without an XID 154, restart the program."""
_SWITCH_FAULTS: Final = frozenset({11004, 12028, 19084})
"""SXids that the line calls non-fatal, after which the traffic of a GPU stalls until a reset (Fabric Manager User Guide, D.4)."""
_SWITCH_NOTES: Final = frozenset(
    {10005, 11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071, 22013}
    | {24001, 24002, 24003, 28002, 28004}
)
"""SXids without impact: corrected single-bit errors, an interrupt that can be ignored, the end of high temperature (as above)."""
_PROCESS: Final = re.compile(r"pid=[^,]*,\s*(?:name=[^,]*,\s*)?")
"""The process for which the driver worked; some lines have it before the unit: `145, pid=811, name=train.py, RLW_REMAP Nonfatal …`."""
_ERROR: Final = re.compile(r"(?:NVRM:\s*(?:GPU\s?\d+:?\s*)?(?=Xid\b)|\b(?=SXid\b))(?P<text>S?Xid\b.*)")
_NUMBER: Final = re.compile(r"S?Xid\s*(?:\((?P<device>[^)]*)\))?\s*:\s*(?P<number>\d+)\b[,:]?\s*(?P<words>.*)")
_DETAIL: Final = re.compile(r"Severity (\d+) Engine instance|Data \{")


def parse_xids(text: str) -> tuple[DriverError, ...]:
    """Return the errors of GPUs and NVSwitches in the kernel log, in its order.

    Details of an SXid are no errors of their own, and of a GPU's changes of its recovery action the last counts.

    >>> [error.severity.name for error in parse_xids("NVRM: Xid (PCI:0000:10:00): 79, pid=7, GPU has fallen off the bus.")]
    ['FAULT']
    """
    lines = [found["text"].strip() for line in text.splitlines() if (found := _ERROR.search(line))]
    parsed = [(line, _NUMBER.match(line)) for line in lines]
    heads = {_key(found) for _, found in parsed if found and not _DETAIL.match(found["words"])}
    last = {found["device"]: line for line, found in parsed if found and int(found["number"]) == _RECOVERY}
    errors = []
    for line, found in parsed:
        if found is None:
            errors.append(DriverError(line, UnreadableValue("the number of an error", None, line), line.startswith("SXid")))
        elif _DETAIL.match(found["words"]) and _key(found) in heads:
            continue
        elif int(found["number"]) != _RECOVERY or line == last[found["device"]]:
            errors.append(_error(line, int(found["number"]), found["words"]))
    return tuple(errors)


def _key(found: re.Match[str]) -> tuple[str, str]:
    return found["device"] or "", found["number"]


def _error(line: str, number: int, words: str) -> DriverError:
    if line.startswith("SXid"):
        return DriverError(line, _of_switch(number, words), of_nvswitch=True)
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
    unit = _PROCESS.sub("", words, count=1).split(" ")[0].rstrip(",")
    registers = re.search(r"[(\[]\s*0x[0-9a-fA-F]+[\s,]+0x([0-9a-fA-F]+)", words)
    status = int(registers[1], 16) if registers else -1
    if number == _NVLINK[-1] or not re.search(r"\bnon-?fatal\b", words, re.IGNORECASE) or _has(_NVLINK_FAULTS, unit, status):
        return Severity.FAULT
    return Severity.PROGRAM if _has(_NVLINK_PROGRAMS, unit, status) else Severity.WARNING


def _has(table: Mapping[str, frozenset[int]], unit: str, status: int) -> bool:
    return any(unit.startswith(name) and status in values for name, values in table.items())


def _of_switch(number: int, words: str) -> Severity:
    """Return the severity of an error of an NVSwitch, by its number and the word in its line: one without a word counts as a fault."""
    detail = _DETAIL.match(words)
    survived = re.match(r"non-?fatal\b", words, re.IGNORECASE) or (detail and detail[1] == "0")
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
    command = "journalctl --quiet --dmesg --boot --no-pager --output=cat"
    # A program that fails in a loop logs thousands of errors of its own, more than an answer may have.
    few = "awk '{ if (match($0, /Xid \\([^)]*\\): (13|31|43|45|69),/) && ++n[substr($0, RSTART, RLENGTH)] > 20) next; print }'"
    found = f'x=$({command} --grep=\'NVRM:.*Xid|SXid\' | {few}) || exit 3; [ -z "$x" ] || {{ echo "$x"; exit; }}'
    # Status 1 means no match, no journal, or no support for --grep (journalctl(1)). A line of the kernel must then be found.
    return f"{found}; [ -n \"$({command} --lines=1 --grep=.)\" ] || {{ echo 'no log of the kernel' >&2; exit 3; }}"


XIDS = Probe("gpu-xids", on="gpu", command=_xids, parse=parse_xids)
