"""The AWS account, the region, and the tags that every resource of a stack has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from rackwright.model.targets.aws import AwsTarget
from rackwright.plan import Plan
from rackwright.targets.aws import plugin
from rackwright.targets.resources import AwsStackMarker

STACK_TAG = "rackwright.stack"
"""Tag of every resource of the stack; it finds them without state, too."""


@dataclass(frozen=True)
class StackContext:
    """A plan with its target and provider."""

    plan: Plan
    target: AwsTarget
    provider: aws.Provider

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags of every resource: the stack's own and those of the stack file."""
        return {**self.target.tags, STACK_TAG: self.plan.stack}

    def named(self, name: str) -> dict[str, str]:
        """Return the tags of one resource whose type ignores the provider's default tags, or that people find by name."""
        return {**self.tags, "Name": f"{self.plan.stack}-{name}"}

    def options(self, **more: Any) -> pulumi.ResourceOptions:
        """Return the options of a resource of this site."""
        return pulumi.ResourceOptions(provider=self.provider, **more)


def account(plan: Plan) -> StackContext:
    """Return the account of the environment's credentials, in the stack's region."""
    target = plan.target
    plugin.require_installed(os.environ)
    assert isinstance(target, AwsTarget)
    tags = {**target.tags, STACK_TAG: plan.stack}
    label = AwsStackMarker("label", stack=plan.stack, region=target.region)
    made_after = pulumi.ResourceOptions(depends_on=[label])
    provider = aws.Provider("aws", region=target.region, default_tags=aws.ProviderDefaultTagsArgs(tags=tags), opts=made_after)
    return StackContext(plan, target, provider)
