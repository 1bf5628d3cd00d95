"""The configuration of the API server that an add-on needs."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
import yaml

from rackwright.inventory import paths

TEMPLATE = paths.stacks().parent / "roles/kube_control_plane/templates/etc/kubernetes/rackwright/kubeadm.yaml.j2"


def arguments(addons: list[str]) -> dict[str, str]:
    """Return the arguments of the API server in a cluster with these add-ons."""
    cluster: dict[str, Any] = {"controllers": [], "cni": "bridge", "addons": [{"name": name} for name in addons]}
    variables = {"kube_control_plane_cluster": cluster, "kube_control_plane_hosts": [], "kube_control_plane_node": {"roles": []}}
    text = jinja2.Environment(trim_blocks=True).from_string(TEMPLATE.read_text(encoding="utf-8")).render(variables)
    found = {one["kind"]: one for one in yaml.safe_load_all(text)}
    return {one["name"]: one["value"] for one in found["ClusterConfiguration"]["apiServer"]["extraArgs"]}


@pytest.mark.parametrize(
    ("addons", "served"), [([], None), (["jobset"], None), (["jobset", "dra-example-driver"], "resource.k8s.io/v1beta1=true")]
)
def test_beta_version_is_served_for_the_driver_that_speaks_it(addons: list[str], served: str | None) -> None:
    assert arguments(addons).get("runtime-config") == served
