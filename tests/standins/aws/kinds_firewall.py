"""Security groups, their rules, and key pairs."""

from __future__ import annotations

from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import ResourceType, SetProperty, ec2, fill, listed, removed
from standins.aws.naming import Autoname
from standins.aws.state import Properties
from standins.aws.tags import Described, Ec2Tags, Tags

_RULE_FIELDS: Final = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


def _make_group(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    """Create the group and remove the rule that admits all outgoing traffic: AWS creates the rule, the aws provider removes it."""
    asked = fill(account, kind, "CreateSecurityGroup", {**inputs, "description": inputs.get("description") or "Managed by Pulumi"})
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    ident = str(account.call("ec2", "CreateSecurityGroup", **asked, **tagged)["GroupId"])
    _revoke_all(account, ident, "egress")
    return ident


def _group(account: Account, ident: str) -> Described:
    found: Described = account.call("ec2", "DescribeSecurityGroups", GroupIds=[ident])["SecurityGroups"][0]
    return found


def _revoke_all(account: Account, ident: str, direction: str) -> None:
    present = _group(account, ident)["IpPermissionsEgress" if direction == "egress" else "IpPermissions"]
    if present:
        account.call("ec2", f"RevokeSecurityGroup{direction.capitalize()}", GroupId=ident, IpPermissions=present)


def _set_rules(direction: str) -> SetProperty:
    def settle(account: Account, ident: str, news: Properties, olds: Properties) -> None:
        _revoke_all(account, ident, direction)
        wanted = [_permission(rule, ident) for rule in news.get(direction) or []]
        if wanted:
            account.call("ec2", f"AuthorizeSecurityGroup{direction.capitalize()}", GroupId=ident, IpPermissions=wanted)

    return settle


def _permission(rule: Properties, ident: str) -> dict[str, Any]:
    """Return an inline rule in EC2's format."""
    described = {"Description": rule["description"]} if rule.get("description") else {}
    groups = [*(rule.get("securityGroups") or []), *([ident] if rule.get("self") else [])]
    made: dict[str, Any] = {"IpProtocol": str(rule["protocol"])}
    if made["IpProtocol"] != "-1":
        made |= {"FromPort": int(rule["fromPort"]), "ToPort": int(rule["toPort"])}
    for field, key, values in (
        ("IpRanges", "CidrIp", rule.get("cidrBlocks")),
        ("Ipv6Ranges", "CidrIpv6", rule.get("ipv6CidrBlocks")),
        ("PrefixListIds", "PrefixListId", rule.get("prefixListIds")),
        ("UserIdGroupPairs", "GroupId", groups),
    ):
        if values:
            made[field] = [{key: value, **described} for value in values]
    return made


def _as_rule(permission: dict[str, Any], ident: str) -> Properties:
    """Return EC2's description of a rule as an inline rule."""
    pairs = [one["GroupId"] for one in permission.get("UserIdGroupPairs") or []]
    rule: Properties = {
        "protocol": permission["IpProtocol"],
        "fromPort": permission.get("FromPort", 0),
        "toPort": permission.get("ToPort", 0),
        "cidrBlocks": [one["CidrIp"] for one in permission.get("IpRanges") or []],
        "ipv6CidrBlocks": [one["CidrIpv6"] for one in permission.get("Ipv6Ranges") or []],
        "prefixListIds": [one["PrefixListId"] for one in permission.get("PrefixListIds") or []],
        "securityGroups": [one for one in pairs if one != ident],
        "self": ident in pairs,
    }
    return {key: value for key, value in rule.items() if value not in ([], False)}


def _atoms(rules: list[Properties]) -> set[tuple[Any, ...]]:
    """Return rules in their smallest parts: EC2 joins rules of one port range, so that lists of rules are compared by parts."""
    parts = set()
    for rule in rules:
        ports = (str(rule["protocol"]),) if str(rule["protocol"]) == "-1" else (str(rule["protocol"]), rule["fromPort"], rule["toPort"])
        for field in ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "securityGroups"):
            parts |= {(*ports, value) for value in rule.get(field) or []}
        if rule.get("self"):
            parts.add((*ports, "self"))
    return parts


def _group_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    shown = {}
    for direction, field in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        live = [_as_rule(permission, ident) for permission in described[field]]
        given = inputs.get(direction)
        shown[direction] = given if given is not None and _atoms(given) == _atoms(live) else live
    return {**shown, "name": described["GroupName"], "arn": account.arn("ec2", f"security-group/{ident}")}


