"""vCPU quotas of an account in a region: which one an instance type counts against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows
from rackwright.catalog.instances import InstanceType, QuotaFamily, UsageClass


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of service `ec2`, counted in vCPUs."""

    code: str
    name: str
    family: QuotaFamily
    usage_class: UsageClass
    generations: frozenset[int]
    """Generations of the family it is for; empty means all."""

    def counts(self, instance: InstanceType, usage_class: UsageClass) -> bool:
        """Whether an instance bought this way counts against it."""
        same = (instance.quota_family, usage_class) == (self.family, self.usage_class)
        return same and (not self.generations or instance.generation in self.generations)


@cache
def quotas() -> tuple[Quota, ...]:
    """All known quotas."""
    return tuple(
        Quota(
            code=row["code"],
            name=row["name"],
            family=QuotaFamily(row["family"]),
            usage_class=UsageClass(row["usage_class"]),
            generations=frozenset(int(each) for each in row["generations"].split()),
        )
        for row in rows("quotas")
    )


def quota(instance: InstanceType, usage_class: UsageClass) -> Quota | None:
    """What it counts against. None for capacity blocks, and where no quota has a source (P6 as spot)."""
    return next((each for each in quotas() if each.counts(instance, usage_class)), None)
