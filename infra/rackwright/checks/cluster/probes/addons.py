"""What the API server says of addons: whether they run, whether their hooks answer, what nodes use. Asked of the controllers alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from rackwright.checks.cluster.harness.probe import Place, Probe
from rackwright.checks.cluster.probes.kubernetes import QUEUED, parse_objects, path_of, query

HOOKED = ("jobset", "kueue")
"""Addons with admission webhooks."""


def deployment(addon: dict[str, Any]) -> str:
    """Where what runs it lies in the API."""
    return f"/apis/apps/v1/namespaces/{addon['namespace']}/deployments/{addon['deployment']}"


def _planned(place: Place) -> list[dict[str, Any]]:
    planned: list[dict[str, Any]] = place.declared.cluster["scheduler"]["addons"]
    return planned


@dataclass(frozen=True)
class Running:
    """A Deployment: how many it should have, how many are available, of which image."""

    asked: int
    available: int
    image: str


def parse_deployments(text: str) -> dict[str, Running | None]:
    """By path; None where there is none."""
    found: dict[str, Any] = json.loads(text)
    if not found:
        raise ValueError("no Deployment is listed")
    return {path: _running(one) if one else None for path, one in found.items()}


def _running(one: dict[str, Any]) -> Running:
    spec = one["spec"]
    return Running(spec["replicas"], one.get("status", {}).get("availableReplicas", 0), spec["template"]["spec"]["containers"][0]["image"])


DEPLOYMENTS = Probe(
    "addon-deployments",
    on="kube_control_plane",
    command=lambda place: query("objects", *map(deployment, _planned(place))),
    parse=cache(parse_deployments),
)


def _queues(place: Place) -> str:
    planned = [one for one in place.declared.cluster["scheduler"]["objects"] if one["kind"] in QUEUED]
    return query("objects", *map(path_of, planned))


QUEUES = Probe("addon-queues", on="kube_control_plane", command=_queues, parse=cache(parse_objects))


def parse_hooks(text: str) -> dict[str, str]:
    """By addon: what its hooks added to what was tried, in words; what was refused, and why."""
    found: dict[str, Any] = json.loads(text)
    if not found:
        raise ValueError("no hook was tested")
    return {name: _added(name, one) for name, one in found.items()}


def _added(name: str, one: dict[str, Any]) -> str:
    if "refused" in one:
        return str(one["refused"])
    if name == "kueue":
        return "answers" if "kueue.x-k8s.io/resource-in-use" in one["metadata"].get("finalizers", ()) else "adds no finalizer"
    jobs = one["spec"]["replicatedJobs"]
    modes = {each["template"]["spec"].get("completionMode", "none") for each in jobs}
    return "answers" if modes == {"Indexed"} else "gives its jobs no index"


HOOKS = Probe(
    "addon-hooks",
    on="kube_control_plane",
    command=lambda place: query("hooks", *(one["name"] for one in _planned(place) if one["name"] in HOOKED)),
    parse=cache(parse_hooks),
)


@dataclass(frozen=True)
class Measured:
    """What metrics-server tells: the age, in seconds, of each node's figures; why it tells nothing."""

    trouble: str
    ages: dict[str, float]


def parse_measurements(text: str) -> Measured:
    """Nodes with figures of CPU and memory."""
    found: dict[str, Any] = json.loads(text)
    complete = {name: one["age"] for name, one in found["nodes"].items() if one["cpu"] and one["memory"]}
    return Measured(found["trouble"], complete)


MEASUREMENTS = Probe("addon-measurements", on="kube_control_plane", command=query("measurements"), parse=cache(parse_measurements))
