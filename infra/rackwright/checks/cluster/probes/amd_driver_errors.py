"""Probe of the errors that AMD's driver amdgpu writes to the kernel log, with the severity of each: it has no numbers as NVIDIA's XIDs are.

Sources: amdgpu_ras.c, amdgpu_ras_eeprom.c, amdgpu_device.c, amdgpu_job.c, amdgpu_mes.c in drivers/gpu/drm/amd of Linux 5.15 to 6.17; kernel
logs in public reports of MI50, MI100, MI250 and MI300X. Lines of other forms are ignored: the driver calls many harmless ones ERROR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import lines_of
from rackwright.checks.cluster.probes.driver_errors import DriverError, Severity
from rackwright.checks.cluster.probes.kernel_log import KERNEL_LOG, REQUIRE_KERNEL_LOG

_COUNTED: Final = re.compile(
    r"\b(?P<count>\d+) (?:new )?(?P<kind>uncorrectable hardware errors|deferred hardware errors|poison consumption)\b(?!.* in total)"
)
"""Errors of a block. Rows with `in total` repeat earlier errors whenever a tool reads the counters; a count of 0 is no error."""
_REPLACEMENT: Final = re.compile(
    r"RAS records:\s*\d+ exceed threshold|Saved bad pages\s*\(?\d+\)? reaches threshold|GPU will not be initialized|in RMA state"
    r"|(?:memory training|firmware load|(?:wafl|xgmi|usr [cd]p) link training|hbm (?:memory|bist) test) failed"
    r"|fw_status: 0x[0-9a-f]+, (?:data abort exception|unknown boot time errors)|going to shutdown due to GPU",
    re.IGNORECASE,
)
"""Errors that no reset ends: too many retired pages, errors at power-on, critical temperature."""
_BROKEN: Final = re.compile(
    r"GPU reset\s*(?:begin|\(\d+\) failed|end with ret = -\d)|GPU Recovery Failed|PCIe error recovery failed|device (?:is )?lost from bus"
    r"|Fatal error during GPU init|[hs]w_init of IP block <\S+> failed|MES failed to respon|MES might be in unrecoverable state"
    r"|cp might be in an unrecoverable state|qcm fence wait loop timeout|\bring \S+ timeout\b(?!.*\bsoft recovered)",
    re.IGNORECASE,
)
"""A GPU that hangs, that does not start, or whose reset has not ended. The driver resets it; with success, the GPU works again."""
_SURVIVED: Final = re.compile(
    r"RAS poison consumption\b(?! interrupt for unsupported)|poison is consumed"
    r"|RAS records:\s*\d+ exceeds 90% of threshold|over temperature range"
    r"|Temperature Fault|PCI error: detected callback",
    re.IGNORECASE,
)
"""Errors after which the GPU works on: a program read data that was marked as broken, and ends."""
_FORMS: Final = (
    (re.compile(r"uncorrectable hardware error\s*\("), Severity.FAULT, Severity.WARNING),
    (_REPLACEMENT, Severity.FAULT, Severity.FAULT),
    (_BROKEN, Severity.FAULT, Severity.PROGRAM),
    (_SURVIVED, Severity.WARNING, Severity.WARNING),
)
"""Forms of errors, each with its severity, and with that after a later reset that succeeded: a hang is then that of a program, an error of
the hardware may return."""
_RECOVERED: Final = re.compile(
    r"GPU reset\s*\(\d+\) succeeded|Initialized amdgpu \S+ .*for (?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9])", re.IGNORECASE
)
_RING_RECOVERED: Final = re.compile(r"\bRing \S+ reset succe", re.IGNORECASE)
"""The driver reset one queue (Linux 6.12 on)."""
_RING: Final = re.compile(r"\bring \S+ timeout\b", re.IGNORECASE)
_DEVICE: Final = re.compile(r"\bamdgpu(?: |:\s*)(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9])\b", re.IGNORECASE)
_EVENT: Final = re.compile(r"\{\d+\}\s*")


@dataclass(frozen=True)
class _Entry:
    """One line of the driver: the PCI address of its GPU, empty if the line has none, and its severity unless the GPU recovers."""

    device: str
    text: str
    severity: Severity
    settled: Severity
    """Severity after a later reset of the GPU that succeeded."""


def parse_amd_errors(text: str) -> tuple[DriverError, ...]:
    """Return the errors in a kernel log whose newest line is the first, oldest error first. The same error of a GPU is listed once.

    A reset that succeeds ends what required it. A line without an address may be of any GPU, so that each reset ends it.

    >>> log = "amdgpu 0000:05:00.0: amdgpu: GPU reset(1) succeeded!\\namdgpu 0000:05:00.0: amdgpu: GPU reset begin!\\n"
    >>> parse_amd_errors(log), [error.severity.name for error in parse_amd_errors(log.splitlines()[1])]
    ((), ['FAULT'])
    """
    found: dict[str, DriverError] = {}
    for entry, recovered in _newest_first(lines_of(text)):
        severity = entry.settled if recovered else entry.severity
        key = re.sub(r"\d+", "#", entry.text.replace(entry.device, "")) + entry.device
        if severity is not Severity.PROGRAM and key not in found:
            found[key] = DriverError(entry.text, severity)
    return tuple(reversed(found.values()))


def _newest_first(lines: list[str]) -> Iterator[tuple[_Entry, bool]]:
    """Yield the errors with whether a reset of their GPU that succeeded follows."""
    recovered: set[str] = set()
    rings: set[str] = set()
    for line in lines:
        match = _DEVICE.search(line)
        device = match["device"].lower() if match else ""
        if success := _RECOVERED.search(line):
            recovered.add((success["device"] or device).lower())
        elif _RING_RECOVERED.search(line):
            rings.add(device)
        elif entry := _entry(line, device):
            ended = recovered | rings if _RING.search(line) else recovered
            yield entry, bool(ended and (not device or "" in ended or device in ended))


def _entry(line: str, device: str) -> _Entry | None:
    """Return an error of the driver; None for any other line."""
    if not device and "amdgpu" not in line and "[drm" not in line:
        return None
    text = _EVENT.sub("", line[line.find("amdgpu") if device else 0 :].strip())
    kinds = [counted["kind"].partition(" ")[0] for counted in _COUNTED.finditer(line) if int(counted["count"])]
    if kinds:
        return _Entry(device, text, Severity.FAULT if "uncorrectable" in kinds else Severity.WARNING, Severity.WARNING)
    return next((_Entry(device, text, severity, settled) for form, severity, settled in _FORMS if form.search(line)), None)


_WORDS: Final = "|".join(
    (
        *("hardware error", "poison (consumption|is consumed)", "fence wait loop", "RAS records", "bad pages", "GPU will not", "RMA state"),
        *("training failed", "load failed", "test failed", "fw_status", "shutdown due", "GPU reset", "Recovery Failed", "during GPU init"),
        *("w_init of IP", "lost from bus", "PCIe? error", "MES failed", "MES might", "unrecoverable state", "[Rr]ing .*(timeout|reset)"),
        *("over temperature", "Temperature Fault", "Initialized amdgpu"),
    )
)
"""Words of the lines that are read: at least one for each form above."""
_NORMALIZE: Final = (
    'k=$0; gsub(/[0-9]+/, "#", k); if (match($0, /[0-9a-f]+:[0-9a-f]+:[0-9a-f]+[.][0-9]/)) k = substr($0, RSTART, RLENGTH) k'
)


def _command() -> str:
    """Return the command that reads the driver's lines since boot, newest first, with the newest 20 of each form and GPU.

    A driver that queries broken counters logs thousands of lines (ROCm/TheRock issue 7888). The newest decide whether a reset followed.
    """
    few = f"awk '/{_WORDS}/ {{ {_NORMALIZE}; if (++n[k] <= 20) print }}'"
    return f"{REQUIRE_KERNEL_LOG}; {KERNEL_LOG} --reverse --grep='amdgpu|\\[drm' | {few}"


AMD_ERRORS = Probe("amd-errors", on="amd_gpu", command=_command(), parse=parse_amd_errors)
