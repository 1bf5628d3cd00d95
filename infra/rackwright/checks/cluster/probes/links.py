"""Probe of a node's bonds and VLANs, with the reason why a member of a bond carries no traffic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, json_documents, quoted

UP: Final = "up"
"""State of a member that carries traffic, or can at once."""
NOT_ASSIGNED: Final = "not assigned to the bond"
_LACP: Final = "802.3ad"
_NO_PARTNER: Final = frozenset("0:")
"""Characters of the partner's MAC address if no switch answers (Linux: drivers/net/bonding/bond_3ad.c, __record_default)."""
_STATES: Final = {"UP": UP, "DOWN": "link is down", "GOING_DOWN": "link is down", "GOING_BACK": "waits for the bond's updelay"}
"""States of a member (iproute2: ip/iplink_bond_slave.c, slave_mii_status)."""


@dataclass(frozen=True)
class LiveBond:
    """A bond of a node."""

    mode: str | UnreadableValue
    members: Mapping[str, str | UnreadableValue]
    """State by member: `up`, or why it carries no traffic."""
    enabled: bool
    """Whether the bond is administratively up."""

    @property
    def is_used(self) -> bool:
        """Return whether the bond is enabled and has a member. The kernel's module creates a bond0 without members when it is loaded."""
        return self.enabled and bool(self.members)


@dataclass(frozen=True)
class LiveVlan:
    """A VLAN interface of a node."""

    id: int | UnreadableValue
    parent: str
    protocol: str
    enabled: bool

    @property
    def described(self) -> str | UnreadableValue:
        """Return the text of a result: `100 on bond0`, followed by what is unusual."""
        if isinstance(self.id, UnreadableValue):
            return self.id
        tag = "" if self.protocol == "802.1Q" else f" ({self.protocol})"
        return f"{self.id} on {self.parent}{tag}{'' if self.enabled else ', which is disabled'}"


@dataclass(frozen=True)
class Links:
    """Bonds and VLANs by name."""

    bonds: Mapping[str, LiveBond]
    vlans: Mapping[str, LiveVlan]
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kind of every interface by name, as ip-link(8) names them; `interface` for a device without a kind."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name by alternative name."""
    unread: tuple[str, ...] = ()
    """Entries that could not be read."""

    def missing(self, name: str) -> str:
        """Return how an interface that is no bond, or no VLAN, is reported."""
        kind = self.kinds.get(self.names.get(name, name), "")
        return f"is of kind {kind}" if kind else "missing"

    def name_of(self, name: str) -> str:
        """Return the name of an interface for its name or one of its alternative names."""
        return self.names.get(name, name)


def parse_links(text: str) -> Links:
    """Return the bonds and VLANs of `ip -json -details link show`. An entry that cannot be read does not affect the others."""
    (entries,) = json_documents(text)
    good = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("ifname"), str)]
    if not good:
        raise ValueError("no interface is listed, not even loopback")
    unread = tuple(
        quoted(json.dumps(entry)) for entry in entries if entry and entry not in good
    )  # iproute2 prints {} for what it leaves out
    kinds = {entry["ifname"]: str(_info(entry).get("info_kind") or "interface") for entry in good}
    return Links(
        bonds={entry["ifname"]: _bond(entry, good) for entry in good if kinds[entry["ifname"]] == "bond"},
        vlans={entry["ifname"]: _vlan(entry) for entry in good if kinds[entry["ifname"]] == "vlan"},
        kinds=kinds,
        names={other: entry["ifname"] for entry in good for other in entry.get("altnames") or ()},
        unread=unread,
    )


def _info(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("linkinfo")
    return found if isinstance(found, Mapping) else {}


def _data(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = _info(entry).get(key)
    return found if isinstance(found, Mapping) else {}


def _is_enabled(entry: Mapping[str, Any]) -> bool:
    return "UP" in (entry.get("flags") or ())


def _bond(entry: Mapping[str, Any], entries: list[dict[str, Any]]) -> LiveBond:
    name, data = entry["ifname"], _data(entry, "info_data")
    mode = data.get("mode")
    members = {one["ifname"]: _state(one, name, data) for one in entries if one.get("master") == name}
    shown = mode if isinstance(mode, str) else UnreadableValue(f"the mode of {name}", None if mode is None else str(mode), "")
    return LiveBond(shown, members, _is_enabled(entry))


def _state(member: Mapping[str, Any], bond: str, data: Mapping[str, Any]) -> str | UnreadableValue:
    """Return whether a member carries traffic, or why not.

    Without `miimon` and ARP monitoring the bond takes every link for up, so that the carrier is judged as well.
    """
    flags, status = member.get("flags"), _data(member, "info_slave_data").get("mii_status")
    if not isinstance(flags, list) or status not in _STATES:
        return UnreadableValue(f"the state of {member['ifname']} in {bond}", None if status is None else str(status), "")
    if "UP" not in flags:
        return "disabled"
    if "NO-CARRIER" in flags:
        return "no carrier"
    if status != "UP":
        return _STATES[status]
    return _aggregation(member, data) if data.get("mode") == _LACP else UP


def _aggregation(member: Mapping[str, Any], data: Mapping[str, Any]) -> str | UnreadableValue:
    """Return whether a member of an 802.3ad bond carries traffic. The kernel makes it active once it collects and distributes frames.

    Without a partner, one member is active all the same: the bond falls back to a single link.
    """
    active, own = data.get("ad_info"), _data(member, "info_slave_data")
    if not isinstance(active, Mapping):
        return "the bond has no active aggregator"
    state, partner = own.get("state"), active.get("partner_mac")
    if state not in ("ACTIVE", "BACKUP") or not isinstance(partner, str):
        return UnreadableValue(f"the LACP state of {member['ifname']}", None if state is None else str(state), "")
    if not set(partner) - _NO_PARTNER:
        return "no LACP partner"
    if state == "ACTIVE":
        return UP
    same = own.get("ad_aggregator_id") == active.get("aggregator")
    return "LACP negotiation is not complete" if same else "not in the active LACP aggregator"


def _vlan(entry: Mapping[str, Any]) -> LiveVlan:
    data = _data(entry, "info_data")
    number = data.get("id")
    return LiveVlan(
        number if isinstance(number, int) else UnreadableValue(f"the VLAN id of {entry['ifname']}", None, ""),
        str(entry.get("link") or "an unknown interface"),
        str(data.get("protocol") or "802.1Q"),
        _is_enabled(entry),
    )


LINKS = Probe("network-links", on="@existing_machines", command="ip -json -details link show", parse=parse_links)
