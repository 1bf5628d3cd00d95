"""Instance types: each row says what AWS's own libraries say, and no price is without its source."""

from __future__ import annotations

import botocore.session
import pytest
from catalog.offerings import sold_in
from catalog.shapes import NoShape, described, shape
from support.rows import each_row

from rackwright import catalog
from rackwright.catalog.instances import InstanceType, QuotaFamily, UsageClass, instance_types
from rackwright.catalog.regions import regions

ROWS = {row["name"]: row for row in catalog.rows("instances")}
TYPES = instance_types()

JULY_2026 = {
    "p4d.24xlarge": 21.96,
    "p4de.24xlarge": 27.45,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    "p5en.48xlarge": 63.30,
    "p6-b200.48xlarge": 113.93,
    "p6-b300.48xlarge": 142.42,
    "g4dn.12xlarge": 3.91,
    "g4dn.metal": 7.82,
    "g5.8xlarge": 2.45,
    "g5.12xlarge": 5.67,
    "g5.24xlarge": 8.14,
    "g5.48xlarge": 16.29,
    "g6.8xlarge": 2.01,
    "g6.12xlarge": 4.60,
    "g6.24xlarge": 6.68,
    "g6.48xlarge": 13.35,
    "g6e.8xlarge": 4.53,
    "g6e.12xlarge": 10.49,
    "g6e.24xlarge": 15.07,
    "g6e.48xlarge": 30.13,
    "g7e.8xlarge": 5.27,
    "g7e.12xlarge": 8.29,
    "g7e.24xlarge": 16.57,
    "g7e.48xlarge": 33.14,
    "inf2.8xlarge": 1.97,
    "inf2.24xlarge": 6.49,
    "inf2.48xlarge": 12.98,
    "trn1.2xlarge": 1.34,
    "trn1.32xlarge": 21.50,
    "trn1n.32xlarge": 24.78,
    "c5n.18xlarge": 3.89,
    "c6in.32xlarge": 7.26,
    "hpc7g.16xlarge": 1.68,
}
"""USD per hour to the cent, from a later edition of the same list (karpenter, 2026-07-20) than the rows' own."""


@pytest.fixture(scope="module")
def ec2_names() -> frozenset[str]:
    """Instance types that the EC2 API takes."""
    model = botocore.session.get_session().get_service_model("ec2")
    return frozenset(model.shape_for("InstanceType").enum)


@each_row("name", ROWS)
def test_the_shape_is_what_describe_instance_types_says(name: str) -> None:
    """If this fails after `make lock`: `make update-catalog`, and read the difference."""
    row = ROWS[name]
    assert {column: row[column] for column in shape(name)} == shape(name)


@each_row("name", ROWS)
def test_the_ec2_api_knows_the_type(name: str, ec2_names: frozenset[str]) -> None:
    """A name that RunInstances would refuse is of no use."""
    assert name in ec2_names


def test_the_ec2_api_knows_the_usage_classes() -> None:
    """Nothing can be bought in a way the API has no word for."""
    model = botocore.session.get_session().get_service_model("ec2")
    assert {each.value for each in UsageClass} == set(model.shape_for("UsageClassType").enum)


def test_known_machines_have_their_known_shape() -> None:
    """Read off AWS's own pages, not out of the library that writes the rows."""
    p5, b300, graviton, small = (TYPES[name] for name in ("p5.48xlarge", "p6-b300.48xlarge", "hpc7g.16xlarge", "t3.medium"))
    assert (p5.cpus, p5.memory_mib, p5.gpu_model, p5.gpu_count, p5.gbps, p5.nvme_gb) == (192, 2048 * 1024, "h100", 8, 3200, 30400)
    assert (p5.efa_cards, p5.network_cards, p5.interfaces_per_card) == (range(32), 32, 2)
    assert (b300.efa_cards, b300.primary_card_takes_efa, b300.network_cards) == (range(1, 17), False, 17)
    assert (graviton.architecture, graviton.threads_per_core, graviton.usage_classes) == ("arm64", 1, {UsageClass.ON_DEMAND})
    assert (small.efa_cards, small.cluster_placement, small.gpu_model, small.threads_per_core) == (range(1, 1), False, None, 2)
    assert TYPES["trn2.48xlarge"].neuron_devices == 16


