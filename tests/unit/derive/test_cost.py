"""What stacks cost: every line from the catalogue or the stack file, and a missing price said, never counted as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.rows import each_row

from rackwright.catalog.instances import instance_types
from rackwright.catalog.prices import prices
from rackwright.derive.cost import Cost, CostLine, cost, spent
from rackwright.inventory import paths
from rackwright.model import Cluster
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster, load_stack

AWS = {
    "target": {
        "kind": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "image": {"id": "ami-0123456789abcdef0"},
        "instances": {"login": {"type": "t3.medium"}, "worker": {"type": "g5.xlarge"}},
    },
    "network": {"cidr": "10.90.0.0/22"},
    "groups": {"login": {"count": 1, "roles": ["login", "controller", "accounting"]}, "worker": {"count": 3}},
}


def described(**change: Any) -> Cluster:
    """The cluster with some parts exchanged."""
    loaded = load_cluster({**AWS, **change})
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def workers(**instances: Any) -> Cluster:
    """The cluster with other workers."""
    target: Mapping[str, Any] = AWS["target"]
    return described(target={**target, "instances": {**target["instances"], "worker": {"type": "g5.xlarge", **instances}}})


def line(found: Cost, group: str, item: str) -> CostLine:
    """The one line of a group and a thing."""
    (one,) = (each for each in found.lines if (each.group, each.item) == (group, item))
    return one


def test_eight_p5_for_a_week_at_98_dollars_are_132_thousand_not_1_3_million() -> None:
    """A guide that the project was founded on had a digit too many."""
    assert spent(8, 98, 7 * 24) == 131_712
    week = Cost(usd_per_hour=784, lines=(CostLine(group="worker", count=8, usd_per_hour=spent(8, 98), source="a guide"),))
    assert week.total(7 * 24) == 131_712


def test_instances_cost_their_list_price_each_with_source_and_date() -> None:
    """On demand."""
    found, listed = line(cost(described()), "worker", "g5.xlarge"), instance_types()["g5.xlarge"].price
    assert listed is not None
    assert (found.count, found.usd_per_hour) == (3, pytest.approx(3 * listed.usd_per_hour))
    assert (found.source, found.date, found.region) == (listed.source, listed.date.isoformat(), "us-east-1")


def test_the_sum_is_the_sum_of_its_lines() -> None:
    """And a life of some hours costs so many of them."""
    found = cost(described())
    assert found.complete
    assert found.usd_per_hour == pytest.approx(sum(each.usd_per_hour or 0 for each in found.lines))
    assert found.total(8) == pytest.approx(8 * found.usd_per_hour)


def test_spot_costs_what_is_expected_or_at_most_the_list_price_or_one_s_own_limit() -> None:
    """A discount is an input, never a constant."""
    listed = instance_types()["g5.xlarge"].usd_per_hour
    assert listed is not None
    expected = line(cost(workers(capacity_type={"kind": "spot", "expected_usd_per_hour": 0.4})), "worker", "g5.xlarge")
    assert (expected.usd_per_hour, expected.source, expected.date) == (pytest.approx(1.2), "the stack file", None)
    ceiling = line(cost(workers(capacity_type={"kind": "spot"})), "worker", "g5.xlarge")
    assert ceiling.usd_per_hour == pytest.approx(3 * listed) and "at most" in ceiling.remark
    limited = line(cost(workers(capacity_type={"kind": "spot", "max_usd_per_hour": 0.3})), "worker", "g5.xlarge")
    assert limited.usd_per_hour == pytest.approx(0.9)


def test_a_block_is_paid_up_front_and_its_hours_are_not_paid_again() -> None:
    """With its duration, the share of an hour is printed, too."""
    block = {"kind": "capacity-block", "reservation": "cr-00000000000000000", "usd_total": 2400.0}
    with_share, without = cost(workers(capacity_type={**block, "duration": "1d"})), cost(workers(capacity_type=block))
    assert line(with_share, "worker", "g5.xlarge").usd_per_hour == pytest.approx(100)
    assert line(without, "worker", "g5.xlarge").usd_per_hour is None
    assert without.complete and with_share.usd_per_hour == pytest.approx(without.usd_per_hour + 100)
    assert with_share.total(24) == without.total(24) == pytest.approx(2400 + 24 * without.usd_per_hour)


def test_a_block_of_unknown_price_makes_the_sum_a_least_one() -> None:
    """Not a free one."""
    found = cost(workers(capacity_type={"kind": "capacity-block", "reservation": "cr-00000000000000000"}))
    assert not found.complete and not line(found, "worker", "g5.xlarge").known


def test_a_type_without_a_price_on_record_makes_the_sum_a_least_one() -> None:
    """hpc7a is in no list that was found."""
    assert instance_types()["hpc7a.96xlarge"].price is None, "choose another type without a price"
    found = cost(workers(type="hpc7a.96xlarge"))
    assert not found.complete and line(found, "worker", "hpc7a.96xlarge").usd_per_hour is None


def test_a_faster_root_volume_costs_more() -> None:
    """Above what every gp3 has."""
    plain, fast = (
        line(cost(workers(root_volume=root)), "worker", "root volumes").usd_per_hour for root in ({}, {"iops": 4000, "throughput": 225})
    )
    storage = prices()["ebs-gp3-storage"].usd
    assert storage is not None
    assert plain == pytest.approx(3 * 100 * storage / 730, abs=1e-5), "what every one has costs nothing more"
    iops, throughput = prices()["ebs-gp3-iops"].usd, prices()["ebs-gp3-throughput"].usd
    assert plain is not None and fast is not None and iops is not None and throughput is not None
    assert fast - plain == pytest.approx(3 * (1000 * iops + 100 * throughput) / 730, abs=1e-5)


def test_a_node_that_is_out_costs_what_it_costs_in() -> None:
    """It is left out of phases and checks; its instance, its disks and its address stay."""
    out = {"worker0": {"state": "out", "reason": "fan"}, "login0": {"state": "out", "reason": "disk"}}
    assert cost(described(nodes=out)) == cost(described())


def test_without_a_gateway_there_is_no_line_for_it() -> None:
    """One address, the login node's."""
    found = cost(described(target={**AWS["target"], "nat": "none"}))
    assert [(each.item, each.count) for each in found.lines if each.group == "network"] == [("public addresses", 1)]


