"""What makes a virtual machine of an image this one: its name, its keys and the addresses of its cards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CardAddress:
    """Static address of a network card (`10.0.0.1/24`), which is found by its MAC address. `mtu` is in bytes.

    A card with a `gateway` has the default route, and its network the resolver `nameserver`.
    """

    name: str
    mac: str
    address: str
    mtu: int
    gateway: str = ""
    nameserver: str = ""


@dataclass(frozen=True)
class Identity:
    """Identity of a machine. `host_key` is secret."""

    hostname: str
    host_key: str
    host_public_key: str
    authorized_key: str
    cards: tuple[CardAddress, ...]
