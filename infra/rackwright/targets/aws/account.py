"""Whose cloud, which region, and what every resource of a stack carries."""

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
"""By it everything of a stack is found, also without state."""


@dataclass(frozen=True)
class StackContext:
    """A plan with the place it is built in."""

    plan: Plan
    target: AwsTarget
    provider: aws.Provider

    @property
    def tags(self) -> dict[str, str]:
        """What every resource is found by, and what the stack file asks for."""
        return {**self.target.tags, STACK_TAG: self.plan.stack}

    def named(self, name: str) -> dict[str, str]:
        """Tags of one resource whose kind gets none from the provider's defaults, or that a person should find by name."""
        return {**self.tags, "Name": f"{self.plan.stack}-{name}"}

    def options(self, **more: Any) -> pulumi.ResourceOptions:
        """Options of a resource of this site."""
        return pulumi.ResourceOptions(provider=self.provider, **more)


def account(plan: Plan) -> StackContext:
    """The account that the environment's credentials open, in the stack's region."""
    target = plan.target
    plugin.require_installed(os.environ)
    assert isinstance(target, AwsTarget)
    tags = {**target.tags, STACK_TAG: plan.stack}
    label = AwsStackMarker("label", stack=plan.stack, region=target.region)
    made_after = pulumi.ResourceOptions(depends_on=[label])
    provider = aws.Provider("aws", region=target.region, default_tags=aws.ProviderDefaultTagsArgs(tags=tags), opts=made_after)
    return StackContext(plan, target, provider)
