"""Network interfaces of an instance type: pure, from the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rackwright.catalog.instances import InstanceType


class InterfaceKind(StrEnum):
    """Capability of an interface: IP only, both, RDMA only (which has no address)."""

    IP = "interface"
    EFA = "efa"
    EFA_ONLY = "efa-only"


@dataclass(frozen=True)
class Interface:
    """One interface at launch."""

    card: int
    device: int
    """0 on the first card, 1 on all others: EC2 counts them for each card (EC2 user guide: EFA-accelerated instance types)."""
    kind: InterfaceKind


def interfaces(type_: InstanceType, *, efa: bool) -> tuple[Interface, ...]:
    """Return the interfaces of an instance, the primary one first.

    Only the primary one has an address: more of them would need source routing and addresses that the plan gives to nodes.
    """
    if not efa:
        return (Interface(0, 0, InterfaceKind.IP),)
    primary = Interface(0, 0, InterfaceKind.EFA if type_.primary_card_takes_efa else InterfaceKind.IP)
    return (primary, *(Interface(card, 1, InterfaceKind.EFA_ONLY) for card in type_.efa_cards if card > 0))
