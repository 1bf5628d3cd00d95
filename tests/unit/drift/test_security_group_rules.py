"""Open ports of a security group compared with the stack's declaration."""

from __future__ import annotations

from typing import Any

from rackwright.drift import security_group_rules
from rackwright.drift.difference import Category


def event(token: str, name: str, **state: Any) -> dict[str, Any]:
    metadata = {"op": "same", "type": token, "urn": f"urn:pulumi:x::rackwright::{token}::{name}", "old": state, "new": state}
    return {"resOutputsEvent": {"metadata": metadata}}


def group(*ingress: dict[str, Any], egress: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    outputs = {"ingress": list(ingress), "egress": list(egress)}
    return event("aws:ec2/securityGroup:SecurityGroup", "entry-rules", id="sg-1", inputs={}, outputs=outputs)


def rule(way: str = "Ingress", **inputs: Any) -> dict[str, Any]:
    token = f"aws:vpc/securityGroup{way}Rule:SecurityGroup{way}Rule"
    return event(token, "rule", id="sgr-1", inputs={"securityGroupId": "sg-1", "ipProtocol": "-1", **inputs}, outputs={})


SSH = {"protocol": "tcp", "fromPort": 22, "toPort": 22}
DECLARED = {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22}


def test_declared_rules_are_accepted():
    read = group({**SSH, "cidrBlocks": ["192.0.2.0/24", "198.51.100.0/24"]}, {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True})
    declared = [
        rule(**DECLARED, cidrIpv4="192.0.2.0/24"),
        rule(**DECLARED, cidrIpv4="198.51.100.0/24"),
        rule(referencedSecurityGroupId="sg-1"),
    ]
    assert security_group_rules.differences([read, *declared]) == ()


def test_other_network_on_same_port_is_reported():
    (only,) = security_group_rules.differences(
        [group({**SSH, "cidrBlocks": ["192.0.2.0/24", "0.0.0.0/0"]}), rule(**DECLARED, cidrIpv4="192.0.2.0/24")]
    )
    assert (only.node, only.subject, only.category) == ("", "securitygroup entry-rules.ingress tcp 22 from 0.0.0.0/0", Category.SECURITY)
    assert "revoke-security-group-ingress --group-id sg-1" in only.remedy


def test_wider_port_range_is_reported():
    wide = {"protocol": "tcp", "fromPort": 1, "toPort": 65535, "cidrBlocks": ["192.0.2.0/24"]}
    (only,) = security_group_rules.differences([group(wide), rule(**DECLARED, cidrIpv4="192.0.2.0/24")])
    assert only.subject.endswith("tcp 1-65535 from 192.0.2.0/24")


def test_rule_of_other_direction_declares_nothing():
    out = {"protocol": "-1", "cidrBlocks": ["0.0.0.0/0"]}
    (only,) = security_group_rules.differences([group(egress=(out,)), rule("Ingress", cidrIpv4="0.0.0.0/0")])
    assert only.subject == "securitygroup entry-rules.egress everything to 0.0.0.0/0"
    assert security_group_rules.differences([group(egress=(out,)), rule("Egress", cidrIpv4="0.0.0.0/0")]) == ()


def test_peers_of_other_account_are_same_group():
    peer = {**SSH, "securityGroups": ["123456789012/sg-2"]}
    assert security_group_rules.differences([group(peer), rule(**DECLARED, referencedSecurityGroupId="sg-2")]) == ()
