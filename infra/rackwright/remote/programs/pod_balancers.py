"""Run on the node, imported by smoke_pods: a Service of type LoadBalancer in front of the pods that respond.

kube-proxy serves such an address on every node itself, announced or not. Only ARP shows whether the network would find it.
Python 3.9, standard library only.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import arp
from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

NAME = "balanced"
_OTHERS = 1.0
"""Seconds in which a second device may claim the address after the first. Chosen: ARP answers of a segment take milliseconds."""
_NODE = 2.0
"""Seconds in which a node must answer for its own address."""


def manifest() -> Object:
    """Return the Service: that of the node ports, with an address of the pool besides."""
    made = manifests.service(NAME)
    made["spec"]["type"] = "LoadBalancer"
    return made


def balancer(run: Run, nodes: Sequence[Object], behind: set[str]) -> Object:
    """Create the Service, request its address from this node and from a pod, and delete it."""
    path = run.path + "/services"
    try:
        run.api.post(path, manifest())
    except ApiRefusedError as refused:
        return {"address": "", "why": str(refused)}
    try:
        address = _assigned(run, path + "/" + NAME)
        if not address:
            return {"address": "", "why": _warning(run) or "no event reports a reason"}
        run.until(lambda pods: all(checks.address(pods, one) for one in behind), checks.POD_START_TIMEOUT)
        result: Object = {"address": address, "behind": []}
        if any(checks.address(run.pods, one) for one in behind):
            known = time.monotonic() + run.left(checks.KNOWN)
            result["announced"] = _announced(run, address)
            result["node"] = _ask_node(address, known)
            result["pod"] = _ask_pod(run, "answers-" + nodes[-1]["name"], address, known)
            result["behind"] = sorted(one for one in behind if checks.address(run.pods, one))  # Others may have started meanwhile.
        return result
    finally:
        run.api.delete(path + "/" + NAME)


def _assigned(run: Run, path: str) -> str:
    """Return the address that the Service gets; empty if it gets none in time."""
    ends = time.monotonic() + run.left(checks.KNOWN)
    while time.monotonic() < ends:
        found = ((run.api.get(path).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        if found:
            return str(found[0].get("ip") or "")
        time.sleep(0.2)
    return ""


def _warning(run: Run) -> str:
    """Return the last warning about the Service."""
    events = run.api.get(run.path + "/events?fieldSelector=type%3DWarning,involvedObject.name%3D" + NAME)["items"]
    return str(events[-1].get("message"))[:300] if events else ""


def _announced(run: Run, address: str) -> Object:
    """Return the nodes that answer ARP requests for an address; of another device, its hardware address."""
    try:
        found = arp.answers(address, run.left(checks.KNOWN), _OTHERS * manifests.SLOWNESS)
        names: dict[str, str] = {}
        for name, one in run.request["ports"].items():
            if set(found) <= set(names):
                break
            names.update(dict.fromkeys(arp.answers(one, _NODE * manifests.SLOWNESS), name))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"by": [], "said": str(error)}
    return {"by": [names.get(one, one) for one in found], "said": ""}


def _ask_node(address: str, known: float) -> Object:
    """Request an address from this node; retry while kube-proxy does not know it."""
    while True:
        try:
            with checks.OPENER.open(f"http://{address}:{manifests.PORT}/", timeout=2 * manifests.SLOWNESS) as answer:
                return {"rc": 0, "out": answer.read().decode("utf-8", "replace"), "said": ""}
        except OSError as error:
            if time.monotonic() > known:
                return {"rc": 1, "out": "", "said": str(getattr(error, "reason", error))}
        time.sleep(0.3)


def _ask_pod(run: Run, name: str, address: str, known: float) -> Object:
    """Request an address from a pod; retry while its node's kube-proxy does not know it."""
    while True:
        result = run.inside(name, ["get", *checks.SOON, f"http://{address}:{manifests.PORT}/"])
        if result["rc"] in (0, None) or time.monotonic() > known:
            return result
        time.sleep(0.3)
