"""The plan and the table of alerts as rule groups of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from rackwright.catalog import NVIDIA
from rackwright.catalog.alerts import AlertRule, Part, alerts
from rackwright.inventory.promql import with_label
from rackwright.model.groups import Role
from rackwright.plan import Plan
from rackwright.plan.fabric.wiring import wiring
from rackwright.plan.monitoring.schema import MonitoringPlan

SUSPENDED_STATES: Final = ("powered_down", "powering_down", "powering_up")
"""States of nodes that power saving stops and starts, as roles/metrics_collectors names them."""
PLAN_GROUP: Final = "plan"
"""Group of the recorded series of the plan, before those that read them."""


def rule_groups(plan: Plan, monitoring: MonitoringPlan) -> dict[str, Any]:
    """Return the rule file as data. A label in an annotation is `<label>`: Ansible would template the braces of Prometheus.

    A Prometheus of the site reads other clusters as well: there, every selector and every alert has the label `stack`.
    """
    parts = parts_of(plan)
    chosen = [rule for rule in alerts().values() if rule.needs <= parts]
    saving = Part.POWER_SAVING in parts
    groups = [
        {"name": name, "rules": [_alert(rule, power_saving=saving) for rule in rules]}
        for name, rules in groupby(chosen, key=lambda rule: rule.group)
    ]
    groups = [{"name": PLAN_GROUP, "rules": [*_sizes(plan), *_expected(monitoring), *(_suspended() if saving else ())]}, *groups]
    return {"groups": [_of_stack(group, plan.stack) for group in groups] if monitoring.external else groups}


def _of_stack(group: dict[str, Any], stack: str) -> dict[str, Any]:
    """Return the group with rules that read and name one stack only."""
    name = {"stack": stack}
    rules = [{**rule, "expr": with_label(rule["expr"], "stack", stack), "labels": rule.get("labels", {}) | name} for rule in group["rules"]]
    return {**group, "rules": rules}


def parts_of(plan: Plan) -> frozenset[Part]:
    """Return the parts of a plan that rules may need. A stack of runners has no controller, so that no rule waits for its Slurm."""
    has_controller = any(Role.CONTROLLER in node.roles for node in plan.nodes)
    slurm = plan.scheduler if plan.scheduler.kind == "slurm" and has_controller else None
    has = {
        Part.PROMETHEUS: plan.monitoring is not None and plan.monitoring.external is None,
        Part.REMOTE_WRITE: plan.monitoring is not None and bool(plan.monitoring.remote_write),
        Part.POWER_SAVING: plan.scheduler.power_saving is not None,
        Part.OWN_KERNEL: plan.target.manage_kernel,
        Part.SLURM: slurm is not None,
        Part.KUBERNETES: plan.scheduler.kind == "kubernetes",
        Part.GPUS: any(node.gpus and node.gpus.vendor == NVIDIA for node in plan.nodes if node.is_in),
        Part.ACCOUNTING: slurm is not None and slurm.accounting is not None,
        Part.STORAGE: bool(plan.storage),
        Part.FABRIC: plan.fabric is not None,
        Part.INFINIBAND: plan.fabric is not None and plan.fabric.kind == "infiniband",
    }
    return frozenset(part for part, present in has.items() if present)


def _alert(rule: AlertRule, *, power_saving: bool) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": rule.power_saving if power_saving and rule.power_saving else rule.expression,
        "for": rule.hold,
        "labels": {"severity": rule.severity.value},
        "annotations": {"summary": rule.summary, "remedy": rule.remedy, "runbook": rule.runbook},
    }


def _sizes(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield how many nodes, GPUs and cables the plan has, for shares of what is there."""
    present = [node for node in plan.nodes if node.is_in]
    sizes = {
        "nodes": len(present),
        "nodes_out": len(plan.nodes) - len(present),
        "gpus": sum(node.gpus.count for node in present if node.gpus and node.gpus.vendor == NVIDIA),
        "cables": len(wiring(plan).cables) if plan.fabric else 0,
    }
    for name, size in sizes.items():
        yield {"record": f"rackwright_plan_{name}", "expr": f"vector({size})"}


def _expected(monitoring: MonitoringPlan) -> Iterator[dict[str, Any]]:
    """Yield a constant series for each target and collector of the plan: a lost one has no series that could be 0."""
    for target in monitoring.targets:
        yield {"record": "rackwright_plan_target", "expr": "vector(1)", "labels": {"job": target.job, "instance": target.node}}
    for node in monitoring.nodes:
        for collector in node.collectors:
            yield {"record": "rackwright_plan_collector", "expr": "vector(1)", "labels": {"collector": collector, "instance": node.name}}


def _suspended() -> Iterator[dict[str, Any]]:
    """Yield whether a node is stopped, is being stopped or starts, as Slurm reports it; 0 for a node that runs."""
    states = "|".join(SUSPENDED_STATES)
    by_node = f'label_replace(rackwright_slurm_node_state{{state=~"{states}"}}, "instance", "$1", "node", "(.+)")'
    yield {"record": "rackwright_node_suspended", "expr": f"max by(instance) ({by_node})", "labels": {}}
