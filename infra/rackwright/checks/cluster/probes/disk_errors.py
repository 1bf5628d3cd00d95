"""Probe of the errors that the kernel logs for disks and for the file systems on them.

Sources: Linux 4.18 to 6.17, block/blk-core.c (blk_errors, print_req_error, blk_print_req_error), drivers/nvme/host/pci.c and core.c,
drivers/md/raid1.c, fs/ext4/super.c, fs/jbd2/journal.c, fs/xfs/xfs_fsops.c and xfs_buf.c, fs/btrfs/messages.c and volumes.c; kernel logs in
public reports.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Lines, quoted, whole_lines
from rackwright.checks.cluster.probes.kernel_log import KERNEL_LOG, REQUIRE_KERNEL_LOG

_REQUEST: Final = re.compile(
    r"(?:^|[:\]] )(?P<kind>[A-Za-z][A-Za-z/ ]*) error, dev (?P<disk>[a-z][a-z0-9!-]*), sector (?P<sector>\d+)"
    r"(?: op 0x[0-9a-f]+:\((?P<operation>\w+)\))?"
)
"""A request that failed after its repetitions. Linux before 5.13 has a function in front of the kind, before 5.2 no operation."""
_HARMLESS: Final = frozenset(
    {
        *("operation not supported", "reservation conflict", "critical nexus", "kernel resource", "device resource", "nonblocking retry"),
        *("dm internal retry", "open zones exceeded", "active zones exceeded", "duration limit exceeded", "invalid"),
    }
)
"""Kinds that are no error of the disk: commands it does not know, reservations of another node, requests that are repeated."""
_HINTS: Final = frozenset({"DISCARD", "SECURE_ERASE", "WRITE_SAME", "WRITE_ZEROES"})
"""Operations that disks may refuse. No data is lost: the kernel writes zeros instead, or goes on."""
_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        r"\bnvme (?P<disk>nvme\d+): (?:controller is down|Device not ready; aborting|Removing after probe failure|Disabling device after)",
        r"\bmd/\S+: Disk failure on (?P<disk>[^\s,]*)",
        r"\bEXT[234]-fs error \(device (?P<disk>[^)]*)\)",
        r"\bEXT[234]-fs \((?P<disk>[^)]*)\): (?:error count since last fsck|I/O error|Remounting filesystem read-only|previous I/O error)",
        r"\bAborting journal on device (?P<disk>\S*?)(?:-\d+)?\.?$",
        r"\bJBD2: (?:I/O error|Detected IO errors)\b.* (?:for|on) (?P<disk>\S*?)(?:-\d+)?\.?$",
        r"\bXFS \((?P<disk>[^)]*)\): .*(?:I/O [Ee]rror|[Cc]orruption|log error|Internal error|shut down|[Ss]hutting down|force_shutdown)",
        r"\bBTRFS:?(?: error| critical) \(device (?P<disk>[^):]*).*(?:errs: |IO failure|checksum|csum|corrupt|transid|bad tree|fixup)",
    )
)
_DISK: Final = re.compile(r"[a-z][a-z0-9!-]*")
_OTHERS: Final = re.compile(r"(?:loop|nbd|rbd|drbd|zram|ram|zd|sr|fd|mtdblock)\d")
"""Devices that are no disk of the node: files, other nodes, memory, and drives without a medium."""
_MOST: Final = 3
"""Errors of a disk that are quoted."""
_END: Final = "end"
_CUT: Final = "the kernel log is cut short"


def parse_disk_errors(text: str) -> Lines[str]:
    """Return the errors in lines of the kernel log by disk or partition, after lines `skipped <disk>` and before `end`.

    >>> text = "skipped sdc\\ncritical medium error, dev sda, sector 8 op 0x0:(READ) flags 0x0\\nI/O error, dev sdc, sector 0\\nend\\n"
    >>> parse_disk_errors(text)
    {'sda': 'critical medium error (READ) at sector 8'}
    """
    lines, partial = whole_lines(text)
    unread = [*partial, *(() if _END in lines else (_CUT,))]
    skipped = {line.split()[1] for line in lines if re.fullmatch(r"skipped \S+", line)}
    found: dict[str, dict[str, None]] = {}
    for line in lines:
        error = _error(line)
        if error is None:
            continue
        disk, words = error
        if not _DISK.fullmatch(disk):
            unread.append(line)
        elif not _OTHERS.match(disk) and disk not in skipped:
            found.setdefault(disk, {})[words] = None
    if _CUT in unread and not found:
        raise ValueError(_CUT)
    return Lines({disk: _joined(errors) for disk, errors in found.items()}, unread)


def _error(line: str) -> tuple[str, str] | None:
    """Return disk and error of a line, with an empty disk where the line of an error cannot be read; None for other lines."""
    if " error, dev " in line:
        request = _REQUEST.search(line)
        if request is None:
            return "", line
        if request["kind"] in _HARMLESS or request["operation"] in _HINTS:
            return None
        operation = f" ({request['operation']})" if request["operation"] else ""
        return request["disk"], f"{request['kind']} error{operation} at sector {request['sector']}"
    form = next((found for form in _FORMS if (found := form.search(line))), None)
    return None if form is None else (form["disk"], quoted(line[form.start() :]))


def _joined(errors: Iterable[str]) -> str:
    texts = list(errors)
    more = f"; {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def _command() -> str:
    """Return the command that prints disks whose errors do not count, then the kernel's lines since boot.

    The errors of one path are no errors of the disk behind it (multipath); removable ones have no medium, such as a BMC's virtual drive.
    A disk that fails logs thousands of lines: the first ones of each form are printed.
    """
    skipped = (
        'for d in /sys/block/*; do case $(cat "$d/dm/uuid" 2>/dev/null) in mpath-*) ls "$d/slaves" | sed "s/^/skipped /";; esac; '
        'if [ "$(cat "$d/removable" 2>/dev/null)" = 1 ]; then echo "skipped ${d##*/}"; fi; done'
    )
    words = r"error, dev |EXT[234]-fs |journal on device|JBD2: |XFS \(|BTRFS|nvme nvme[0-9]+: |Disk failure on"
    few = "awk '{ k = $0; gsub(/[0-9][0-9][0-9]+|0x[0-9a-f]+/, \"#\", k); if (++n[k] <= 3 && ++m <= 1000) print }'"
    return f"{REQUIRE_KERNEL_LOG}; {skipped}; {KERNEL_LOG} --grep='{words}' | {few}; echo {_END}"


DISK_ERRORS = Probe("disk-errors", on="nodes", command=_command(), parse=parse_disk_errors)
