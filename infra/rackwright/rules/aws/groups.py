"""Input of rules for target `aws`: the instances of each group, with their row of the catalogue. Contains no rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.model.groups import Group, Role, roles_of
from rackwright.model.targets.aws import AwsTarget, Instances
from rackwright.rules.registry import RuleContext


@dataclass(frozen=True)
class InstanceGroup:
    """A group of target `aws` whose instance type is known."""

    name: str
    group: Group
    declared: Instances
    type: InstanceType

    @property
    def path(self) -> str:
        """Return the path at which its instances are declared."""
        return f"target.instances.{self.name}"

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles of its nodes."""
        return roles_of(self.name, self.group)


def target(case: RuleContext) -> AwsTarget | None:
    """Return the target if it is `aws`."""
    return case.cluster.target if isinstance(case.cluster.target, AwsTarget) else None


def fleets(case: RuleContext) -> Iterator[InstanceGroup]:
    """Return every group with its instances if both are known; other rules report the rest."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        group, type_ = case.cluster.groups.get(name), instance_types().get(declared.type)
        if group is not None and type_ is not None:
            yield InstanceGroup(name, group, declared, type_)
