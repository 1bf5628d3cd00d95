"""Ethernet frames: addresses, length and the flow to which a frame belongs. Pure.

Frames are as QEMU passes them: from the destination address on, without preamble and without frame check sequence.
"""

from __future__ import annotations

import hashlib
from typing import Final

HEADER_BYTES: Final = 14
"""Bytes before the payload: two addresses of 6, type of 2 (IEEE 802.3-2022, 3.1.1)."""
WIRE_OVERHEAD_BYTES: Final = 24
"""Bytes that a frame occupies on a cable beside those passed here: preamble and delimiter 8, frame check sequence 4, gap 12
(IEEE 802.3-2022, 3.1.1 and 4.4.2)."""
_TAG_BYTES: Final = 4
"""Bytes of a VLAN tag: type and control information (IEEE 802.1Q-2022, 9.3)."""
_TAGS: Final = frozenset({b"\x81\x00", b"\x88\xa8"})
"""Types of the customer and the service VLAN tag (IEEE 802.1Q-2022, table 9-1)."""
_IPV4: Final = b"\x08\x00"
"""EtherType of IPv4 (RFC 894)."""
_IPV6: Final = b"\x86\xdd"
"""EtherType of IPv6 (RFC 2464, section 3)."""
_WITH_PORTS: Final = frozenset({6, 17})
"""Protocol numbers of TCP and UDP (RFC 9293, RFC 768): the first four bytes are the ports. RoCEv2 is UDP; its source port differs per
queue pair, for this purpose (InfiniBand Architecture Specification 1.4, annex A17)."""
_FRAGMENT: Final = 0x3FFF
"""Bits "more fragments" and offset of IPv4 (RFC 791, section 3.1). Only a packet's first fragment has ports; all must take one path."""
_IPV6_BYTES: Final = 40
"""Bytes of the fixed header of IPv6 (RFC 8200, section 3)."""
_RESERVED_PREFIX: Final = b"\x01\x80\xc2\x00\x00"
_RESERVED_LAST: Final = 0x0F
"""Last byte of the addresses that no bridge forwards: 01-80-C2-00-00-00 to -0F (IEEE 802.1Q-2022, table 8-1)."""


def is_group(address: bytes) -> bool:
    """Return whether an address is broadcast or multicast (IEEE 802-2014, clause 8.2)."""
    return bool(address[0] & 1)


def is_link_local(destination: bytes) -> bool:
    """Return whether frames to this address end at the first switch: pause, spanning tree, LLDP, LACP."""
    return destination[:5] == _RESERVED_PREFIX and destination[5] <= _RESERVED_LAST


def payload_offset(frame: bytes) -> int:
    """Return where the payload begins: after the header and all VLAN tags.

    >>> payload_offset(bytes(12) + b"\\x08\\x00" + bytes(46)), payload_offset(bytes(12) + b"\\x81\\x00\\x00\\x05\\x08\\x00" + bytes(46))
    (14, 18)
    """
    offset = HEADER_BYTES
    while frame[offset - 2 : offset] in _TAGS and len(frame) >= offset + _TAG_BYTES:
        offset += _TAG_BYTES
    return offset


def exceeds(frame: bytes, mtu: int) -> bool:
    """Return whether the payload is longer than the MTU.

    With the frame check sequence, which is not passed here, the frame is then longer than MTU + 18 bytes, with a VLAN tag MTU + 22.
    """
    return len(frame) > mtu + HEADER_BYTES and len(frame) - payload_offset(frame) > mtu


def flow_key(frame: bytes) -> bytes:
    """Return what identifies a flow: VLAN and IP addresses, protocol and ports; for other frames VLAN, MAC addresses and type."""
    offset = payload_offset(frame)
    kind, packet = frame[offset - 2 : offset], frame[offset:]
    vlan = bytes((frame[14] & 0x0F, frame[15])) if offset > HEADER_BYTES else b""
    if kind == _IPV4 and len(packet) >= 20:
        header = (packet[0] & 0x0F) * 4
        whole = not int.from_bytes(packet[6:8], "big") & _FRAGMENT
        ports = packet[header : header + 4] if whole and packet[9] in _WITH_PORTS else b""
        return vlan + packet[12:20] + packet[9:10] + ports
    if kind == _IPV6 and len(packet) >= _IPV6_BYTES:
        ports = packet[_IPV6_BYTES : _IPV6_BYTES + 4] if packet[6] in _WITH_PORTS else b""
        return vlan + packet[8:40] + packet[6:7] + ports
    return vlan + frame[:12] + kind


def flow_hash(frame: bytes) -> int:
    """Return 64 bits that are equal for all frames of a flow, in every process."""
    return int.from_bytes(hashlib.blake2b(flow_key(frame), digest_size=8).digest(), "big")
