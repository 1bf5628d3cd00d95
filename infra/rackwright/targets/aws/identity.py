"""IAM rights of instances: none, unless the stack file grants them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pulumi_aws as aws

from rackwright.model.groups import Role
from rackwright.targets.aws.account import STACK_TAG, StackContext

_SESSION_MANAGER: Final = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"


@dataclass(frozen=True)
class Profiles:
    """Instance profiles: one of all nodes, and one of those that stop and start others."""

    nodes: aws.iam.InstanceProfile
    controllers: aws.iam.InstanceProfile | None

    def of(self, roles: Collection[Role]) -> aws.iam.InstanceProfile:
        """Return the profile of a node with these roles."""
        return self.controllers if self.controllers is not None and Role.CONTROLLER in roles else self.nodes


def profiles(site: StackContext) -> Profiles:
    """Create roles without rights, to which rights can be granted by name. Controllers that save power may stop and start instances."""
    saving = site.plan.scheduler.power_saving
    controllers = _profile(site, "controllers") if saving is not None and saving.nodes else None
    if controllers is not None:
        aws.iam.RolePolicy("controllers-power", role=controllers.role, policy=_power(site), opts=site.options())
    return Profiles(_profile(site, "nodes"), controllers)


def _profile(site: StackContext, name: str) -> aws.iam.InstanceProfile:
    role = aws.iam.Role(name, assume_role_policy=assumed_by("ec2.amazonaws.com"), tags=site.named(name), opts=site.options())
    if site.target.session_manager:
        aws.iam.RolePolicyAttachment(f"{name}-session-manager", role=role.name, policy_arn=_SESSION_MANAGER, opts=site.options())
    return aws.iam.InstanceProfile(f"{name}-profile", role=role.name, tags=site.named(name), opts=site.options())


def _power(site: StackContext) -> str:
    """Return the policy to stop and start this stack's instances.

    Describe calls have no resource (IAM service authorization reference: EC2).
    """
    mine = {"StringEquals": {f"aws:ResourceTag/{STACK_TAG}": site.plan.stack}}
    switch = ["ec2:StopInstances", "ec2:StartInstances", "ec2:RebootInstances"]
    statements = [
        {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"},
        {"Effect": "Allow", "Action": switch, "Resource": "*", "Condition": mine},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, sort_keys=True)


def assumed_by(service: str) -> str:
    """Return a trust policy for one service."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, sort_keys=True)
