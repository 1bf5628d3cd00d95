"""Bonds and VLANs that an existing machine is expected to have. rackwright compares them and configures none."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from rackwright.model.base import ConfigModel
from rackwright.model.notation import refuse
from rackwright.model.update_policy import UpdatePolicy

LONGEST_NAME: Final = 15
"""Characters of an interface name: IFNAMSIZ is 16 with the final NUL (Linux: include/uapi/linux/if.h)."""
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
"""The kernel also accepts other characters (dev_valid_name); ifupdown, netplan and NetworkManager give names of these."""
FIRST_VLAN, LAST_VLAN = 1, 4094
"""VLAN ids of a network: 0 marks priority only, 4095 is reserved (IEEE 802.1Q, table 9-2)."""

_LACP_NAMES: Final = frozenset({"lacp", "lag", "8023ad", "ieee 802.3ad dynamic link aggregation"})
"""Other names of the mode 802.3ad, the last one of /proc/net/bonding."""


class BondMode(StrEnum):
    """Modes of a bond, by their names in the kernel (Linux: Documentation/networking/bonding.rst, mode)."""

    BALANCE_RR = "balance-rr"
    ACTIVE_BACKUP = "active-backup"
    BALANCE_XOR = "balance-xor"
    BROADCAST = "broadcast"
    LACP = "802.3ad"
    BALANCE_TLB = "balance-tlb"
    BALANCE_ALB = "balance-alb"


def parse_bond_mode(value: object) -> BondMode:
    """Return the mode of a bond; refuse its number, which /proc/net/bonding and ifcfg files also accept."""
    modes, text = list(BondMode), str(value)
    if text not in set(modes):
        meant = modes[int(text)] if re.fullmatch(r"[0-6]", text) else BondMode.LACP if text.lower() in _LACP_NAMES else None
        hint = f"write {meant}" if meant is not None else f"use one of {', '.join(modes)}"
        refuse("bond-mode", f"`{text[:60]}` is not the name of a mode of a bond", hint)
    return BondMode(text)


def parse_interface_name(value: object) -> str:
    """Return the name of a network interface."""
    text = str(value)
    if not isinstance(value, str) or not re.fullmatch(_NAME, text):
        base, at, parent = text.partition("@")
        hint = f"write {base}: {parent} is its parent" if at and base else "use the name that `ip -br link` prints, like bond0 or eno1"
        refuse("interface-name", f"`{text[:60]}` is not the name of a network interface", hint)
    if len(text) > LONGEST_NAME:
        refuse(
            "interface-name",
            f"`{text[:60]}` has {len(text)} characters, a network interface at most {LONGEST_NAME}",
            "use the name that `ip -br link` prints; a longer one is an alternative name",
        )
    return text


InterfaceName = Annotated[
    str, BeforeValidator(parse_interface_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$", "maxLength": LONGEST_NAME})
]


class Bond(ConfigModel):
    """A bond that a machine is expected to have."""

    mode: Annotated[
        Annotated[BondMode, BeforeValidator(parse_bond_mode), WithJsonSchema({"enum": [mode.value for mode in BondMode]})], UpdatePolicy.RUN
    ] = Field(description="Mode, by its name in the kernel: `active-backup`, `802.3ad` (LACP) or another one.")
    members: Annotated[tuple[InterfaceName, ...], UpdatePolicy.RUN] = Field(
        description="Network interfaces in the bond, by name or alternative name."
    )
    min_links: Annotated[int | None, UpdatePolicy.RUN] = Field(
        default=None,
        ge=1,
        description="Number of members that must be able to carry traffic. Default: all. The kernel's option of this name is not compared.",
    )


class Vlan(ConfigModel):
    """A VLAN interface that a machine is expected to have."""

    id: Annotated[int, UpdatePolicy.RUN] = Field(ge=FIRST_VLAN, le=LAST_VLAN, description="VLAN id, 1 to 4094.")
    parent: Annotated[InterfaceName, UpdatePolicy.RUN] = Field(description="Interface that carries the VLAN, for example bond0.")
