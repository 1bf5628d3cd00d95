"""Run on the node, imported by smoke_pods: test whether a namespace with the plan's NetworkPolicies keeps other pods out.

Python 3.9, standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_checks as checks
from rackwright.remote.programs import pod_manifests as manifests
from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

PATIENCE = 15
"""Seconds within which rules that the API server accepted must take effect: the network plugin receives them a moment later."""


def policies(run: Run, node: Object, other: Object, planned: Sequence[Object], account: Callable[[Api, str], None]) -> Object:
    """Run pods inside and outside of such a namespace; return what each reaches of the other. Retries until the result is as planned,
    or the time is up."""
    name = run.namespace + "-policies"
    run.api.post("/api/v1/namespaces", manifests.namespace(name, run.own))
    account(run.api, name)
    path = "/api/v1/namespaces/" + name
    for one in planned:
        run.api.post("/apis/networking.k8s.io/v1/namespaces/" + name + "/networkpolicies", manifests.policy(one))
    for pod, where in (("served", node), ("asking", other)):
        try:
            run.api.post(path + "/pods", manifests.pod(pod, ["serve"], run.request, where))
        except ApiRefusedError as refused:
            return {"error": str(refused)}
    at = _addresses(run, path)
    outside = "answers-" + other["name"]
    if len(at) < 2 or not run.until(lambda pods: checks.address(pods, outside), checks.POD_START_TIMEOUT):
        return {"error": "its pods do not run"}
    outside_address = checks.address(run.pods, outside)

    def within(words: Sequence[str]) -> Object:
        with run.spoken:
            return run.api.run_in(path + "/pods/asking", ["probe", *words], run.left(5))

    probes: dict[str, Callable[[], Object]] = {
        "inside": lambda: within(_get(at["served"])),
        "names": lambda: within(["lookup", *checks.LATEST, "kubernetes.default"]),
        "in": lambda: run.inside(outside, _get(at["served"])),
        "out": lambda: within(_get(outside_address)),
    }
    wanted = {"inside": True, "names": True, "in": False, "out": False}
    ends = time.monotonic() + run.left(PATIENCE)
    results: Object = {}
    while time.monotonic() < ends:
        results = {what: probe() for what, probe in probes.items()}
        if all((results[what]["rc"] == 0) == answers for what, answers in wanted.items()):
            break
        time.sleep(0.5)
    return results


def _get(address: str) -> list[str]:
    """Return the probe's command for one short attempt, since no response is expected."""
    return ["get", *checks.SOON, f"http://{address}:{manifests.PORT}/"]


def _addresses(run: Run, path: str) -> dict[str, str]:
    """Return the addresses of the namespace's pods by name, after they run."""
    ends = time.monotonic() + run.left(checks.POD_START_TIMEOUT)
    found: dict[str, str] = {}
    while len(found) < 2 and time.monotonic() < ends:
        pods = {one["metadata"]["name"]: one for one in run.api.get(path + "/pods")["items"]}
        found = {name: checks.address(pods, name) for name in pods if checks.address(pods, name)}
        time.sleep(0.3)
    return found
