"""Run on the node, imported by smoke_pods: run a pod that claims a device of a DRA driver (Dynamic Resource Allocation).

Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

CLASS = "gpu.example.com"
"""DeviceClass of the example driver."""
API = "/apis/resource.k8s.io/v1/namespaces/"
_VARIABLE = re.compile(r"GPU_DEVICE_\d+=(.+)")
"""Variable that the driver adds for each device (cmd/dra-example-kubeletplugin/state.go, applyConfig)."""


def template(name: str) -> Object:
    """Return a template of claims of one device."""
    requests = [{"name": "device", "exactly": {"deviceClassName": CLASS}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "labels": dict(manifests.OWNER)},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def claimed_device(run: Run, node: Object) -> Object:
    """Run a pod with a claim on a node; return which device the claim holds, and which ones the container was given."""
    name = "device-" + node["name"]
    pod = manifests.pod(name, ["sleep", "60"], run.request, node)
    pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": name}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    try:
        run.api.post(API + run.namespace + "/resourceclaimtemplates", template(name))
        refused = run.make(pod)
    except ApiRefusedError as error:
        refused = str(error)
    if refused or not run.until(lambda pods: checks.phase(pods, name) == "Running", checks.POD_START_TIMEOUT):
        found = dict(checks.seen(run.pods.get(name)), **({"why": refused} if refused else {}))
        run.drop(name)
        return {"pod": found}
    found = {"pod": checks.seen(run.pods.get(name)), "held": held(run, run.pods[name])}
    environment = run.inside(name, ["read", "/proc/self/environ"])
    found["given"] = sorted(_VARIABLE.findall(environment["out"].replace("\0", "\n")))
    found["environment"] = dict(environment, out="")
    run.drop(name)
    return found


def held(run: Run, pod: Object) -> list[str]:
    """Return the devices of the claims of a pod."""
    names = [one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses") or []]
    claims = [run.api.get(API + run.namespace + "/resourceclaims/" + name) for name in names if name]
    allocations = [(one.get("status") or {}).get("allocation") or {} for one in claims]
    return sorted(result["device"] for one in allocations for result in (one.get("devices") or {}).get("results") or [])