@each_row("instance", TYPES.values(), ids=list(TYPES))
def test_efa_interfaces_go_to_the_cards_that_take_them(instance: InstanceType) -> None:
    """An interface on another card is refused at launch."""
    cards = described()[instance.name]["NetworkInfo"]["NetworkCards"]
    assert list(instance.efa_cards) == [card["NetworkCardIndex"] for card in cards if "efa" in card["InterfaceTypes"]]


@each_row("instance", [each for each in TYPES.values() if each.gpu_model], ids=lambda each: each.name)
def test_its_gpu_is_in_the_catalogue_with_about_the_memory_ec2_states(instance: InstanceType) -> None:
    """nvidia-smi tells a little less than EC2: a T4 keeps a sixteenth for ECC."""
    gpu = catalog.gpus()[str(instance.gpu_model)]
    stated = described()[instance.name]["GpuInfo"]["Gpus"][0]["MemoryInfo"]["SizeInMiB"]
    assert gpu.memory_mib == pytest.approx(stated, rel=1 / 15)


def test_gpus_and_their_model_come_together() -> None:
    """A count without a model, or a model without a count, is half a row."""
    assert not [each for each in TYPES.values() if bool(each.gpu_model) != (each.gpu_count > 0)]


def test_a_fraction_of_a_gpu_is_not_offered() -> None:
    """g6f has an eighth of an L4: EC2 counts 0 of them, and Slurm could not hand it out."""
    assert not [name for name in TYPES if name.startswith(("g6f.", "gr6f."))]
    with pytest.raises(NoShape, match="fractions"):
        shape("g6f.xlarge")


def test_a_type_nobody_sells_is_refused() -> None:
    """The tool writes no row out of thin air."""
    with pytest.raises(NoShape, match="no such type"):
        shape("p9.huge")


@each_row("instance", TYPES.values(), ids=list(TYPES))
def test_a_price_is_positive_and_traceable(instance: InstanceType) -> None:
    """Or there is none; never a zero."""
    if instance.price is None:
        assert (instance.usd_per_hour, instance.price_source, instance.price_date) == (None, None, None)
        assert not ROWS[instance.name]["price_source"]
    else:
        assert instance.price.usd_per_hour > 0
        assert instance.price.region == "us-east-1"
        assert instance.price.source
        assert instance.price.date <= instance.date


def test_prices_still_held_in_a_later_edition_of_the_list() -> None:
    """Two readings half a year apart agree."""
    assert {name: TYPES[name].usd_per_hour for name in JULY_2026} == pytest.approx(JULY_2026, abs=0.005001)


@pytest.mark.parametrize("family", ["t3", "c7i", "m7i", "m7a", "i3en", "i4i"])
def test_prices_grow_with_the_size_of_a_type(family: str) -> None:
    """AWS sells these by the piece: twice the memory costs twice as much."""
    per_mib = [(each.usd_per_hour or 0) / each.memory_mib for each in TYPES.values() if each.family == family]
    assert len(per_mib) > 1
    assert per_mib == pytest.approx([per_mib[0]] * len(per_mib), rel=0.002)


@each_row("instance", TYPES.values(), ids=list(TYPES))
def test_a_type_has_a_price_exactly_where_its_region_sells_it(instance: InstanceType) -> None:
    """Prices and offers were read apart: what us-east-1 does not sell cannot have a price there, and what it sells has one."""
    assert (instance.price is not None) == ("us-east-1" in instance.regions)


@each_row("name", ROWS)
def test_a_type_is_sold_where_aws_offers_it(name: str) -> None:
    """In regions that the catalogue knows. If this fails after `make lock`: `make update-catalog`."""
    assert ROWS[name]["regions"] == sold_in(name)
    assert TYPES[name].regions
    assert TYPES[name].regions <= set(regions())


def test_no_hpc_type_is_sold_on_the_spot_market() -> None:
    """A stack that asks for it waits forever."""
    assert all(each.usage_classes == {UsageClass.ON_DEMAND} for each in TYPES.values() if each.quota_family is QuotaFamily.HPC)
