"""What rules about target `aws` look at: the instances of each group, with their row of the catalogue. No rule lives here."""

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
        """Where its instances are declared."""
        return f"target.instances.{self.name}"

    @property
    def roles(self) -> tuple[Role, ...]:
        """What its nodes do."""
        return roles_of(self.name, self.group)


def target(case: RuleContext) -> AwsTarget | None:
    """The target, where it is `aws`."""
    return case.cluster.target if isinstance(case.cluster.target, AwsTarget) else None


def fleets(case: RuleContext) -> Iterator[InstanceGroup]:
    """Every group with its instances, where both are known: of the others other rules complain."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        group, type_ = case.cluster.groups.get(name), instance_types().get(declared.type)
        if group is not None and type_ is not None:
            yield InstanceGroup(name, group, declared, type_)
