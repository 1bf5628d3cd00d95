"""Machines of one's own: what a GPU-hour costs, what a rack draws, when buying has paid off. Worked out by hand beside each figure."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog.instances import instance_types
from rackwright.derive.cost import cost
from rackwright.derive.ownership_cost import OwnershipCost, RentalPrice, compute_ownership_cost, equivalent_instances
from rackwright.model import Cluster
from rackwright.model.groups import OtherGpus
from rackwright.stackfile.load import load_cluster


def owned(model: str = "a10g", **inputs: Any) -> Cluster:
    """A head node and two workers with four GPUs each, in two racks."""
    target = {
        "kind": "hosts",
        "os": "ubuntu-24.04",
        "machines": {name: {"address": f"10.20.0.{2 + n}"} for n, name in enumerate(("head0", "worker0", "worker1"))},
        "ownership_cost": {
            "machines": {"head": {"price_usd": 1000, "watts": 100}, "worker": {"price_usd": 12000, "watts": 1500}},
            "electricity_usd_per_kwh": 0.20,
            "years": 3,
            **inputs,
        },
    }
    groups = {
        "head": {"count": 1, "roles": ["login", "controller", "accounting"], "cpus": 4, "memory": "8GiB", "rack": "r1"},
        "worker": {"count": 2, "cpus": 32, "memory": "128GiB", "gpus": {"model": model, "count": 4}, "rack": "r2"},
    }
    loaded = load_cluster({"target": target, "network": {"cidr": "10.20.0.0/24"}, "groups": groups})
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def reckoned(cluster: Cluster) -> OwnershipCost:
    """Its balance."""
    found = compute_ownership_cost(cluster)
    assert found is not None
    return found


def test_an_hour_is_the_share_of_the_price_and_the_power() -> None:
    """25,000 USD over 26,280 h are 0.9513; 3.1 kW at 0.20 are 0.62."""
    found = reckoned(owned())
    assert (found.usd_bought, found.gpus) == (25000, 8)
    assert found.power_usd_per_hour == pytest.approx(0.62)
    assert found.usd_per_hour == pytest.approx(25000 / 26280 + 0.62)
    assert found.usd_per_gpu_hour == pytest.approx(found.usd_per_hour / 8)


def test_the_bill_says_the_same() -> None:
    """Its lines are the groups."""
    assert cost(owned(pue=1.4)).usd_per_hour == pytest.approx(reckoned(owned(pue=1.4)).usd_per_hour, abs=1e-5)


def test_idle_hours_make_used_ones_dearer() -> None:
    """Half of them idle: twice the price."""
    assert reckoned(owned(utilisation=0.5)).usd_per_gpu_hour == pytest.approx(2 * (reckoned(owned()).usd_per_gpu_hour or 0))


def test_cooling_costs_power_but_draws_nothing_in_the_rack() -> None:
    """A PUE of 1.5: half as much again."""
    cooled = reckoned(owned(pue=1.5))
    assert cooled.power_usd_per_hour == pytest.approx(0.93)
    assert cooled.kw_by_rack == {"r1": 0.1, "r2": 3.0}


def test_buying_has_paid_off_when_the_rent_saved_is_the_price() -> None:
    """10 USD per hour of rent, 80 % used, less 0.62 for power: 5,387.4 a month."""
    found = reckoned(owned(utilisation=0.8))
    assert found.break_even_months(RentalPrice("x", 10, "y")) == pytest.approx(25000 / ((8 - 0.62) * 730))
    assert found.break_even_months(RentalPrice("x", 0.7, "y")) is None, "power alone costs more than the rent"


def test_the_same_gpus_in_ec2_are_the_cheapest_way_to_as_many() -> None:
    """No other way to eight of them costs less."""
    rented = equivalent_instances(owned())
    assert rented is not None
    ways = [type_ for type_ in instance_types().values() if type_.gpu_model == "a10g" and type_.usd_per_hour]
    assert rented.usd_per_hour == pytest.approx(min(-(-8 // type_.gpu_count) * (type_.usd_per_hour or 0) for type_ in ways))
    assert rented.source


def test_gpus_of_each_model_are_rented() -> None:
    """Two nodes with three A10G and one T4 each: six of one model, two of the other."""
    cluster = owned()
    gpus = cluster.groups["worker"].gpus
    assert gpus is not None
    mixed = gpus.model_copy(update={"others": (OtherGpus(model="t4", devices=(0,)),)})
    groups = {**cluster.groups, "worker": cluster.groups["worker"].model_copy(update={"gpus": mixed})}
    rented = equivalent_instances(cluster.model_copy(update={"groups": groups}))
    assert rented is not None

    def cheapest(model: str, count: int) -> float:
        priced = [type_ for type_ in instance_types().values() if type_.gpu_model == model and type_.usd_per_hour]
        return min(-(-count // type_.gpu_count) * (type_.usd_per_hour or 0) for type_ in priced)

    assert rented.usd_per_hour == pytest.approx(cheapest("a10g", 6) + cheapest("t4", 2))


def test_a_gpu_that_ec2_does_not_have_is_compared_with_nothing() -> None:
    """A card for gamers."""
    model = next(iter(set(gpus()) - {type_.gpu_model for type_ in instance_types().values()}))
    assert equivalent_instances(owned(model)) is None


def test_without_figures_there_is_no_reckoning_and_the_bill_says_so() -> None:
    """Nothing is invented."""
    bare = owned().model_copy(update={"target": owned().target.model_copy(update={"ownership_cost": None})})
    assert compute_ownership_cost(bare) is None
    assert not cost(bare).complete and cost(bare).usd_per_hour == 0


def gpus() -> list[str]:
    """All models of the catalogue."""
    from rackwright import catalog

    return list(catalog.gpus())
