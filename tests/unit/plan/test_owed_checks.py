"""Every check of the catalogue is owed on a stack of the repository, or its absence has a reason and a test of its own."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase

import pytest
from support.rows import each_row

from rackwright.catalog.checks import Level, checks
from rackwright.inventory import Host, inventory, paths
from rackwright.inventory.reader import from_inventory
from rackwright.plan import Plan, expand
from rackwright.report.check_plan import plan_checks
from rackwright.stackfile.load import load_stack

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk5tdQFZ8nOuT0aPYQ3mXrGqB7qk8pZVZ3oU5t9WnY"
ROOT = paths.stacks().parent
FILES = {
    file.name.removeprefix("Pulumi.").removesuffix(".yaml"): file
    for file in sorted(ROOT.glob("*/Pulumi.*.yaml")) + sorted(ROOT.glob("examples/*/Pulumi.*.yaml"))
}
"""Committed and example stacks by name."""
NFS = ("no committed stack serves NFS", "tests/e2e/storage/test_nfs.py")
SITE_PROMETHEUS = ("no committed stack names the Prometheus of a site", "tests/unit/probes/test_site_monitoring.py")
NOWHERE = {
    "amd_gpu.*": ("no committed stack has GPUs of AMD", "tests/unit/probes/test_amd_gpu.py"),
    "tuning.*": ("no committed stack declares tuning", "tests/e2e/node_stack/test_node_stack.py"),
    "storage.exports_match_plan": NFS,
    "storage.one_nfs_version_is_served": NFS,
    "storage.nfs_transport_matches_plan": ("no committed stack mounts NFS", "tests/unit/probes/test_nfs_transports.py"),
    "storage.users_have_access": ("no committed stack mounts existing file systems", "tests/unit/probes/test_existing_storage.py"),
    "node.threads_match_plan": ("no committed stack declares threads per core", "tests/unit/probes/test_threads.py"),
    "network.bonds_match_description": ("no committed stack declares bonds", "tests/unit/probes/test_links.py"),
    "network.vlans_match_description": ("no committed stack declares VLANs", "tests/unit/probes/test_links.py"),
    "gpu.mig_matches_plan": ("no committed stack divides its GPUs", "tests/unit/probes/test_mig.py"),
    "software.imex_domain_is_ready": ("no committed stack has racks with NVLink switch trays", "tests/unit/probes/test_imex.py"),
    "software.rack_fabric_is_ready": ("no committed stack has racks with NVLink switch trays", "tests/unit/probes/test_gpu_software.py"),
    "site_monitoring.prometheus_reads_node": SITE_PROMETHEUS,
    "site_monitoring.rules_are_loaded": SITE_PROMETHEUS,
    "site_monitoring.no_alert_fires": SITE_PROMETHEUS,
    "pods.policies_hold": ("no committed stack has a network that enforces policies", "tests/unit/probes/test_pods.py"),
}
"""Checks that no stack of the repository owes: why, and the file where they are tested instead."""


def plan_of(stack: str) -> Plan:
    """The plan of a stack as it is committed."""
    cluster = load_stack(FILES[stack]).cluster
    assert cluster is not None
    return expand(cluster, stack)


def owed(plan: Plan) -> frozenset[str]:
    """The checks that a run of all levels owes on a plan."""
    hosts = {node.name: Host(node.name, node.address, f"{KEY}{place} x", f"id-{node.name}") for place, node in enumerate(plan.nodes)}
    expected = plan_checks(from_inventory(inventory(plan, hosts)), checks(), Level.FULL).expected
    return frozenset(item.spec.key for item in expected.values())


@functools.cache
def anywhere() -> frozenset[str]:
    """The checks that any stack owes."""
    return frozenset().union(*(owed(plan_of(stack)) for stack in FILES))


@each_row("key", checks())
def test_check_is_owed_somewhere_or_has_a_reason(key: str) -> None:
    listed = any(fnmatchcase(key, pattern) for pattern in NOWHERE)
    assert (key in anywhere()) is not listed, "is owed on no stack and not listed" if not listed else "is listed, and a stack owes it"


@pytest.mark.parametrize("pattern", NOWHERE)
def test_reason_names_a_check_and_a_file(pattern: str) -> None:
    why, file = NOWHERE[pattern]
    keys = [key for key in checks() if fnmatchcase(key, pattern)]
    assert why and keys
    assert keys[0].split(".")[0] in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("stack", ["aws-cpu", "budget-vms", "rack-h100"])
def test_cores_are_confined_where_nodes_have_a_kernel_of_their_own(stack: str) -> None:
    assert {"jobs.cores_are_confined", "jobs.memory_is_confined"} <= owed(plan_of(stack))


@pytest.mark.parametrize("constrains", [("cores", "memory", "devices"), ("memory",), ()])
def test_lab_owes_what_its_machine_confines(constrains: tuple[str, ...]) -> None:
    plan = plan_of("lab-small")
    plan = plan.model_copy(update={"scheduler": plan.scheduler.model_copy(update={"constrains": constrains})})
    names = {"cores": "jobs.cores_are_confined", "memory": "jobs.memory_is_confined", "devices": "jobs.gpus_are_confined"}
    assert {part for part, key in names.items() if key in owed(plan)} == set(constrains)
