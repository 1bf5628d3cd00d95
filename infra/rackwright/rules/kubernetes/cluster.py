"""Kubernetes: control plane, release, namespaces. Another module has the rules for its addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rackwright.catalog.kubernetes import bundled_releases, containerd, lab_releases, releases, support_ends
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role
from rackwright.model.scheduler.kubernetes import Source
from rackwright.rules.registry import RuleContext, Violation, rule

_RESERVED: Final = re.compile(r"default|kube-.*")
_CGROUP_V2: Final = (1, 35)
"""The first release whose kubelet does not start on cgroup v1 by default, and whose kubeadm refuses it (KEP-5573)."""
_CONTAINERD_2: Final = (1, 38)
"""The first release without support for containerd 1.x: its kubelet requires RuntimeConfig of the CRI (KEP-4033; kubelet/app/server.go
of 1.35.3, 1.36.2 and 1.37.1 still use the cgroupDriver of their configuration)."""
_OLDEST_CONTAINERD: Final = (1, 7)
"""The oldest supported release: older ones have ended, and their static pods were never run here."""


@rule("kubernetes-controllers-even")
def kubernetes_controllers_even(case: RuleContext) -> Iterator[Violation]:
    """Of two etcd members both must run: one more that can fail, without a benefit."""
    names = [member.name for member in case.with_role(Role.CONTROLLER)]
    if case.kubernetes is not None and names and len(names) % 2 == 0:
        cause = f"{len(names)} controllers ({', '.join(names)}) survive the loss of no more members than {len(names) - 1} controllers"
        yield Violation("groups", cause, f"use {len(names) - 1} or {len(names) + 1}")


@rule("kubernetes-endpoint-missing")
def kubernetes_endpoint_missing(case: RuleContext) -> Iterator[Violation]:
    """Nodes would connect to one controller's own address, and lose the cluster with this controller."""
    names = [member.name for member in case.with_role(Role.CONTROLLER)]
    if case.kubernetes is not None and len(names) > 1 and case.kubernetes.control_plane_vip is None:
        cause = f"{len(names)} controllers require a common address"
        hint = "set a free address of network.cidr below the groups' addresses; it cannot be added later, because every node stores it"
        yield Violation("scheduler.control_plane_vip", cause, hint)


@rule("kubernetes-version")
def kubernetes_version(case: RuleContext) -> Iterator[Violation]:
    """The catalogue lists the images of each release."""
    declared = case.kubernetes
    if declared is not None and declared.version not in releases():
        near = [version for version in releases() if _minor(version) == _minor(declared.version)]
        hint = f"use {' or '.join(near)}" if near else f"use one of {', '.join(releases())}"
        yield Violation("scheduler.version", f"`{declared.version}` is not in the catalogue of releases", hint)


@rule("kubernetes-end-of-life", Severity.WARNING)
def kubernetes_end_of_life(case: RuleContext) -> Iterator[Violation]:
    """A release out of support gets no security fixes."""
    declared = case.kubernetes
    if declared is None or declared.version not in releases():
        return
    ended = support_ends(declared.version)
    if ended < case.today:
        supported = [version for version in _available(case) if support_ends(version) >= case.today]
        cause = f"support of Kubernetes {declared.version} ended on {ended:%Y-%m-%d} (kubernetes.io/releases)"
        run = [version for version in supported if version in lab_releases()]
        known = f"a lab ran {' and '.join(run)}" if run else "no lab ran any of them"
        hint = f"use one of {', '.join(supported)} ({known})" if supported else "update the catalogue of releases"
        yield Violation("scheduler.version", cause, hint)


@rule("kubernetes-bundle-release")
def kubernetes_bundle_release(case: RuleContext) -> Iterator[Violation]:
    """The bundle is built from pinned modules, which tools/kubernetes has of some releases."""
    declared = case.kubernetes
    if declared is None or declared.version not in releases() or not _from_bundle(case) or declared.version in bundled_releases():
        return
    cause = f"tools/kubernetes has no modules of Kubernetes {declared.version}, and this stack installs it from the bundle"
    hint = f"use one of {', '.join(bundled_releases())}"
    yield Violation("scheduler.version", cause, hint if case.cluster.target.publishes_ports else f"{hint}, or `install_from: packages`")


@rule("kubernetes-cgroups", Severity.WARNING)
def kubernetes_cgroups(case: RuleContext) -> Iterator[Violation]:
    """The lab's nodes use this machine's cgroups."""
    declared = case.kubernetes
    if declared is None or declared.version in lab_releases():
        return
    if case.cluster.target.publishes_ports and _minor(declared.version) >= _CGROUP_V2:
        cause = (
            f"the kubelet of {declared.version} supports cgroup v1 only with failCgroupV1: false. Lab nodes set it, because they use this "
            "machine's cgroups; no lab with this release was ever run"
        )
        yield Violation(
            "scheduler.version", cause, f"check that `stat -fc %T /sys/fs/cgroup` prints cgroup2fs, or use {' or '.join(lab_releases())}"
        )


