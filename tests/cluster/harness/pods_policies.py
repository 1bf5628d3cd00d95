"""Runs on a controller: whether a namespace with the plan's NetworkPolicies keeps others out. Sent as text, standard library only."""

import time

import pods_asked as asked
import pods_made as made
from pods_api import Refused

PATIENCE = 15
"""Seconds in which rules have to hold that the API server took: the network hears of them a moment later."""


def policies(run, node, other, planned, account):
    """Pods inside and outside such a namespace, and what each gets from the other; tried until it is as it should be, or for a while."""
    name = run.namespace + "-policies"
    run.api.post("/api/v1/namespaces", made.namespace(name, run.own))
    account(run.api, name)
    path = "/api/v1/namespaces/" + name
    for one in planned:
        run.api.post("/apis/networking.k8s.io/v1/namespaces/" + name + "/networkpolicies", made.policy(one))
    for pod, where in (("served", node), ("asking", other)):
        try:
            run.api.post(path + "/pods", made.pod(pod, ["serve"], run.request, where))
        except Refused as refused:
            return {"trouble": str(refused)}
    at = _addresses(run, path)
    outside = "answers-" + other["name"]
    if len(at) < 2 or not run.until(lambda pods: asked.address(pods, outside), asked.AT_MOST):
        return {"trouble": "its pods do not run"}
    theirs = asked.address(run.pods, outside)

    def within(words):
        with run.spoken:
            return run.api.run_in(path + "/pods/asking", ["probe", *words], run.left(5))

    looks = {
        "inside": lambda: within(_get(at["served"])),
        "names": lambda: within(["lookup", *asked.LATEST, "kubernetes.default"]),
        "in": lambda: run.inside(outside, _get(at["served"])),
        "out": lambda: within(_get(theirs)),
    }
    wanted = {"inside": True, "names": True, "in": False, "out": False}
    ends, told = time.monotonic() + run.left(PATIENCE), {}
    while time.monotonic() < ends:
        told = {what: look() for what, look in looks.items()}
        if all((told[what]["rc"] == 0) == answers for what, answers in wanted.items()):
            break
        time.sleep(0.5)
    return told


def _get(address):
    """Words of the probe: one try, short, since silence is what is hoped for."""
    return ["get", *asked.SOON, f"http://{address}:{made.PORT}/"]


def _addresses(run, path):
    """Where its pods answer, by name, once they run."""
    ends, found = time.monotonic() + run.left(asked.AT_MOST), {}
    while len(found) < 2 and time.monotonic() < ends:
        pods = {one["metadata"]["name"]: one for one in run.api.get(path + "/pods")["items"]}
        found = {name: asked.address(pods, name) for name in pods if asked.address(pods, name)}
        time.sleep(0.3)
    return found
