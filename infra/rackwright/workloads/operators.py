"""Values of Helm charts of operators, for nodes whose drivers are ours: an operator that installs its own would fight the roles."""

from __future__ import annotations

from typing import Any

from rackwright.errors import InputError
from rackwright.workloads.network import selector
from rackwright.workloads.site import RDMA, Site

Object = dict[str, Any]


def gpu_operator(site: Site) -> list[Object]:
    """The host has driver, toolkit and DCGM. The plan's own device plugin must go before the operator's comes: both register one name."""
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
    """The host has DOCA-OFED or the distribution's drivers: none is deployed, and cards are shared between pods."""
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
    """Pods then ask for `vpc.amazonaws.com/efa`; the driver is the host's."""
    if site.plan.target.kind != "aws":
        raise InputError(f"target {site.plan.target.kind} has no EFA", hint="use rdma-plugin on InfiniBand and RoCE")
    return [{"tolerations": [{"operator": "Exists"}], "nodeSelector": {"nvidia.com/gpu.present": "true"}}]


def _named(device: Object) -> Object:
    return {"name": device["resourceName"], **device["selectors"]}
