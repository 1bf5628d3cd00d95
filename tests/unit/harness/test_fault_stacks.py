"""Every row of a check's fault can run in a lab, or its reason and the test in place of it are stated."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
from faults.fault_table import Fault, faults
from support.rows import each_row

from rackwright.catalog.checks import Feature
from rackwright.inventory import Host, inventory, paths
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.plan import expand
from rackwright.stackfile.load import load_stack

ROOT = Path(__file__).parents[3]
OF_MACHINE = frozenset({Feature.CONSTRAINED_MEMORY, Feature.CONSTRAINED_CORES, Feature.CONSTRAINED_DEVICES})
"""Features that a lab has on machines with cgroup v2 only."""
TOOLS = "tests/components/test_faults_of_real_gpus.py"
RAILS = ("rails are cards of virtual machines, and labs are containers", "tests/unit/probes/test_rails.py")
NFS = ("the kernel's NFS server does not run in a container", "tests/e2e/storage/test_nfs.py")
SITE = ("no Prometheus of a site reads a lab", "tests/unit/probes/test_site_monitoring.py")
WITHOUT_LAB = {
    "amd_gpu.*": ("no lab simulates GPUs of AMD", TOOLS),
    "gpu.mig_matches_plan": ("simulated GPUs have no instances", TOOLS),
    "runner.*": ("no lab is a runner of GitHub", "tests/components/test_actions_runner.py"),
    "neuron.devices_match_plan": ("no lab simulates Inferentia", TOOLS),
    "node.disk_responds_in_time": ("the disk of a lab is that of the machine", "tests/unit/probes/test_disk_latency.py"),
    "node.no_disk_errors": ("the kernel log of a lab is that of the machine", "tests/unit/probes/test_disk_errors.py"),
    "node.threads_match_plan": ("threads per core are a setting of the machine", TOOLS),
    "network.*": ("the network of a lab is rackwright's own, and its nodes have no bond", TOOLS),
    "software.*": ("simulated GPUs have no software", TOOLS),
    "tuning.*": ("kernel settings are those of the machine", "tests/e2e/node_stack/test_node_stack.py"),
    "firewall.metadata_service_restricted": ("no lab has a metadata service", "tests/e2e/cloud/test_cloud_node.py"),
    "fabric.rail_addresses_match_plan": RAILS,
    "fabric.rails_carry_full_frames": RAILS,
    "fabric.gids_match_plan": RAILS,
    "storage.exports_match_plan": NFS,
    "storage.one_nfs_version_is_served": NFS,
    "storage.nfs_transport_matches_plan": (
        "the kernel's NFS client does not run in a container",
        "tests/unit/probes/test_nfs_transports.py",
    ),
    "storage.users_have_access": (
        "existing file systems are mounted by the kernel, which a container cannot do",
        "tests/unit/probes/test_existing_storage.py",
    ),
    "jobs.ssh_requires_job": ("Slurm has no control groups of its own in a container", "tests/unit/probes/test_ssh_access.py"),
    "slurm.login_daemon_runs": (
        "login nodes of the labs run slurmctld, which has the configuration",
        "tests/unit/probes/test_suspended_daemons.py",
    ),
    "pods.policies_hold": ("no network of a lab enforces policies", "tests/unit/probes/test_pods.py"),
    "site_monitoring.prometheus_reads_node": SITE,
    "site_monitoring.rules_are_loaded": SITE,
    "site_monitoring.no_alert_fires": SITE,
}
"""Rows that no lab of the repository can receive: why, and the file that tests the check in their place."""


@cache
def lab(stack: str) -> Inventory:
    """Return a committed stack with every node."""
    cluster = load_stack(paths.stacks() / f"Pulumi.{stack}.yaml").cluster
    assert cluster is not None
    plan = expand(cluster, stack)
    return from_inventory(inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", node.name) for node in plan.nodes}))


def is_received(fault: Fault) -> bool:
    """Return whether the stack of a row has every part that its check needs, and a node for the fault."""
    declared = lab(fault.stack)
    return set(fault.spec.needs) - OF_MACHINE <= declared.features and bool(fault.nodes(declared))


@each_row("key", faults())
def test_row_runs_in_a_lab_or_has_a_reason(key: str) -> None:
    stated = [pattern for pattern in WITHOUT_LAB if fnmatchcase(key, pattern)]
    assert is_received(faults()[key]) is (not stated), f"{key} on {faults()[key].stack}"


@pytest.mark.parametrize("key", WITHOUT_LAB)
def test_row_without_a_lab_has_a_test(key: str) -> None:
    names = [one.partition(".")[2] if "*" not in key else key.partition(".")[0] for one in faults() if fnmatchcase(one, key)]
    text = (ROOT / WITHOUT_LAB[key][1]).read_text(encoding="utf-8")
    assert names and all(name in text for name in names)