@rule("kubernetes-containerd")
def kubernetes_containerd(case: RuleContext) -> Iterator[Violation]:
    """The kubelet uses the containerd that its operating system packages."""
    declared = case.kubernetes
    if declared is None:
        return
    carrying = [member for member in case.members if {Role.CONTROLLER, Role.WORKER} & set(member.roles)]
    for os in sorted({case.cluster.target.os_of(member.name) for member in carrying}):
        found = containerd(os)
        if found is None:
            continue
        if _minor(found) < _OLDEST_CONTAINERD:
            yield Violation("target.os", f"{os} has containerd {found}, whose support has ended", "use debian-13")
        elif _minor(found) < (2, 0) and _minor(declared.version) >= _CONTAINERD_2:
            cause = f"{declared.version} requires containerd 2, and {os} has {found}"
            yield Violation("scheduler.version", cause, "use 1.37 or older, or a system with containerd 2")


@rule("kubernetes-source-lab", Severity.WARNING)
def kubernetes_source_lab(case: RuleContext) -> Iterator[Violation]:
    """The lab's image is prebuilt: its content must be reachable from this machine."""
    declared = case.kubernetes
    if declared is not None and case.cluster.target.publishes_ports and declared.install_from is Source.PACKAGES:
        cause = "requires the vendor's repository and registry, which were never tested with the lab"
        yield Violation("scheduler.install_from", cause, "omit it: the lab builds its own bundle")


@rule("kubernetes-accounting", Severity.WARNING)
def kubernetes_accounting(case: RuleContext) -> Iterator[Violation]:
    """Accounting is Slurm's database of jobs."""
    names = [member.name for member in case.with_role(Role.ACCOUNTING)]
    if case.kubernetes is not None and names:
        yield Violation("groups", f"{', '.join(names)} has the role accounting, which Kubernetes does not use", "remove the role")


@rule("namespace-reserved")
def namespace_reserved(case: RuleContext) -> Iterator[Violation]:
    """Kubernetes has its own namespaces, and reserves a prefix for further ones."""
    for name in case.kubernetes.namespaces if case.kubernetes else ():
        if _RESERVED.fullmatch(name):
            yield Violation(
                f"scheduler.namespaces.{name}",
                "the name is reserved by Kubernetes",
                "choose a name other than `default`, without the prefix kube-",
            )


@rule("namespace-user")
def namespace_user(case: RuleContext) -> Iterator[Violation]:
    """A binding to an undeclared user grants access to a later user of the same name."""
    for name, namespace in case.kubernetes.namespaces.items() if case.kubernetes else ():
        for index, user in enumerate(namespace.users):
            if user not in case.cluster.users:
                hint = did_you_mean(user, case.cluster.users) or "declare the user under users"
                yield Violation(f"scheduler.namespaces.{name}.users[{index}]", f"there is no user `{user}`", hint)


@rule("namespace-gpus", Severity.WARNING)
def namespace_gpus(case: RuleContext) -> Iterator[Violation]:
    """A quota above the number of GPUs in the cluster has no effect."""
    there = sum(member.gpus.count for member in case.with_role(Role.WORKER) if member.gpus)
    for name, namespace in case.kubernetes.namespaces.items() if case.kubernetes else ():
        if namespace.gpus is not None and namespace.gpus > there:
            cause = f"{namespace.gpus} GPUs are more than the cluster's {there}"
            yield Violation(f"scheduler.namespaces.{name}.gpus", cause, f"use {there} or fewer, or omit it")


@rule("namespace-claim")
def namespace_claim(case: RuleContext) -> Iterator[Violation]:
    """A claim is a folder on the cluster's first shared file system."""
    for name, namespace in case.kubernetes.namespaces.items() if case.kubernetes else ():
        if namespace.shared_volume is not None and not case.cluster.storage:
            yield Violation(f"scheduler.namespaces.{name}.shared_volume", "there is no shared file system", "declare one under storage")


def _from_bundle(case: RuleContext) -> bool:
    assert case.kubernetes is not None
    source = case.kubernetes.install_from
    return source is Source.BUNDLE or (source is Source.AUTO and case.cluster.target.publishes_ports)


def _available(case: RuleContext) -> tuple[str, ...]:
    """Return the releases that this stack can select."""
    return bundled_releases() if _from_bundle(case) else releases()


def _minor(version: str) -> tuple[int, int]:
    first, second, *_ = version.split(".")
    return int(first), int(second)
