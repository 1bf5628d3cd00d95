"""Probe of the identities of RDMA adapters that ibstat does not print: PCI address and permanent MAC addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, quoted, read_each_line, words

NAME_OF_LINK: Final = "readlink -f {0} 2>/dev/null | sed 's#.*/##'"
"""Command that prints the last part of a link's target."""
# A member of a bond has the bond's address. An address that was set or drawn at random (addr_assign_type) does not identify the card.
PERMANENT_MAC: Final = (
    "if [ -e $n/device/physfn ]; then :; elif [ -e $n/bonding_slave/perm_hwaddr ]; then cat $n/bonding_slave/perm_hwaddr; "
    'elif [ "$(cat $n/addr_assign_type 2>/dev/null)" = 0 ]; then cat $n/address; '
    "else ethtool -P $n 2>/dev/null | sed -n 's/^Permanent address: \\([0-9a-f:]*\\)$/\\1/p'; fi"
)
"""Command that prints the permanent hardware address of the interface `$n`, in /sys/class/net. A virtual function has none."""
_END: Final = "end|"
_GUID: Final = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}")
_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MAC_OF_IPOIB: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){19}")


@dataclass(frozen=True)
class AdapterIdentity:
    """Identities of an adapter; UnreadableValue for one that the kernel does not report."""

    node_guid: str | UnreadableValue
    pci: str | UnreadableValue
    macs: tuple[str, ...] | UnreadableValue
    """Permanent MAC addresses of the interfaces on the adapter; a bond or VLAN above them has none of its own."""


def parse_adapters(text: str) -> Lines[AdapterIdentity]:
    """Return the identities by device from lines `device|node GUID|PCI|MAC addresses`, and a last line `end|`.

    >>> parse_adapters("mlx5_0|946d:ae03:00f0:1234|0000:1a:00.0|94:6d:ae:f0:12:34\\nend|\\n")["mlx5_0"].macs
    ('94:6d:ae:f0:12:34',)
    """
    if "|" not in text:
        raise ValueError(f'no adapter: "{quoted(text)}"')
    return read_each_line(text, _adapter)


def _adapter(line: str) -> tuple[str, AdapterIdentity] | None:
    if "|" not in line or line.strip() == _END:
        return None
    device, guid, pci, macs = line.split("|")
    device = words(device)
    found = tuple(cell for cell in macs.split() if not _MAC_OF_IPOIB.fullmatch(cell) and cell.strip("0:"))
    bare = "0x" + guid.strip().replace(":", "")
    return device, AdapterIdentity(
        bare if _GUID.fullmatch(guid.strip()) and int(bare, 16) else UnreadableValue(f"the node GUID of {device}", guid, line),
        pci.strip() if _PCI.fullmatch(pci.strip()) else UnreadableValue(f"the PCI address of {device}", pci, line),
        found if found and all(map(_MAC.fullmatch, found)) else UnreadableValue(f"the MAC address of {device}", macs, line),
    )


def _command(context: ProbeContext) -> str:
    """Return the command; a node whose adapters the stack file does not declare has nothing to compare."""
    if not context.node.get("adapters"):
        return f"echo '{_END}'"
    macs = f"for n in $(ls $d/device/net 2>/dev/null); do {PERMANENT_MAC}; done | tr '\\n' ' '"
    return (
        "cd /sys/class/net && for d in /sys/class/infiniband/*; do [ -e $d/node_guid ] || continue; "
        f"echo \"${{d##*/}}|$(cat $d/node_guid)|$({NAME_OF_LINK.format('$d/device')})|$({macs})\"; done; echo '{_END}'"
    )


ADAPTERS = Probe("adapters", on="fabric", command=_command, parse=parse_adapters)
