"""Bonds and VLANs of existing machines, which rackwright does not configure: every link works, and each is as described."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.links import LINKS, NOT_ASSIGNED, UP, Links
from rackwright.errors import UndeterminedError


def declared(node: Record, field: str) -> dict[str, Any]:
    """Return the declared bonds or VLANs of a node by name; empty if it declares none."""
    return dict(vars(getattr(node, field, SimpleNamespace())))


def require_all_read(links: Links) -> None:
    """Raise UndeterminedError if an interface could not be read: it may be one of those that are compared."""
    if links.unread:
        raise UndeterminedError(f'an interface cannot be read: "{links.unread[0]}"')


def test_bonds_have_all_links(node: Record, ask: Ask, expect: Expect) -> None:
    """A bond with one dead member works, and raises no alarm. The next fault takes the node off the network. Undeclared bonds count."""
    links, planned = ask(LINKS), declared(node, "bonds")
    found: dict[str, str | UnreadableValue] = {}
    for name, bond in links.bonds.items():
        wanted = planned.get(name)
        if wanted is None and not bond.is_used:
            continue
        states = {links.name_of(one): NOT_ASSIGNED for one in wanted.members} if wanted else {}
        states |= bond.members
        known_up = sum(not isinstance(state, UnreadableValue) and state == UP for state in states.values())
        enough = wanted is not None and wanted.min_links < len(states) and known_up >= wanted.min_links
        found |= {f"{name} {member}": UP if enough else state for member, state in states.items()}
    expect(found, dict.fromkeys(found, UP))
    require_all_read(links)


def test_bonds_match_description(node: Record, ask: Ask, expect: Expect) -> None:
    """A bond in another mode than its switch ports drops frames or uses one link. An undeclared member is a wrong cable."""
    links, found, planned = ask(LINKS), dict[str, Any](), dict[str, str]()
    for name, wanted in declared(node, "bonds").items():
        planned[name], bond = wanted.mode, links.bonds.get(name)
        if bond is None:
            found[name] = links.missing(name)
            continue
        found[name] = bond.mode if bond.enabled or isinstance(bond.mode, UnreadableValue) else f"{bond.mode}, which is disabled"
        known = {links.name_of(one) for one in wanted.members}
        found |= {f"{name} {member}": "a member" for member in bond.members if member not in known}
    expect(found, planned)
    require_all_read(links)


def test_vlans_match_description(node: Record, ask: Ask, expect: Expect) -> None:
    """A VLAN interface with another id is in another network, which a node notices when the first packet has no answer."""
    links, found, planned = ask(LINKS), dict[str, Any](), dict[str, str]()
    for name, wanted in declared(node, "vlans").items():
        planned[name], vlan = f"{wanted.id} on {links.name_of(wanted.parent)}", links.vlans.get(name)
        found[name] = links.missing(name) if vlan is None else vlan.described
    expect(found, planned)
    require_all_read(links)