def _make_rule(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    direction = "Egress" if "Egress" in kind.token else "Ingress"
    asked = {"GroupId": inputs["securityGroupId"], "IpPermissions": [_single(inputs)]}
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    answer = account.call("ec2", f"AuthorizeSecurityGroup{direction}", **asked, **tagged)
    return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])


def _single(inputs: Properties) -> dict[str, Any]:
    rule = {"protocol": inputs["ipProtocol"], "fromPort": inputs.get("fromPort", -1), "toPort": inputs.get("toPort", -1)}
    lists = {
        "cidrBlocks": inputs.get("cidrIpv4"),
        "ipv6CidrBlocks": inputs.get("cidrIpv6"),
        "prefixListIds": inputs.get("prefixListId"),
        "securityGroups": inputs.get("referencedSecurityGroupId"),
    }
    named = {key: [value] for key, value in lists.items() if value}
    return _permission({**rule, **named, "description": inputs.get("description")}, "")


def _rule_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {
        "arn": account.arn("ec2", f"security-group-rule/{ident}"),
        "securityGroupId": described["GroupId"],
        "referencedSecurityGroupId": (described.get("ReferencedGroupInfo") or {}).get("GroupId"),
        "fromPort": inputs.get("fromPort") if described["IpProtocol"] == "-1" else described.get("FromPort"),
        "toPort": inputs.get("toPort") if described["IpProtocol"] == "-1" else described.get("ToPort"),
    }


def _drop_rule(direction: str) -> Any:
    def drop(account: Account, ident: str, inputs: Properties) -> None:
        account.call("ec2", f"RevokeSecurityGroup{direction}", GroupId=inputs["securityGroupId"], SecurityGroupRuleIds=[ident])

    return drop


def _rule(direction: str) -> ResourceType:
    # The real provider changes address and ports in place; here every change is a replacement, and a rule has no state.
    return ec2(
        f"aws:vpc/securityGroup{direction}Rule:SecurityGroup{direction}Rule",
        "SecurityGroupRule",
        tag="security-group-rule",
        make=_make_rule,
        drop=_drop_rule(direction),
        force=frozenset({"securityGroupId", "ipProtocol", "fromPort", "toPort", "description", *_RULE_FIELDS}),
        renames={"securityGroupRuleId": "SecurityGroupRuleId"},
        outs=_rule_outs,
    )


_ROWS: Final = (
    ec2(
        "aws:ec2/securityGroup:SecurityGroup",
        "SecurityGroup",
        tag="security-group",
        make=_make_group,
        look=listed("ec2", "DescribeSecurityGroups", "GroupIds", "SecurityGroups"),
        drop=removed("ec2", "DeleteSecurityGroup", "GroupId"),
        force=frozenset({"name", "namePrefix", "description", "vpcId"}),
        settle={direction: _set_rules(direction) for direction in ("ingress", "egress")},
        late=frozenset({"ingress", "egress"}),
        local=frozenset({"revokeRulesOnDelete", "namePrefix"}),
        renames={"name": "GroupName"},
        outs=_group_outs,
        autoname=Autoname(),
    ),
    _rule("Ingress"),
    _rule("Egress"),
    ResourceType(
        token="aws:ec2/keyPair:KeyPair",
        service="ec2",
        make=lambda account, kind, inputs, tags: str(
            account.call("ec2", "ImportKeyPair", **fill(account, kind, "ImportKeyPair", inputs), **Ec2Tags("key-pair").at_creation(tags))[
                "KeyName"
            ]
        ),
        look=listed("ec2", "DescribeKeyPairs", "KeyNames", "KeyPairs"),
        drop=removed("ec2", "DeleteKeyPair", "KeyName"),
        force=frozenset({"keyName", "keyNamePrefix", "publicKey"}),
        local=frozenset({"keyNamePrefix"}),
        renames={"publicKey": "PublicKeyMaterial", "fingerprint": "KeyFingerprint"},
        outs=lambda account, ident, described, inputs: {
            "arn": account.arn("ec2", f"key-pair/{ident}"),
            "publicKey": inputs.get("publicKey"),
        },
        tags=Ec2Tags("key-pair", "KeyPairId"),
        autoname=Autoname("keyName", prefix="keyNamePrefix"),
    ),
)
KINDS: Final = {kind.token: kind for kind in _ROWS}
