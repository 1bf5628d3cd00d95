"""Preflight errors of kubeadm that the roles ignore, by release and by whose kernel it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.test.core import TestModule as CoreTests
from jinja2.nativetypes import NativeEnvironment

from rackwright.yaml_loader import load_yaml

ROLES = Path(__file__).parents[2] / "roles"
HTTP, SYSTEM = ["HTTPProxyCIDR"], ["SystemVerification"]


def rendered(role: str, variable: str, **variables: Any) -> Any:
    """Return the default of a variable."""
    environment = NativeEnvironment()
    environment.tests.update(CoreTests().tests())
    text = load_yaml((ROLES / role / "defaults" / "main.yml").read_text())[variable]
    return environment.from_string(text.strip()).render(**variables)


@pytest.mark.parametrize(
    ("version", "manages_kernel", "controller", "worker"),
    [
        ("1.34.1", False, HTTP, []),
        ("1.34.1", True, HTTP, []),
        ("1.35.3", False, SYSTEM, SYSTEM),
        ("1.35.3", True, [], []),
        ("1.37.1", False, SYSTEM, SYSTEM),
    ],
)
def test_preflight_errors_are_ignored_only_where_needed(version: str, manages_kernel: bool, controller: Any, worker: Any) -> None:
    """kubeadm 1.35 refuses cgroup v1 in SystemVerification; on machines of their own this must stay an error."""
    cluster = {"version": version}
    found = rendered(
        "kube_control_plane",
        "kube_control_plane_ignore_preflight_errors",
        kube_control_plane_cluster=cluster,
        kube_control_plane_manage_kernel=manages_kernel,
    )
    assert found == controller
    found = rendered(
        "kubernetes", "kubernetes_ignore_preflight_errors", kubernetes_cluster=cluster, kubernetes_manage_kernel=manages_kernel
    )
    assert found == worker


def test_pause_image_is_that_of_the_plan() -> None:
    plan = {"scheduler": {"pause_image": "registry.k8s.io/pause:3.10.2"}}
    assert rendered("containerd", "containerd_sandbox_image", cluster=plan) == "registry.k8s.io/pause:3.10.2"