@pytest.mark.parametrize("storage", [{}, {"fs": {"kind": "moosefs", "mount": "/mnt/fs", "size": "5GiB"}}])
def test_the_disks_that_are_paid_are_the_plan_s_volumes(storage: Mapping[str, Any]) -> None:
    """The same number and size, group by group."""
    groups = {**AWS["groups"], "storage": {"count": 2}}  # type: ignore[dict-item]
    instances = {**AWS["target"]["instances"], "storage": {"type": "t3.medium"}}  # type: ignore[index]
    cluster = described(groups=groups, storage=storage, target={**AWS["target"], "instances": instances})
    volumes = expand(cluster, "x").volumes
    paid = {each.group: each for each in cost(cluster).lines if each.item == "data volumes"}
    assert sum(each.count for each in paid.values()) == len(volumes)
    gib = sum(-(-volume.size_mib // 1024) if volume.size_mib else 20 for volume in volumes)
    price = prices()["ebs-gp3-storage"].usd_per_hour
    assert price is not None
    assert sum(each.usd_per_hour or 0 for each in paid.values()) == pytest.approx(gib * price, abs=1e-5)


def test_lustre_costs_by_its_capacity_and_its_backups_have_no_price() -> None:
    """Metadata operations at most what was asked for."""
    lustre = {"kind": "fsx-lustre", "mount": "/fsx", "size": "4800GiB", "deployment_type": "PERSISTENT_2", "throughput": 250}
    found = cost(described(storage={"fsx": {**lustre, "metadata_iops": 12000}}))
    storage, metadata = prices()["fsx-persistent-2-ssd-250"].usd, prices()["fsx-metadata-iops"].usd
    assert storage is not None and metadata is not None
    assert line(found, "fsx", "FSx for Lustre, 4800 GiB").usd_per_hour == pytest.approx(4800 * storage / 730, abs=1e-5)
    assert line(found, "fsx", "12000 metadata IOPS").usd_per_hour == pytest.approx(12000 * metadata / 730, abs=1e-5)
    assert not cost(described(storage={"fsx": {**lustre, "backups": 7}})).complete


def test_what_fsx_does_not_offer_has_no_price_and_no_traceback() -> None:
    """Its rule says why; the bill still has its other lines."""
    found = cost(described(storage={"fsx": {"kind": "fsx-lustre", "mount": "/fsx", "size": "1200GiB", "deployment_type": "PERSISTENT_2"}}))
    assert line(found, "fsx", "FSx for Lustre, 1200 GiB").usd_per_hour is None


def test_another_region_s_prices_are_called_so() -> None:
    """All on record are us-east-1's."""
    there = cost(described(target={**AWS["target"], "region": "us-east-2", "zone": "us-east-2b"}))
    assert any("us-east-1" in note and "us-east-2" in note for note in there.notes)
    assert not any("may differ" in note for note in cost(described()).notes)


@each_row("file", sorted(paths.stacks().glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_every_line_says_where_its_price_is_from(file: Any) -> None:
    """A listed price with its date and region; no price with the reason."""
    cluster = load_stack(file).cluster
    assert cluster is not None
    for each in cost(cluster).lines:
        assert each.source
        assert each.known or each.remark
        assert each.source in {"the stack file", "containers on this machine", "no source found"} or (each.date and each.region)
