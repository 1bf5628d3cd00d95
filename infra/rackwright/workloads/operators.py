"""Values of operators' Helm charts for nodes whose drivers the roles install: an operator's own drivers would conflict with them."""

from __future__ import annotations

from typing import Any

from rackwright.errors import InputError
from rackwright.workloads.network import selector
from rackwright.workloads.site import RDMA, Site

Object = dict[str, Any]


def gpu_operator(site: Site) -> list[Object]:
    """Return values for a host with driver, toolkit and DCGM. Remove the plan's own device plugin first: both register the same name."""
    stack = site.plan.software
    return [
        {
            "driver": {"enabled": False, "rdma": {"enabled": False}},
            "toolkit": {"enabled": False},
            "cdi": {"enabled": True},
            "dcgm": {"enabled": stack is None},
            "dcgmExporter": {"enabled": True},
            "devicePlugin": {"enabled": True},
            "migManager": {"enabled": False},
            "nfd": {"enabled": True},
            "operator": {"runtimeClass": "nvidia"},
        }
    ]


def network_operator(site: Site) -> list[Object]:
    """Return values for a host with DOCA-OFED or the distribution's drivers: the operator deploys none, and pods share cards."""
    device = {"resourceName": RDMA.partition("/")[2], "rdmaHcaMax": 1000, "selectors": selector(site)}
    return [
        {
            "nfd": {"enabled": True},
            "sriovNetworkOperator": {"enabled": False},
            "deployCR": True,
            "ofedDriver": {"deploy": False},
            "rdmaSharedDevicePlugin": {"deploy": True, "resources": [_named(device)]},
            "secondaryNetwork": {"deploy": False},
        }
    ]


def efa_plugin(site: Site) -> list[Object]:
    """Return values of the EFA plugin. Pods then request `vpc.amazonaws.com/efa`; the host has the driver."""
    if site.plan.target.kind != "aws":
        raise InputError(f"target {site.plan.target.kind} has no EFA", hint="use rdma-plugin on InfiniBand and RoCE")
    return [{"tolerations": [{"operator": "Exists"}], "nodeSelector": {"nvidia.com/gpu.present": "true"}}]


def _named(device: Object) -> Object:
    return {"name": device["resourceName"], **device["selectors"]}
