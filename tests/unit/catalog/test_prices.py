"""Prices of what is no instance: each with its source, or with the reason why there is none."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright.catalog.fsx import DeploymentType, DriveCache, StorageType, storage_types, throughputs
from rackwright.catalog.prices import Unit, lustre_storage, prices

PRICES = prices()


@each_row("item", PRICES)
def test_a_price_is_positive_or_says_why_it_is_missing(item: str) -> None:
    """A missing one is no zero."""
    price = PRICES[item]
    assert price.usd is None or price.usd > 0
    assert (price.usd is None) == price.source.startswith("no source found")
    assert price.region == "us-east-1"


@pytest.mark.parametrize("deployment", DeploymentType)
def test_every_lustre_that_can_be_built_has_its_price(deployment: DeploymentType) -> None:
    """Or a row that says none is known."""
    for storage in storage_types(deployment):
        for throughput in throughputs(deployment, storage) or (None,):
            caches = DriveCache if storage is StorageType.HDD else (DriveCache.NONE,)
            for cache in caches:
                assert lustre_storage(deployment, storage, throughput, cache).unit is Unit.GB_MONTH


def test_more_throughput_costs_more() -> None:
    """A row in the wrong place would show here."""
    for deployment in (DeploymentType.PERSISTENT_1, DeploymentType.PERSISTENT_2):
        ladder = [lustre_storage(deployment, StorageType.SSD, each).usd or 0 for each in throughputs(deployment)]
        assert ladder == sorted(set(ladder))
    cached = lustre_storage(DeploymentType.PERSISTENT_1, StorageType.HDD, 12, DriveCache.READ).usd or 0
    assert cached > (lustre_storage(DeploymentType.PERSISTENT_1, StorageType.HDD, 12).usd or 0)


def test_the_smallest_persistent_file_system_costs_what_its_users_report() -> None:
    """1200 GB at 125 MB/s per TiB: 174 USD a month (c3x.dev, aws_fsx_lustre_file_system)."""
    price = lustre_storage(DeploymentType.PERSISTENT_2, StorageType.SSD, 125)
    assert 1200 * (price.usd or 0) == pytest.approx(174)
    assert 1200 * (price.usd_per_hour or 0) * 730 == pytest.approx(174)


def test_what_fsx_does_not_offer_has_no_price() -> None:
    """PERSISTENT_2 has no 50 MB/s per TiB."""
    with pytest.raises(KeyError):
        lustre_storage(DeploymentType.PERSISTENT_2, StorageType.SSD, 50)


def test_only_what_takes_time_has_a_price_per_hour() -> None:
    """Data that flows is paid by the GB; what has no price has none per hour either."""
    assert PRICES["nat-gateway"].usd_per_hour == 0.045
    assert PRICES["nat-gateway-data"].usd_per_hour is None
    assert PRICES["fsx-backup"].usd_per_hour is None
