"""The container runtime of every node of Kubernetes runs, and agrees with the kubelet."""

from __future__ import annotations

from collections import Counter

from cluster.probes.kubelet import RUNTIME
from cluster.probes.kubernetes import KUBELETS
from cluster.probes.units import CONTAINERD, UNITS
from rackwright.errors import CouldNotTell


def test_runs(ask, expect):
    """The daemon, as systemd sees it: pods go on without it, and no new one starts."""
    unit = ask(UNITS)[CONTAINERD]
    expect(unit.described, "active", holds=unit.state == "active")


def test_starts_with_the_node(ask, expect):
    """A runtime that was started by hand is gone after the next boot."""
    unit = ask(UNITS)[CONTAINERD]
    expect("enabled" if unit.enabled else "disabled", "enabled")


def test_version_is_the_same_everywhere(ask, members, expect):
    """Nodes whose images start differently are found by the users otherwise."""
    found = {}
    for name in members("kubernetes"):
        try:
            found[name] = ask(RUNTIME, of=name).version
        except CouldNotTell:  # that node's own check says so
            continue
    expect(ask(RUNTIME).version, Counter(found.values()).most_common(1)[0][0])


def test_cgroup_driver_is_the_kubelets(ask, node, cluster, expect):
    """Two that manage control groups each in their own way lose pods under memory pressure."""
    kubelet = ask(KUBELETS, of=cluster.scheduler.controllers[0])[node.name]
    if isinstance(kubelet, str):
        raise CouldNotTell(f"the kubelet does not tell its configuration: {kubelet}")
    expect("systemd" if ask(RUNTIME).systemd_cgroup else "cgroupfs", kubelet["cgroupDriver"])


def test_reads_the_planned_networks(ask, expect):
    """Where it looks for the pods' network; from another folder it would take another network, or none."""
    expect(ask(RUNTIME).network_folder, "/etc/cni/net.d")
