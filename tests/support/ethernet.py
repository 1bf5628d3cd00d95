"""Ethernet frames for tests, as QEMU passes them: without preamble and frame check sequence."""

from __future__ import annotations

import ipaddress
import struct

BROADCAST = "ff:ff:ff:ff:ff:ff"


def address(mac: str) -> bytes:
    """Return the six bytes of a MAC address."""
    return bytes.fromhex(mac.replace(":", ""))


def ethernet(source: str, destination: str, payload: bytes, *, kind: int = 0x88B5, vlan: int | None = None) -> bytes:
    """Return a frame; its type is one for experiments unless given (IEEE 802-2014, 9.2.4)."""
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return address(destination) + address(source) + tag + struct.pack("!H", kind) + payload


def udp(source: str, destination: str, ports: tuple[int, int], *, protocol: int = 17, fragment: int = 0, options: int = 0) -> bytes:
    """Return an IPv4 or IPv6 packet with 18 bytes of data after the ports; `options` are words of IPv4 options."""
    data = struct.pack("!HH", *ports) + bytes(18)
    ends = [ipaddress.ip_address(end).packed for end in (source, destination)]
    if len(ends[0]) == 16:
        return struct.pack("!IHBB", 6 << 28, len(data), protocol, 64) + b"".join(ends) + data
    header = struct.pack("!BBHHHBBH", 0x45 + options, 0, 20 + 4 * options + len(data), 1, fragment, 64, protocol, 0)
    return header + b"".join(ends) + bytes(4 * options) + data
