"""A stack of runners: what its plan holds, and that nothing of a scheduler is expected of it."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog.alerts import Part
from rackwright.catalog.checks import Feature, Level, checks
from rackwright.catalog.runner_releases import newest, runner_digests
from rackwright.errors import InputError
from rackwright.inventory import Host, inventory, paths, running_stack
from rackwright.inventory.alert_rules import parts_of
from rackwright.inventory.contract import schema_errors
from rackwright.inventory.reader import from_inventory
from rackwright.model.cluster import Cluster
from rackwright.plan import Plan, expand
from rackwright.report.check_plan import plan_checks
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster

STACKS = ("runner-gpu", "runner-gb10")


def cluster(stack: str, **change: Any) -> Cluster:
    """Return a committed stack with a change of its `runner`, or of a section."""
    data, _ = yaml_reader.read(paths.stack_file(stack))
    described = data["config"]["rackwright:cluster"]
    described["runner"] |= change.pop("runner", {})
    loaded = load_cluster(described | change, stack)
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def handed_over(plan: Plan) -> dict[str, Any]:
    return inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", node.name) for node in plan.nodes})


@pytest.mark.parametrize("stack", STACKS)
def test_stack_of_runners_has_no_scheduler(stack: str) -> None:
    plan = expand(cluster(stack), stack)
    assert (plan.groups["role_runner"], plan.groups["slurm"], plan.scheduler.nodes) == (("runner0",), (), ())
    declared = from_inventory(handed_over(plan))
    assert Feature.ACTIONS_RUNNER in declared.features and Feature.SLURM not in declared.features
    owed = {item.spec.subject for item in plan_checks(declared, checks(), Level.FULL).expected.values()}
    assert owed == {"node", "network", "users", "sshd", "firewall", "gpu", "software", "runner"}


@pytest.mark.parametrize("stack", STACKS)
def test_inventory_of_runner_follows_contract(stack: str) -> None:
    assert schema_errors(handed_over(expand(cluster(stack), stack))) == []


def test_cluster_has_no_group_of_runners() -> None:
    """Plans that are up were recorded without it."""
    data, _ = yaml_reader.read(paths.stack_file("lab"))
    loaded = load_cluster(data["config"]["rackwright:cluster"], "lab").cluster
    assert loaded is not None
    plan = expand(loaded, "lab")
    assert "role_runner" not in plan.groups and "runner" not in plan.to_data()["node_stack"]


def test_newest_release_and_own_digest() -> None:
    runner = expand(cluster("runner-gb10"), "x").node_stack.runner
    assert runner is not None and (runner.version, runner.sha256) == (newest(), runner_digests()[newest()])
    own = expand(cluster("runner-gb10", runner={"version": "2.340.0", "sha256": {"arm64": "a" * 64}}), "x").node_stack.runner
    assert own is not None and (own.version, own.sha256) == ("2.340.0", {"arm64": "a" * 64})


@pytest.mark.parametrize("stack", STACKS)
def test_commands_for_slurm_refuse_stack_of_runners(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handed = handed_over(expand(cluster(stack), stack))
    monkeypatch.setattr(running_stack, "load_inventory", lambda name: handed)
    with pytest.raises(InputError, match="a stack of runners has none"):
        running_stack.require_slurm(stack, "rackwright acceptance")


def test_work_folder_is_on_scratch() -> None:
    plain = expand(cluster("runner-gpu"), "x").node_stack.runner
    scratch = {"devices": ["/dev/nvme1n1"], "format_empty_disks": True, "mount": "/scratch"}
    plan = expand(cluster("runner-gpu", scratch=scratch), "x")
    assert plain is not None and plain.work_folder == "/var/lib/actions-runner/work"
    assert plan.node_stack.runner is not None and plan.node_stack.runner.work_folder == "/scratch/actions-runner"
    assert plan.groups["with_scratch"] == ("runner0",)


def test_no_alert_of_a_runner_waits_for_slurm() -> None:
    assert not {Part.SLURM, Part.ACCOUNTING} & parts_of(expand(cluster("runner-gpu"), "x"))
