"""The program before its first resource, and the provider's input from a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pytest
from recording import committed

from rackwright.inventory import paths
from rackwright.plan import Plan
from rackwright.targets import program
from rackwright.targets.lab import host_requirements
from rackwright.yaml_loader import load_yaml


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state directory, and a folder of stack files of its own."""
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")
    for file in paths.stacks().glob("Pulumi.*.yaml"):
        (tmp_path / file.name).write_text(_filled_in(file.read_text()))
    return tmp_path


def _filled_in(text: str) -> str:
    """Return a committed stack file with the user's own values: image, network, host keys."""
    text = text.replace("image: {", "image: {id: ami-0123456789abcdef0, ").replace("198.51.100.0/24", "11.22.33.0/24")
    return re.sub(r"SHA256:(.)\1\1", "SHA256:abc", text)


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the engine's warnings."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said


def load(stack: str, *, preview: bool, backend: str | None, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Run the program as root, with its state in a given place."""
    monkeypatch.setattr(host_requirements, "rootless", lambda: False)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    if backend is None:
        monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    else:
        monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    configured: Any = load_yaml(paths.stack_file(stack).read_text())["config"]["rackwright:cluster"]
    return program.load(configured, stack).plan


def embedded() -> str:
    """Return the backend that `.venv/bin/pulumi` sets without a login."""
    return f"file://{paths.engine_state()}"


def test_billed_stack_refuses_local_state(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        pulumi.RunError, match=r"allow_local_state: the engine's state would lie in .* alone, and this stack bills money\n  keep it"
    ):
        load("aws-budget", preview=False, backend=embedded(), monkeypatch=monkeypatch)


def test_preview_warns_of_local_state(stacks: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("aws-budget", preview=True, backend=embedded(), monkeypatch=monkeypatch).stack == "aws-budget"
    (said,) = warned
    assert "`up` will refuse" in said and "allow_local_state: true" in said


def test_allow_local_state_permits_up(stacks: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = paths.stack_file("aws-budget")
    file.write_text(file.read_text() + "    allow_local_state: true\n")
    assert load("aws-budget", preview=False, backend=embedded(), monkeypatch=monkeypatch).stack == "aws-budget"
    assert warned == []


@pytest.mark.parametrize("backend", [None, "s3://bucket/state", "file:///elsewhere", "https://api.pulumi.com"])
def test_remote_state_permits_up(stacks: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch, backend: str | None) -> None:
    """With a login of the user, the shim sets no address."""
    assert load("aws-budget", preview=False, backend=backend, monkeypatch=monkeypatch).stack == "aws-budget"
    assert warned == []


@pytest.mark.parametrize("stack", ["lab", "budget-vms"])
def test_unbilled_stack_may_use_local_state(stacks: Path, monkeypatch: pytest.MonkeyPatch, stack: str) -> None:
    assert load(stack, preview=False, backend=embedded(), monkeypatch=monkeypatch).stack == stack


def test_provider_input_excludes_price_and_budget() -> None:
    """Otherwise, a price would converge a cluster that is as declared."""
    plan = committed("aws-budget")
    assert plan.budget is not None
    dearer = plan.model_copy(update={"cost": plan.cost.model_copy(update={"usd_per_hour": 99.0}), "budget": None})
    assert dearer != plan
    assert program.serialize_plan(dearer) == program.serialize_plan(plan)
    assert Plan.from_data(json.loads(program.serialize_plan(plan))).nodes == plan.nodes
