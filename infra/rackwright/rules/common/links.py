"""Declared bonds and VLANs of existing machines: each can exist on one machine, and no two contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.targets.links import Bond, Vlan
from rackwright.rules.registry import RuleContext, Violation, rule

_FEWEST: Final = 2
"""Members of a bond that survives the loss of one."""


@rule("bond-members")
def bond_members(case: RuleContext) -> Iterator[Violation]:
    """A bond of one interface has no second link to lose, and an interface can be in one bond only."""
    for path, bonds, _ in _declared(case):
        owners: dict[str, str] = {}
        for name, bond in bonds.items():
            place = f"{path}.bonds.{name}.members"
            if len(set(bond.members)) < _FEWEST:
                hint = "list all interfaces of the bond, like [eno1, eno2], or remove the bond: an interface of its own needs no entry"
                yield Violation(place, f"{len(set(bond.members))} member is no bond" if bond.members else "is empty", hint)
            if name in bond.members:
                yield Violation(place, f"{name} is the bond itself", f"list the interfaces that `cat /proc/net/bonding/{name}` prints")
            for member in dict.fromkeys(bond.members):
                first = owners.setdefault(member, name)
                if first != name:
                    yield Violation(place, f"{member} is also a member of {first}", "remove it from one of the two")


@rule("bond-min-links")
def bond_min_links(case: RuleContext) -> Iterator[Violation]:
    """More links than the bond has members can never be up."""
    for path, bonds, _ in _declared(case):
        for name, bond in bonds.items():
            has = len(set(bond.members))
            if bond.min_links is not None and bond.min_links > has >= _FEWEST:
                cause = f"{bond.min_links} links are more than the {has} members"
                yield Violation(f"{path}.bonds.{name}.min_links", cause, f"use at most {has}, or omit it: then all members are required")


@rule("vlan-parent")
def vlan_parent(case: RuleContext) -> Iterator[Violation]:
    """A member of a bond carries no VLAN of its own: the bond receives its frames."""
    for path, bonds, vlans in _declared(case):
        owners = {member: name for name, bond in bonds.items() for member in bond.members}
        for name, vlan in vlans.items():
            place = f"{path}.vlans.{name}"
            if name in bonds:
                yield Violation(place, f"{name} is also declared as a bond", "give the name that `ip -br link` prints to each of the two")
            if vlan.parent == name:
                yield Violation(f"{place}.parent", "is the VLAN itself", "name the interface under it, like bond0")
            elif vlan.parent in owners:
                bond_name = owners[vlan.parent]
                yield Violation(f"{place}.parent", f"{vlan.parent} is a member of {bond_name}", f"write {bond_name}")


@rule("vlan-id-twice")
def vlan_id_twice(case: RuleContext) -> Iterator[Violation]:
    """The kernel creates one interface for each VLAN id of a parent."""
    for path, _, vlans in _declared(case):
        seen: dict[tuple[str, int], str] = {}
        for name, vlan in vlans.items():
            first = seen.setdefault((vlan.parent, vlan.id), name)
            if first != name:
                yield Violation(f"{path}.vlans.{name}.id", f"VLAN {vlan.id} on {vlan.parent} is also {first}", "correct one of the two")


def _declared(case: RuleContext) -> Iterator[tuple[str, dict[str, Bond], dict[str, Vlan]]]:
    """Yield path, bonds and VLANs of every entry of a machine or a range that declares some.

    Of a machine's own entry that declares only one of the two, the other one is that of its range.
    """
    target = case.cluster.target
    for key, machine in target.machines.items() if isinstance(target, HostsTarget) else ():
        if machine.bonds or machine.vlans:
            merged = target.machine_by_node.get(key, machine) if isinstance(target, HostsTarget) else machine
            yield f"target.machines.{key}", dict(merged.bonds or {}), dict(merged.vlans or {})
