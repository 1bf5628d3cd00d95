"""The cost of a stack, as a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.finding import Finding
from rackwright.operations.cost import stack_cost


def ignore(_: Finding) -> None:
    """Show nothing."""


@pytest.fixture
def owned(tmp_path: Path) -> str:
    """The path of a stack file whose machines have a purchase price."""
    prices = "      ownership_cost: {machines: {login: {price_usd: 300, watts: 30}, worker: {price_usd: 3000, watts: 400},"
    prices += " storage: {price_usd: 500, watts: 50}}, electricity_usd_per_kwh: 0.1, years: 4}\n"
    text = paths.stack_file("budget-vms").read_text(encoding="utf-8").replace("    verify_level: smoke", prices + "    verify_level: smoke")
    file = tmp_path / "Pulumi.budget-vms.yaml"
    file.write_text(text.replace("worker:  {count: 2,", "worker:  {count: 2, gpus: {model: l4, count: 1},"))
    return str(file)


def test_rented_stack_is_compared_with_nothing() -> None:
    found = stack_cost("aws-budget", "aws-cpu", ignore)
    assert (found.stack, found.owned, found.rented) == ("aws-budget", None, None) and found.cost.usd_per_hour > 0


def test_owned_machines_are_compared_with_same_gpus(owned: str) -> None:
    found = stack_cost(owned, None, ignore)
    assert found.owned is not None and found.rented is not None and found.rented.name == "2 x g6.xlarge"


def test_owned_machines_are_compared_with_named_stack(owned: str) -> None:
    rented = stack_cost(owned, "aws-cpu", ignore).rented
    assert rented is not None and rented.name == "stack aws-cpu"
    assert rented.usd_per_hour == stack_cost("aws-cpu", None, ignore).cost.usd_per_hour
    assert rented.source == "a price is missing: lower bound"


def test_invalid_stack_has_no_cost(tmp_path: Path, owned: str) -> None:
    file = tmp_path / "Pulumi.bad.yaml"
    file.write_text(paths.stack_file("lab").read_text(encoding="utf-8").replace("port: 2222", "port: 22"))
    with pytest.raises(InputError, match="22 is a privileged port"):
        stack_cost(owned, str(file), ignore)
