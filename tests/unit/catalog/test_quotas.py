"""Quotas: which one an instance counts against."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright.catalog.instances import QuotaFamily, UsageClass, instance_types
from rackwright.catalog.quotas import quota, quotas

TYPES = instance_types()


@pytest.mark.parametrize(
    ("name", "family", "on_demand", "spot"),
    [
        ("t3.large", QuotaFamily.STANDARD, "L-1216C47A", "L-34B43A08"),
        ("i4i.xlarge", QuotaFamily.STANDARD, "L-1216C47A", "L-34B43A08"),
        ("g6e.xlarge", QuotaFamily.G_AND_VT, "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", QuotaFamily.P, "L-417A185B", "L-7212CCBC"),
        ("p5en.48xlarge", QuotaFamily.P, "L-417A185B", "L-C4BD4855"),
        ("inf2.xlarge", QuotaFamily.INF, "L-1945791B", "L-B5D1601B"),
        ("trn1n.32xlarge", QuotaFamily.TRN, "L-2C3B7624", "L-6B0D517C"),
    ],
)
def test_a_type_counts_against_the_quota_of_its_family(name: str, family: QuotaFamily, on_demand: str, spot: str) -> None:
    """Spot has its own, and P5 its own within it."""
    instance = TYPES[name]
    codes = [found.code for market in (UsageClass.ON_DEMAND, UsageClass.SPOT) if (found := quota(instance, market))]
    assert (instance.quota_family, codes) == (family, [on_demand, spot])


@each_row("name", TYPES)
def test_every_type_that_runs_on_demand_counts_against_one_quota(name: str) -> None:
    """Two would count its vCPUs twice."""
    assert len([each for each in quotas() if each.counts(TYPES[name], UsageClass.ON_DEMAND)]) == 1


def test_what_has_no_source_has_no_quota() -> None:
    """hpc types are not sold as spot, capacity blocks are counted elsewhere, and P6 as spot is not documented."""
    assert quota(TYPES["hpc7a.96xlarge"], UsageClass.SPOT) is None
    assert quota(TYPES["p5.48xlarge"], UsageClass.CAPACITY_BLOCK) is None
    assert quota(TYPES["p6-b200.48xlarge"], UsageClass.SPOT) is None
