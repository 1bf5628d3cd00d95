"""Roles, their policies, and the profiles that hand them to instances."""

from __future__ import annotations

import json
from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import Create, ResourceType, fill, single
from standins.aws.naming import Autoname
from standins.aws.state import Properties
from standins.aws.tags import Described, ListedTags, Tags


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)


def _role_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {"assumeRolePolicy": _text(described["AssumeRolePolicyDocument"]), "name": ident, "uniqueId": described["RoleId"]}


def _set_trust(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("iam", "UpdateAssumeRolePolicy", RoleName=ident, PolicyDocument=_text(news["assumeRolePolicy"]))


def _set_role(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    asked = {"Description": news.get("description"), "MaxSessionDuration": news.get("maxSessionDuration")}
    account.call("iam", "UpdateRole", RoleName=ident, **{key: value for key, value in asked.items() if value is not None})


def _set_managed(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    before, after = set(olds.get("managedPolicyArns") or []), set(news.get("managedPolicyArns") or [])
    for arn in sorted(before - after):
        account.call("iam", "DetachRolePolicy", RoleName=ident, PolicyArn=arn)
    for arn in sorted(after - before):
        account.call("iam", "AttachRolePolicy", RoleName=ident, PolicyArn=arn)


def _set_inline(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    after = {policy["name"]: policy["policy"] for policy in news.get("inlinePolicies") or []}
    for policy in olds.get("inlinePolicies") or []:
        if policy["name"] not in after:
            account.call("iam", "DeleteRolePolicy", RoleName=ident, PolicyName=policy["name"])
    for name, document in after.items():
        account.call("iam", "PutRolePolicy", RoleName=ident, PolicyName=name, PolicyDocument=_text(document))


def _drop_role(account: Account, ident: str, inputs: Properties) -> None:
    """Delete the role with its own policies. IAM refuses if anything else is attached, which is an error of the program."""
    _set_managed(account, ident, {}, _attached(account, ident) if inputs.get("forceDetachPolicies") else inputs)
    _set_inline(account, ident, {}, inputs)
    account.call("iam", "DeleteRole", RoleName=ident)


def _attached(account: Account, role: str) -> Properties:
    policies = account.call("iam", "ListAttachedRolePolicies", RoleName=role)["AttachedPolicies"]
    return {"managedPolicyArns": [one["PolicyArn"] for one in policies]}


def _put_policy(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("iam", "PutRolePolicy", **fill(account, kind, "PutRolePolicy", inputs))
    return f"{inputs['role']}:{inputs['name']}"


def _policy(account: Account, ident: str, inputs: Properties) -> Described | None:
    role, _, name = ident.partition(":")
    found = account.call("iam", "GetRolePolicy", RoleName=role, PolicyName=name)
    return {**found, "PolicyDocument": _text(found["PolicyDocument"])}


def _set_policy(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    role, _, name = ident.partition(":")
    account.call("iam", "PutRolePolicy", RoleName=role, PolicyName=name, PolicyDocument=_text(news["policy"]))


def _drop_policy(account: Account, ident: str, inputs: Properties) -> None:
    role, _, name = ident.partition(":")
    account.call("iam", "DeleteRolePolicy", RoleName=role, PolicyName=name)


def _attach(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("iam", "AttachRolePolicy", **fill(account, kind, "AttachRolePolicy", inputs))
    return f"{inputs['role']}/{inputs['policyArn']}"


def _attachment(account: Account, ident: str, inputs: Properties) -> Described | None:
    attached = _attached(account, inputs["role"])["managedPolicyArns"]
    return {"RoleName": inputs["role"], "PolicyArn": inputs["policyArn"]} if inputs["policyArn"] in attached else None


def _detach(account: Account, ident: str, inputs: Properties) -> None:
    account.call("iam", "DetachRolePolicy", RoleName=inputs["role"], PolicyArn=inputs["policyArn"])


def _profile_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    roles = described["Roles"]
    return {"role": roles[0]["RoleName"] if roles else "", "uniqueId": described["InstanceProfileId"]}


def _set_profile_role(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    for role in account.call("iam", "GetInstanceProfile", InstanceProfileName=ident)["InstanceProfile"]["Roles"]:
        account.call("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=ident, RoleName=role["RoleName"])
    if news.get("role"):
        account.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=ident, RoleName=news["role"])


def _drop_profile(account: Account, ident: str, inputs: Properties) -> None:
    _set_profile_role(account, ident, {}, inputs)
    account.call("iam", "DeleteInstanceProfile", InstanceProfileName=ident)


_ROWS: Final = (
    ResourceType(
        token="aws:iam/role:Role",
        service="iam",
        make=Create("CreateRole", "Role", "RoleName"),
        look=single("iam", "GetRole", "RoleName", "Role"),
        drop=_drop_role,
        force=frozenset({"name", "namePrefix", "path"}),
        settle={
            "assumeRolePolicy": _set_trust,
            "description": _set_role,
            "maxSessionDuration": _set_role,
            "managedPolicyArns": _set_managed,
            "inlinePolicies": _set_inline,
        },
        late=frozenset({"managedPolicyArns", "inlinePolicies"}),
        local=frozenset({"forceDetachPolicies", "namePrefix"}),
        renames={"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"},
        outs=_role_outs,
        tags=ListedTags("iam", lambda ident, described: {"RoleName": ident}, "TagRole", "UntagRole"),
        autoname=Autoname(longest=64),
    ),
    ResourceType(
        token="aws:iam/rolePolicy:RolePolicy",
        service="iam",
        make=_put_policy,
        look=_policy,
        drop=_drop_policy,
        force=frozenset({"name", "namePrefix", "role"}),
        settle={"policy": _set_policy},
        local=frozenset({"namePrefix"}),
        renames={"name": "PolicyName", "role": "RoleName", "policy": "PolicyDocument"},
        autoname=Autoname(longest=128),
    ),
    ResourceType(
        token="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        service="iam",
        make=_attach,
        look=_attachment,
        drop=_detach,
        force=frozenset({"role", "policyArn"}),
        renames={"role": "RoleName"},
    ),
    ResourceType(
        token="aws:iam/instanceProfile:InstanceProfile",
        service="iam",
        make=Create("CreateInstanceProfile", "InstanceProfile", "InstanceProfileName"),
        look=single("iam", "GetInstanceProfile", "InstanceProfileName", "InstanceProfile"),
        drop=_drop_profile,
        force=frozenset({"name", "namePrefix", "path"}),
        settle={"role": _set_profile_role},
        late=frozenset({"role"}),
        local=frozenset({"namePrefix"}),
        renames={"name": "InstanceProfileName"},
        outs=_profile_outs,
        tags=ListedTags("iam", lambda ident, described: {"InstanceProfileName": ident}, "TagInstanceProfile", "UntagInstanceProfile"),
        autoname=Autoname(longest=128),
    ),
)
KINDS: Final = {kind.token: kind for kind in _ROWS}
