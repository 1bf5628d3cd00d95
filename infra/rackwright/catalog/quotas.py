"""vCPU quotas of an account in a region, and the quota that applies to an instance type."""

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
    """Generations of the family that it applies to; empty means all."""

    def counts(self, instance: InstanceType, usage_class: UsageClass) -> bool:
        """Return whether the quota applies to an instance with this purchase option."""
        same = (instance.quota_family, usage_class) == (self.family, self.usage_class)
        return same and (not self.generations or instance.generation in self.generations)


@cache
def quotas() -> tuple[Quota, ...]:
    """Return all known quotas."""
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
    """Return the quota that applies; None for capacity blocks, and if no quota has a source (P6 as spot)."""
    return next((each for each in quotas() if each.counts(instance, usage_class)), None)
