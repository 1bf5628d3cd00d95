"""Run on the node as root, imported by other programs: who answers ARP requests (RFC 826). Python 3.9, standard library only."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time

_ETHERTYPE = 0x0806
"""Type of Ethernet frames with ARP (IANA, IEEE 802 numbers)."""
_REQUEST, _REPLY = 1, 2
_HEADER = struct.Struct("!HHBBH6s4s6s4s")
"""Hardware and protocol type, their address lengths, operation; hardware and protocol address of the sender and of the target (RFC 826)."""
_ETHERNET, _IPV4 = 1, 0x0800
_REPEAT = 0.5
"""Seconds between requests. Chosen: two requests for each second of patience."""


def request(mac: bytes, source: str, target: str) -> bytes:
    """Return the frame of a request.

    >>> request(b"abcdef", "10.0.0.1", "10.0.0.2")[:14]
    b'\\xff\\xff\\xff\\xff\\xff\\xffabcdef\\x08\\x06'
    """
    body = _HEADER.pack(_ETHERNET, _IPV4, 6, 4, _REQUEST, mac, socket.inet_aton(source), bytes(6), socket.inet_aton(target))
    return b"\xff" * 6 + mac + struct.pack("!H", _ETHERTYPE) + body


def sender(frame: bytes, target: str) -> str:
    """Return the hardware address that a frame reports for an address; empty if it is no reply about it.

    >>> reply = _HEADER.pack(1, 0x0800, 6, 4, 2, b"abcdef", socket.inet_aton("10.0.0.2"), bytes(6), bytes(4))
    >>> sender(bytes(14) + reply, "10.0.0.2"), sender(bytes(14) + reply, "10.0.0.3"), sender(b"short", "10.0.0.2")
    ('61:62:63:64:65:66', '', '')
    """
    if len(frame) < 14 + _HEADER.size:
        return ""
    found = _HEADER.unpack_from(frame, 14)
    return found[5].hex(":") if found[4] == _REPLY and found[6] == socket.inet_aton(target) else ""


def route(target: str) -> tuple[str, str]:
    """Return interface and own address towards an address. Raise ValueError if a router lies between."""
    found = json.loads(subprocess.run(["ip", "-j", "route", "get", target], capture_output=True, check=True, timeout=5).stdout)[0]
    if "gateway" in found:
        raise ValueError(target + " is behind the router " + found["gateway"] + ", which ARP does not cross")
    return found["dev"], found["prefsrc"]


def answers(target: str, first: float, more: float = 0) -> list[str]:
    """Return the hardware addresses that answer for an address: wait `first` seconds for the first, then `more` for others."""
    interface, source = route(target)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as link:
        link.bind((interface, _ETHERTYPE))
        mac = link.getsockname()[4]
        if interface == "lo":
            return []
        found: set[str] = set()
        ends = time.monotonic() + first
        while time.monotonic() < ends:
            link.send(request(mac, source, target))
            again = time.monotonic() + _REPEAT
            while time.monotonic() < min(again, ends):
                link.settimeout(max(0.01, min(again, ends) - time.monotonic()))
                one = _receive(link, target)
                if one and not found:
                    ends = time.monotonic() + more
                found |= {one} if one else set()
        return sorted(found)


def _receive(link: socket.socket, target: str) -> str:
    try:
        return sender(link.recv(2048), target)
    except OSError:  # The time-out of one request.
        return ""
