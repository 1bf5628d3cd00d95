"""Cross-field rules: one module per subject, each rule registered by name. They collect findings and never raise. No I/O, no SDK."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Final

from rackwright.catalog.site_findings import site_findings
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding
from rackwright.rules.aws import capacity, disks, fsx, fsx_repositories, images, instances, tags
from rackwright.rules.aws import fabric as aws_fabric
from rackwright.rules.aws import network as aws_network
from rackwright.rules.common import (
    access,
    actions_runner,
    alert_receivers,
    bmc,
    chaos,
    container_networks,
    existing_storage,
    external_monitoring,
    gpus,
    groups,
    hosts,
    image_accounts,
    links,
    mig,
    mixed_gpus,
    monitoring,
    names,
    network,
    node_features,
    nodes,
    phases,
    storage,
    tuning,
    users,
    vm,
)
from rackwright.rules.cost import budget, limits
from rackwright.rules.fabric import adapters, floor_plan, topology
from rackwright.rules.kubernetes import addons, load_balancers, pod_network
from rackwright.rules.kubernetes import cluster as kubernetes_cluster
from rackwright.rules.kubernetes import network as kubernetes_network
from rackwright.rules.registry import RULES, Rule, RuleContext
from rackwright.rules.slurm import accounts, partition_qos, partitions, power_saving, preemption, scheduler
from rackwright.rules.software import efa, rocm, stack, versions
from rackwright.stackfile.field_errors import FieldPath
from rackwright.stackfile.load import LoadedStack

__all__ = ["RULES", "Rule", "RuleContext", "check", "run_rules"]

RULE_MODULES = (
    *(names, network, groups, gpus, mixed_gpus, mig, stack, versions, efa, storage, existing_storage, access, users, nodes, hosts, links),
    *(scheduler, power_saving, accounts, partitions, partition_qos, preemption),
    *(bmc, rocm, image_accounts, container_networks, vm, chaos, actions_runner),
    *(kubernetes_cluster, kubernetes_network, addons, load_balancers, pod_network),
    *(topology, adapters, floor_plan, phases, node_features, tuning, monitoring, alert_receivers, external_monitoring),
    *(instances, images, disks, aws_network, aws_fabric, capacity, tags, fsx, fsx_repositories, budget, limits),
)
"""Importing a subject registers its rules; findings come in this order."""
_PLACES: Final = {subject.__name__: place for place, subject in enumerate(RULE_MODULES)}


def run_rules(case: RuleContext, *, at_up: bool = False) -> Iterator[Finding]:
    """Yield the findings of all rules in a cluster whose fields are valid."""
    for rule in sorted(RULES.values(), key=lambda rule: _PLACES[rule.check.__module__]):
        yield from rule.findings(case, at_up=at_up)


def check(
    loaded: LoadedStack,
    today: date,
    other_stacks: Mapping[str, Cluster] | None = None,
    *,
    at_up: bool = False,
    missing_files: Collection[str] = (),
    secret_problems: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """Return all findings about a description: field findings first, then those of the rules.

    `missing_files`: files that do not exist. `secret_problems`: what is wrong with files that hold secrets, by path in the stack file.
    Some values may be missing while a stack file is written; `at_up` makes them errors.
    If fields are invalid, the rules check the rest, and findings about the invalid parts are omitted.
    """
    cluster = loaded.cluster or loaded.valid_subset
    if cluster is None:
        return (*loaded.findings, *site_findings())
    case = RuleContext(cluster, loaded.stack, today, dict(other_stacks or {}), frozenset(missing_files), dict(secret_problems or {}))
    found = run_rules(case, at_up=at_up)
    return (*loaded.findings, *site_findings(), *(finding for finding in found if not _is_doubtful(finding, loaded)))


def _is_doubtful(finding: Finding, loaded: LoadedStack) -> bool:
    """Return whether the finding concerns an invalid part, something inside it, or the list or mapping that lacks it now."""
    around = (FieldPath(place.keys[:-1]) for place in loaded.invalid_paths)
    return any(_holds(str(place), finding.path) for place in loaded.invalid_paths) or finding.path in map(str, around)


def _holds(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
