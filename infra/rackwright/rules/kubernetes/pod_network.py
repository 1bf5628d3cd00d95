"""Pod networks: supported encapsulations, requirements, packet sizes, manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.catalog.networks import default_cni, encapsulations, overhead, source, version
from rackwright.model.finding import Severity
from rackwright.model.scheduler.kubernetes import Cni, Encapsulation, Kubernetes
from rackwright.rules.registry import RuleContext, Violation, rule

_INSTALLED: Final = frozenset({Cni.CALICO, Cni.CILIUM})
"""Networks that are installed from their vendors' manifests."""
_SMALLEST: Final = 1280
"""Bytes that every path must carry for IPv6 (RFC 8200, 5); QUIC asks for 1200 of payload (RFC 9000, 14)."""
_PATH: Final = "scheduler.encapsulation"


@rule("pod-network-encapsulation")
def pod_network_encapsulation(case: RuleContext) -> Iterator[Violation]:
    """Each network supports some encapsulations."""
    declared, cni = case.kubernetes, _cni(case)
    known = encapsulations(cni)
    if declared is not None and declared.encapsulation is not None and declared.encapsulation not in known:
        cause = f"{cni.value} does not support {declared.encapsulation.value}"
        yield Violation(_PATH, cause, f"use one of {', '.join(one.value for one in known)}")


@rule("pod-network-segment")
def pod_network_segment(case: RuleContext) -> Iterator[Violation]:
    """Packets without encapsulation are sent to the address of the next node, which must be on the same segment."""
    declared = case.kubernetes
    if declared is not None and declared.encapsulation is Encapsulation.NONE and case.cluster.target.kind == "aws":
        cause = "nodes are in different subnets, between which a VPC drops pod traffic"
        yield Violation(_PATH, cause, "omit it, so that packets are encapsulated")


@rule("pod-network-mtu-large")
def pod_network_mtu_large(case: RuleContext) -> Iterator[Violation]:
    """Packets larger than the node network's MTU are dropped; the MTU of existing machines is unknown."""
    declared, target = case.kubernetes, case.cluster.target
    if declared is not None and declared.node_mtu is not None and target.owns_network and declared.node_mtu > target.mtu:
        cause = f"{declared.node_mtu} bytes are more than the {target.mtu} that target {target.kind} carries"
        yield Violation("scheduler.node_mtu", cause, f"use {target.mtu} or fewer, or omit it")


@rule("pod-network-mtu-small")
def pod_network_mtu_small(case: RuleContext) -> Iterator[Violation]:
    """The encapsulation leaves too little for the packets of pods."""
    declared = case.kubernetes
    if declared is None or declared.node_mtu is None:
        return
    takes = overhead(declared.encapsulation or encapsulations(_cni(case))[0])
    if declared.node_mtu - takes < _SMALLEST:
        cause = f"{declared.node_mtu} bytes minus {takes} for encapsulation leave pods fewer than {_SMALLEST}"
        yield Violation("scheduler.node_mtu", cause, f"use {_SMALLEST + takes} or more")


@rule("pod-network-manifests", Severity.WARNING, level_on_deploy=Severity.ERROR)
def pod_network_manifests(case: RuleContext) -> Iterator[Violation]:
    """The digests of these files are unknown, and only pinned files are applied."""
    cni = _cni(case)
    if case.kubernetes is not None and cni in _INSTALLED and not case.kubernetes.cni_manifests:
        cause = f"{cni.value} {version(cni)} is installed from files whose digests are unknown ({source(cni)})"
        yield Violation(
            "scheduler.cni_manifests", cause, "download the files and declare path and SHA-256 of each (docs/kubernetes.md), or use flannel"
        )


@rule("pod-network-manifests-unused")
def pod_network_manifests_unused(case: RuleContext) -> Iterator[Violation]:
    """A declared file that is never applied is misleading."""
    cni = _cni(case)
    if case.kubernetes is not None and cni not in _INSTALLED and case.kubernetes.cni_manifests:
        yield Violation("scheduler.cni_manifests", f"{cni.value} is not installed from files", "remove them, or use calico or cilium")


@rule("pod-network-manifest-absent")
def pod_network_manifest_absent(case: RuleContext) -> Iterator[Violation]:
    """Otherwise the error would occur after the creation of nodes."""
    for index, manifest in enumerate(case.kubernetes.cni_manifests if case.kubernetes else ()):
        if manifest.file in case.missing_files:
            yield Violation(
                f"scheduler.cni_manifests[{index}].file",
                f"{manifest.file} is not a file of the project",
                "enter a path relative to the project's root",
            )


@rule("pod-network-lab", Severity.WARNING)
def pod_network_lab(case: RuleContext) -> Iterator[Violation]:
    """The bundle contains flannel; each node pulls the others, and no lab was ever created with them."""
    cni = _cni(case)
    if case.kubernetes is not None and case.cluster.target.publishes_ports and cni in _INSTALLED:
        yield Violation(
            "scheduler.cni", f"{cni.value} was never tested in the lab, and its images are not in the bundle", "use bridge or flannel"
        )


def _cni(case: RuleContext) -> Cni:
    """Return the network, the default included."""
    declared: Kubernetes | None = case.kubernetes
    return (declared.cni if declared else None) or default_cni(case.cluster.target.kind)
