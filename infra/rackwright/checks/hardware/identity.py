"""Identities of hardware as tools and the kernel print them: GUIDs, UUIDs, MAC addresses, names of disks.

Formats: `node_guid` and `gids/0` as in drivers/infiniband/core/sysfs.c of Linux, ibstat(8) of infiniband-diags, the UUID of nvidia-smi(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from rackwright.checks.cluster.harness.tool_output import UnreadableValue, quoted, whole_lines

T = TypeVar("T")
_GROUPS: Final = r"[0-9a-f]{4}(?::[0-9a-f]{4}){%d}"
_NO_GUID: Final = "0x0000000000000000"
END: Final = "end|"
"""Last line of the list of disk names; without it, names may be missing."""


def read(subject: str, cell: str, form: Callable[[str], T], line: str) -> T | UnreadableValue:
    """Return the value of a cell, or UnreadableValue if the cell has another form."""
    try:
        return form(cell.strip())
    except ValueError:
        return UnreadableValue(subject, cell, line)


def guid(cell: str) -> str | None:
    """Return a GUID of the kernel's folders as ibstat prints it; None for the zeros of a virtual function without one.

    >>> guid("946d:ae03:00f0:1234"), guid("0000:0000:0000:0000")
    ('0x946dae0300f01234', None)
    """
    if not re.fullmatch(_GROUPS % 3, cell):
        raise ValueError(f'"{cell}" is no GUID')
    return _guid(cell)


def guid_of_gid(cell: str) -> str | None:
    """Return the GUID in the last 8 bytes of a GID; None if they are zero, as for a port of RoCE without an interface.

    >>> guid_of_gid("fe80:0000:0000:0000:946d:ae03:00f0:1234")
    '0x946dae0300f01234'
    """
    if not re.fullmatch(_GROUPS % 7, cell):
        raise ValueError(f'"{cell}" is no GID')
    return _guid(cell[-19:])


def _guid(groups: str) -> str | None:
    found = "0x" + groups.replace(":", "")
    return None if found == _NO_GUID else found


def printed_guid(cell: str) -> str | None:
    """Return a GUID of ibstat; None for zeros.

    >>> printed_guid("0x946dae0300f01234"), printed_guid("0x0000000000000000")
    ('0x946dae0300f01234', None)
    """
    if not re.fullmatch(r"0x[0-9a-f]{16}", cell):
        raise ValueError(f'"{cell}" is no GUID')
    return None if cell == _NO_GUID else cell


def gpu_uuid(cell: str) -> str:
    """Return the UUID of a GPU, with which nvidia-smi and NVML select it.

    >>> gpu_uuid("GPU-3f6c1d0e-52aa-0b1c-9d77-5a1e0c2b4f90")
    'GPU-3f6c1d0e-52aa-0b1c-9d77-5a1e0c2b4f90'
    """
    if not re.fullmatch(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", cell):
        raise ValueError(f'"{cell}" is no UUID of a GPU')
    return cell


def mac(cell: str) -> str | None:
    """Return a MAC address of 6 or 20 bytes; None for zeros.

    >>> mac("94:6d:ae:f0:12:34")
    '94:6d:ae:f0:12:34'
    """
    if not re.fullmatch(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){14})?", cell):
        raise ValueError(f'"{cell}" is no MAC address')
    return cell if cell.strip("0:") else None


def pci(cell: str) -> str:
    """Return a PCI address; empty for a device of another bus, such as virtio0.

    >>> pci("0000:1a:00.0"), pci("virtio0")
    ('0000:1a:00.0', '')
    """
    return cell if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", cell) else ""


def disk_links(text: str) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the names of each disk from lines `device|name`, and why some may be missing.

    >>> disk_links("sda|wwn-0x5001\\nsda1|wwn-0x5001-part1\\nend|\\n")
    ({'sda': ('wwn-0x5001',), 'sda1': ('wwn-0x5001-part1',)}, '')
    """
    lines, cut = whole_lines(text.lstrip())
    found: dict[str, tuple[str, ...]] = {}
    bad = list(cut)
    for line in lines:
        device, bar, name = line.partition("|")
        if bar and device and name and device != "end":
            found[device] = (*found.get(device, ()), name)
        elif line != END:
            bad.append(line)
    if bad:
        return found, f'a name of a disk cannot be read: "{quoted(bad[0])}"'
    return found, "" if END in lines else "the list of disk names is cut short"
