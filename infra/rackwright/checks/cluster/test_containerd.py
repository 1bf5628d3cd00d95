"""The container runtime of every Kubernetes node runs and matches the kubelet."""

from __future__ import annotations

from collections import Counter

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.kubelet import IMAGES, RUNTIME
from rackwright.checks.cluster.probes.kubernetes import KUBELETS
from rackwright.checks.cluster.probes.units import CONTAINERD, UNITS
from rackwright.errors import UndeterminedError


def test_runs(ask: Ask, expect: Expect) -> None:
    """State of the daemon in systemd: without it, running pods continue, but no new pod starts."""
    unit = ask(UNITS)[CONTAINERD]
    expect(unit.described, "active", holds=unit.state == "active")


def test_starts_with_the_node(ask: Ask, expect: Expect) -> None:
    """A runtime that was started by hand does not return after the next boot."""
    unit = ask(UNITS)[CONTAINERD]
    expect("enabled" if unit.enabled else "disabled", "enabled")


def test_version_is_the_same_everywhere(ask: Ask, members: Members, expect: Expect) -> None:
    """With unequal versions, the same image can start differently on different nodes."""
    found = {}
    for name in members("kubernetes"):
        try:
            found[name] = ask(RUNTIME, of=name).version
        except UndeterminedError:  # the check of that node reports the error
            continue
    expect(ask(RUNTIME).version, Counter(found.values()).most_common(1)[0][0])


def test_cgroup_driver_is_the_kubelets(ask: Ask, node: Record, cluster: Record, expect: Expect) -> None:
    """Two different cgroup managers on one node lose pods under memory pressure."""
    kubelet = ask(KUBELETS, of=cluster.scheduler.controllers[0])[node.name]
    if isinstance(kubelet, str):
        raise UndeterminedError(f"the kubelet does not report its configuration: {kubelet}")
    found = {name: "systemd" if uses else "cgroupfs" for name, uses in ask(RUNTIME).systemd_cgroups.items()}
    if not found:
        raise UndeterminedError("no runtime of pods is configured that has a cgroup driver")
    expect(found, dict.fromkeys(found, kubelet["cgroupDriver"]))


def test_cni_config_loaded(ask: Ask, expect: Expect) -> None:
    """containerd reads the pod network's configuration here; from another folder it would load another network, or none."""
    expect(ask(RUNTIME).network_folder, "/etc/cni/net.d")


def test_workload_images_present(ask: Ask, cluster: Record, expect: Expect) -> None:
    """No registry has the image that `training_image: bundle` names: a pod on a node without it waits until its job gives up."""
    image, found = cluster.scheduler.training_image, ask(IMAGES)
    expect(image if image in found else f"no {image} among {len(found)} images", image)
