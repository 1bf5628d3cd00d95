"""Cross-field rules: one module per subject, each rule registered by name. They collect findings and never raise. No I/O, no SDK."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date

from rackwright.catalog.site_findings import site_findings
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding
from rackwright.model.load import Loaded
from rackwright.rules import (
    access,
    accounts,
    aws_capacity,
    aws_disks,
    aws_fabric,
    aws_images,
    aws_instances,
    aws_network,
    aws_tags,
    budget,
    container_networks,
    cost,
    fabric,
    fabric_floor,
    fsx,
    fsx_repositories,
    gpus,
    groups,
    hosts,
    image_accounts,
    kubernetes,
    kubernetes_addons,
    kubernetes_network,
    names,
    network,
    node_stack,
    nodes,
    partitions,
    phases,
    pod_network,
    scheduler,
    software,
    software_versions,
    storage,
    tuning,
    users,
)
from rackwright.rules.registry import RULES, Case, Rule

__all__ = ["RULES", "Case", "Rule", "check", "examine"]

SUBJECTS = (
    *(names, network, groups, gpus, software, software_versions, storage, scheduler, accounts, partitions, access, users, nodes, hosts),
    *(image_accounts, container_networks),
    *(kubernetes, kubernetes_network, kubernetes_addons, pod_network),
    *(fabric, fabric_floor, phases, node_stack, tuning),
    *(aws_instances, aws_images, aws_disks, aws_network, aws_fabric, aws_capacity, aws_tags, fsx, fsx_repositories, budget, cost),
)
"""Importing a subject registers its rules; findings come in this order."""


def examine(case: Case, *, at_up: bool = False) -> Iterator[Finding]:
    """Yield the findings of all rules in a cluster whose fields are valid."""
    order = [subject.__name__ for subject in SUBJECTS]
    for rule in sorted(RULES.values(), key=lambda rule: order.index(rule.check.__module__)):
        yield from rule.findings(case, at_up=at_up)


def check(
    loaded: Loaded,
    today: date,
    neighbours: Mapping[str, Cluster] | None = None,
    *,
    at_up: bool = False,
    absent: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Return all findings about a description: field findings first, then those of the rules. `absent`: files that do not exist.

    Some values may be missing while a stack file is written; `at_up` makes them errors.
    If fields are invalid, the rules check the rest, and findings about the invalid parts are omitted.
    """
    cluster = loaded.cluster or loaded.rest
    if cluster is None:
        return (*loaded.findings, *site_findings())
    found = examine(Case(cluster, loaded.stack, today, dict(neighbours or {}), frozenset(absent)), at_up=at_up)
    return (*loaded.findings, *site_findings(), *(finding for finding in found if not _is_doubtful(finding, loaded)))


def _is_doubtful(finding: Finding, loaded: Loaded) -> bool:
    """Return whether the finding is about an invalid part, or something inside it."""
    return any(_holds(str(place), finding.path) for place in loaded.doubtful)


def _holds(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
