"""Run on the node, imported by host_baseline: the addresses of its links, from the output of ip(8).

Python 3.9, standard library only.
"""

from __future__ import annotations

import ipaddress
import json

from rackwright.remote.programs.unread_lines import UNREAD, note_unread

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing
if TYPE_CHECKING:
    from typing import Any

ASSIGNED = ("dynamic", "temporary", "mngtmpaddr", "stable-privacy")
"""Flags of IPv6 addresses from router advertisements and DHCPv6, which change with their prefix and lifetime: ip-address(8)."""
BY_KERNEL = ("kernel_ll", "kernel_ra")
"""Protocols of addresses that the kernel assigns: link-local ones, and those of router advertisements (iproute2 6.3, ip-address(8))."""


def read_addresses(text: str) -> dict[str, str]:
    """Return each address by link and address, with its scope, from `ip -json address show`.

    IPv6 addresses that are valid on one link, temporary, or assigned by a router or DHCPv6 are left out. IPv4 addresses of DHCP are kept:
    Slurm and the firewall know a node by them. Raises ValueError if no link is listed: every node has a loopback interface.
    """
    start = text.find("[{")  # a warning may precede the list
    links = json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else []
    if not any(links):
        raise ValueError("ip -json address listed no link")
    found: dict[str, str] = {}
    for link in filter(None, links):  # iproute2 prints {} for what it leaves out
        name = link.get("ifname") if isinstance(link, dict) else None
        entries = link.get("addr_info", []) if isinstance(link, dict) else None
        if not isinstance(name, str) or not isinstance(entries, list):
            note_unread(found, "a link", json.dumps(link))
            continue
        for entry in filter(None, entries):
            add_address(found, name, entry)
    return found


def add_address(found: dict[str, str], link: str, entry: Any) -> None:
    """Add an address. One that cannot be read is noted; a missing scope or lifetime is the value of that address alone."""
    try:
        address = ipaddress.ip_interface(entry["local"] + "/" + str(entry["prefixlen"]))
    except (KeyError, TypeError, ValueError):
        note_unread(found, "an address of " + link, json.dumps(entry))
        return
    if address.version == 6 and (address.is_link_local or any(entry.get(flag) for flag in ASSIGNED) or entry.get("protocol") in BY_KERNEL):
        return
    scope, peer = entry.get("scope"), entry.get("address")
    parts = ["scope " + str(scope)] + (["peer " + str(peer)] if peer else []) + (["duplicate"] if entry.get("dadfailed") else [])
    found[link + " " + str(address)] = ", ".join(parts) if scope else UNREAD
    if not scope:
        note_unread(found, "the scope of " + str(address), json.dumps(entry))
