"""Regions: their zones, and which FSx for Lustre they offer."""

from __future__ import annotations

import botocore.session
from catalog.offerings import known_regions, zones
from support.rows import each_row

from rackwright.catalog.regions import regions

REGIONS = regions()

PERSISTENT_1_ONLY = {
    "af-south-1",
    "ap-northeast-3",
    "ap-south-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "eu-central-2",
    "eu-south-1",
    "eu-south-2",
    "eu-west-3",
    "me-central-1",
    "me-south-1",
    "sa-east-1",
}
"""aws-samples/aws-hpc-recipes, persistent.yaml (August 2026): another source than the rows'."""


@each_row("name", REGIONS)
def test_zones_are_those_in_which_instances_are_sold(name: str) -> None:
    """If this fails after `make lock`: `make update-catalog`."""
    assert " ".join(REGIONS[name].zones) == zones(name)
    assert all(zone.startswith(name) for zone in REGIONS[name].zones)


def test_every_region_whose_zones_are_known_is_there() -> None:
    """None is forgotten, and the EC2 API knows them all."""
    assert set(REGIONS) == known_regions()
    assert set(REGIONS) <= set(botocore.session.get_session().get_available_regions("ec2"))


def test_two_sources_agree_where_persistent_2_is_missing() -> None:
    """Prices and recipes were read apart."""
    assert {name for name, region in REGIONS.items() if region.fsx_lustre and not region.fsx_persistent_2} == PERSISTENT_1_ONLY


def test_persistent_2_needs_lustre() -> None:
    """One without the other is a slip of the pen."""
    assert all(region.fsx_lustre for region in REGIONS.values() if region.fsx_persistent_2)
    assert REGIONS["us-east-1"].fsx_persistent_2
