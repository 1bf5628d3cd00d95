"""What instances may ask AWS for: nothing, unless the stack says so."""

from __future__ import annotations

import json
from typing import Final

import pulumi_aws as aws

from rackwright.targets.aws.account import Site

_SESSION_MANAGER: Final = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"


def profiles(site: Site) -> aws.iam.InstanceProfile:
    """The profile of all nodes: a role without rights. What an instance asks for is refused, and can be granted by name."""
    role = aws.iam.Role("nodes", assume_role_policy=assumed_by("ec2.amazonaws.com"), tags=site.named("nodes"), opts=site.options())
    if site.target.session_manager:
        aws.iam.RolePolicyAttachment("nodes-session-manager", role=role.name, policy_arn=_SESSION_MANAGER, opts=site.options())
    return aws.iam.InstanceProfile("nodes-profile", role=role.name, tags=site.named("nodes"), opts=site.options())


def assumed_by(service: str) -> str:
    """A trust policy for one service."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, sort_keys=True)
