"""Unmanaged rules of a cloud's firewall: rules of a security group without a resource of the stack.

The engine does not report them: the stack declares each rule as a separate resource, and a refresh reads declared resources only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rackwright.drift.categories import categories
from rackwright.drift.difference import CLUSTER, DriftItem, Layer

_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
_RULES: Final = {
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "ingress",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "egress",
}
_PEERS: Final = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "securityGroups")
"""Properties of a group, as read, that name the peer of a rule (pulumi-aws, SecurityGroup)."""
_PEER: Final = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
"""Properties of a rule that is a resource of its own, for the same peers (pulumi-aws, SecurityGroupIngressRule)."""
_EVERYTHING: Final = "-1"
"""EC2's name for all protocols; such a rule has no ports."""
_PREPOSITIONS: Final = {"ingress": "from", "egress": "to"}


class FirewallRule(NamedTuple):
    """Traffic that a security group allows, in one direction."""

    group: str
    direction: str
    protocol: str
    first: int | None
    last: int | None
    peer: str

    def __str__(self) -> str:
        """Return the rule as text.

        >>> str(FirewallRule("sg-1", "ingress", "tcp", 22, 22, "0.0.0.0/0"))
        'tcp 22 from 0.0.0.0/0'
        """
        ports = "" if self.first is None else f" {self.first}" if self.first == self.last else f" {self.first}-{self.last}"
        what = "everything" if self.protocol == _EVERYTHING else self.protocol + ports
        return f"{what} {_PREPOSITIONS[self.direction]} {self.peer}"


def differences(events: Iterable[Mapping[str, Any]]) -> tuple[DriftItem, ...]:
    """Return undeclared rules in the stack's groups, from the events of a previewed refresh."""
    read = [happened["metadata"] for event in events if (happened := event.get("resOutputsEvent"))]
    declared = {_declared(one["old"]["inputs"], _RULES[one["type"]]) for one in read if one["type"] in _RULES and one.get("old")}
    groups = [one for one in read if one["type"] == _GROUP and one.get("new")]
    return tuple(_difference(one, rule) for one in groups for rule in sorted(set(_live_rules(one["new"])) - declared, key=str))


def _declared(inputs: Mapping[str, Any], direction: str) -> FirewallRule:
    peer = next((str(inputs[name]) for name in _PEER if inputs.get(name)), "")
    return _firewall_rule(
        str(inputs["securityGroupId"]), direction, inputs["ipProtocol"], inputs.get("fromPort"), inputs.get("toPort"), peer
    )


def _live_rules(group: Mapping[str, Any]) -> Iterator[FirewallRule]:
    """Yield each rule of a group, as read; EC2 combines several peers in one rule."""
    for direction in _PREPOSITIONS:
        for rule in group.get("outputs", {}).get(direction) or ():
            peers = [
                str(peer).rpartition("/")[2] if name == "securityGroups" else str(peer) for name in _PEERS for peer in rule.get(name) or ()
            ]
            for peer in [*peers, *([str(group["id"])] if rule.get("self") else [])]:
                yield _firewall_rule(str(group["id"]), direction, rule["protocol"], rule.get("fromPort"), rule.get("toPort"), peer)


def _firewall_rule(group: str, direction: str, protocol: Any, first: Any, last: Any, peer: str) -> FirewallRule:
    if str(protocol) == _EVERYTHING:
        return FirewallRule(group, direction, _EVERYTHING, None, None, peer)
    return FirewallRule(group, direction, str(protocol), None if first is None else int(first), None if last is None else int(last), peer)


def _difference(group: Mapping[str, Any], rule: FirewallRule) -> DriftItem:
    return DriftItem(
        layer=Layer.RESOURCES,
        node=CLUSTER,
        subject=f"securitygroup {group['urn'].rpartition('::')[2]}.{rule.direction} {rule}",
        declared="no such rule",
        live="open",
        category=categories().resources["unmanaged"],
        remedy=(
            "find out which user added it; to remove it, run "
            f"`aws ec2 revoke-security-group-{rule.direction} --group-id {rule.group}` with the rule"
        ),
    )
