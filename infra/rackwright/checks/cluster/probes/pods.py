"""Smoke run of a Kubernetes cluster: pods on all idle workers in parallel, and the results of each pod on its node."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import NodeBusyError, Probe, ProbeContext, ProbeStage
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, answer_of
from rackwright.checks.cluster.probes.smoke import gpus_to_ask
from rackwright.errors import UndeterminedError
from rackwright.remote.command import python_command, source
from rackwright.remote.programs import pod_jobs

_SECONDS: Final = 100
"""Seconds after which the run begins to delete its objects."""
_LEVEL: Final = "pod-security.kubernetes.io/enforce"
_NEEDS_MORE: Final = frozenset({"gpus", "storage", "device"})
"""Parts whose pods request a resource. If other pods run and these do not, the resource is the likely cause."""
_NONE_VISIBLE: Final = (None, "", "none", "void")
"""Values of NVIDIA_VISIBLE_DEVICES without a GPU (NVIDIA Container Toolkit, "Environment variables")."""


@dataclass(frozen=True)
class PodOutput:
    """Result of a command in a pod: exit status and output; None where the command did not start."""

    rc: int | None
    out: str
    error: str

    @property
    def answer(self) -> str | UnreadableValue:
        """Return the output, or the error; UnreadableValue for a time-out. Raise UndeterminedError if the command did not run."""
        if self.rc is None:
            raise UndeterminedError(f"no command could run in the pod: {self.error}")
        return self.out.strip() if self.rc == 0 else answer_of("from the pod", self.error or f"status {self.rc}")


@dataclass(frozen=True)
class Devices:
    """The GPUs that are visible in a pod."""

    visible: tuple[str, ...]
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.files)} device files, {len(self.visible)} visible"


@dataclass(frozen=True)
class Pods:
    """Results of the whole run."""

    data: Mapping[str, Any]

    def part(self, node: str, part: str) -> Mapping[str, Any]:
        """Return the result of one part on a node. Raise UndeterminedError where it takes no pods, NodeBusy where its GPUs are in use."""
        state = self.data["states"].get(node, "it did not respond, so no pod was created on it")
        if state:
            raise UndeterminedError(f"node not usable: {state}")
        if part == "gpus" and node in self.data["busy"]:
            raise NodeBusyError
        found = self.data["nodes"].get(node, {})
        if part not in found:
            raise UndeterminedError(f"the run has no {part} of {node}")
        if part in _NEEDS_MORE and found["plain"]["phase"] != "Succeeded":
            raise UndeterminedError(f"no pod runs on this node: {found['plain']['why'] or found['plain']['phase']}")
        return found[part]  # type: ignore[no-any-return]

    def network(self, node: str) -> Mapping[str, Any]:
        """Return the result of the pod that listens on a node. Raise UndeterminedError where the pod does not run."""
        return _running(self.part(node, "network"), "reach")

    def storage(self, node: str) -> Mapping[str, Any]:
        """Return the result of the pod with the claim on a node. Raise UndeterminedError where the pod does not run."""
        return self.part(node, "storage")

    def port(self, node: str) -> Mapping[str, Any]:
        """Return what responded on the port of a node."""
        found = self.data["ports"].get(node)
        if not found or not found["behind"]:
            raise UndeterminedError("no pod ran that could answer")
        return found  # type: ignore[no-any-return]


def _running(part: Mapping[str, Any], proof: str) -> Mapping[str, Any]:
    if proof not in part:
        raise UndeterminedError(f"the pod does not run: {part['pod']['why'] or part['pod']['phase']}")
    return part


def pod_output(data: Mapping[str, Any]) -> PodOutput:
    """Return the result of a command in a pod."""
    return PodOutput(data["rc"], data["out"], data["said"])


def rank_environment(replica: str) -> dict[str, str]:
    """Return the variables that the training operator must give a container of the run's PyTorchJob.

    Sources: pkg/controller.v1/pytorch (envvar.go, master.go); port: PyTorchJobDefaultPort.
    """
    rank = "0" if replica == "master" else "1"
    address = {"ADDR": pod_jobs.PODS["master"], "PORT": "23456"}
    return {
        **{f"{prefix}MASTER_{key}": value for prefix in ("", "PET_") for key, value in address.items()},
        "WORLD_SIZE": "2",
        "RANK": rank,
        "PET_NNODES": "2",
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": "1",
    }


def parse_devices(text: str) -> Devices:
    """Return the GPUs from the output of `probe devices`.

    >>> str(parse_devices('{"visible": "0,1", "files": ["/dev/nvidia0", "/dev/nvidia1"], "rdma": []}'))
    '2 device files, 2 visible'
    """
    data = json.loads(text)
    visible = () if data["visible"] in _NONE_VISIBLE else tuple(data["visible"].split(","))
    return Devices(visible, tuple(data["files"]))


def parse_pods(text: str) -> Pods:
    """Return the results from the JSON document that the run prints last."""
    data = json.loads(text.strip().splitlines()[-1])
    if not {"states", "nodes", "namespaces", "ports", "busy", "privileged"} <= set(data):
        raise ValueError("the run did not finish")
    return Pods(data)


def _request(context: ProbeContext) -> dict[str, Any]:
    scheduler = context.declared.cluster["scheduler"]
    workers = [
        one
        for one in scheduler["nodes"]
        if one["runs_workloads"] and one["name"] in context.declared.nodes and context.is_reachable(one["name"])
    ]
    inside = [one for one in scheduler["nodes"] if one["name"] in context.declared.nodes]
    mount = _shared(context, {one["name"] for one in workers} | {context.node["name"]})
    addons = {one["name"] for one in scheduler.get("addons") or ()}
    return {
        "token": os.urandom(4).hex(),
        "image": scheduler["probe_image"],
        "nodes": [
            {"name": one["name"], "gpus": one["gpus"], "first": gpus_to_ask([one["gpus"]])[0], "taints": list(one["taints"])}
            for one in workers
        ],
        "ports": {one["name"]: one["address"] for one in inside},
        "namespaces": _namespaces(scheduler),
        "policies": _policies(scheduler),
        "groups": "leaderworkerset" in addons,
        "claims": "dra-example-driver" in addons,
        "training": _training(scheduler),
        "balancers": "metallb" in addons,
        "scaling": "keda" in addons,
        "storage": mount,
        "outside": _outside(context) if context.declared.cluster["network"].get("gateway") else [],
        "seconds": _SECONDS,
    }


def _training(scheduler: Mapping[str, Any]) -> dict[str, str] | None:
    """Return image and program of the PyTorchJob; None without the add-on that runs it."""
    listed = {one["name"] for one in scheduler.get("addons") or ()}
    return {"image": scheduler["jobs"], "program": source("job_rendezvous")} if "training-operator" in listed else None


def _outside(context: ProbeContext) -> list[str]:
    """Return names for name servers outside the cluster: podman's resolve names of containers, those of a site names of machines."""
    name = context.node["name"]
    return [f"{context.declared.stack}-{name}.dns.podman", f"{context.declared.stack}-{name}", context.node["fqdn"]]


def _namespaces(scheduler: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned namespaces as they are applied: labels and quota."""
    names = [one["name"] for one in scheduler["namespaces"]]
    made = [one for one in scheduler["objects"] if one["kind"] == "Namespace" and one["metadata"]["name"] in names]
    hard = {one["metadata"]["namespace"]: one["spec"]["hard"] for one in scheduler["objects"] if one["kind"] == "ResourceQuota"}
    found = []
    for one in made:
        name, labels = one["metadata"]["name"], one["metadata"]["labels"]
        found.append({"name": name, "labels": labels, "level": labels.get(_LEVEL, "privileged"), "hard": hard.get(name)})
    return found


def _policies(scheduler: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the NetworkPolicies of the first namespace with some, where the network enforces them: all namespaces have the same."""
    made = (
        [one for one in scheduler["objects"] if one["kind"] == "NetworkPolicy"] if scheduler["network"]["enforces_network_policy"] else []
    )
    first = next((one["metadata"]["namespace"] for one in made), None)
    return [{"name": one["metadata"]["name"], "spec": one["spec"]} for one in made if one["metadata"]["namespace"] == first]


def _shared(context: ProbeContext, needed: set[str]) -> str | None:
    """Return the mount point of the file system of claims; None where a node of the run does not have it."""
    first = next(iter(context.declared.cluster.get("storage") or ()), None)
    return str(first["mount"]) if first and context.declared.cluster["scheduler"]["folders"] and needed <= set(first["clients"]) else None


def _command(context: ProbeContext) -> str:
    if context.declared.cluster["scheduler"]["kind"] != "kubernetes":
        raise UndeterminedError("the cluster does not run Kubernetes")
    if not context.declared.cluster["scheduler"]["probe_image"]:
        raise UndeterminedError("no image for the checks: only the bundle contains it")
    return python_command("smoke_pods", _request(context))


PODS: Final = Probe("pods", on="@control", command=_command, parse=parse_pods, timeout=115, stage=ProbeStage.JOBS)


def parse_remaining_pods(text: str) -> tuple[str, ...]:
    """Return the paths that pods did not remove."""
    found = text.split()
    if not text or not all(path.startswith("/") for path in found):  # echo prints a line end even without paths
        raise ValueError("not every line is a path")
    return tuple(found)


def _leftovers_command(context: ProbeContext) -> str:
    found = context.earlier_result(PODS, context.declared.members("@control")[0]).data["nodes"].get(context.node["name"], {})
    pods = [found.get("plain"), *(found.get("gpus", {}).get(part) for part in ("first", "second"))]
    uids = [pod["uid"] for pod in pods if pod and pod["uid"]]
    if not uids:
        raise UndeterminedError("no pod of the run has ended here")
    kept = " ".join(f"/var/lib/kubelet/pods/{uid}" for uid in uids)
    groups = " -o ".join(f"-name '*{uid.replace('-', '_')}*' -o -name '*{uid}*'" for uid in uids)
    command = f"ls -d {kept} 2>/dev/null; find /sys/fs/cgroup -type d \\( {groups} \\) 2>/dev/null"
    wait = f'for _ in $(seq 20); do left=$({command}); [ -n "$left" ] || break; sleep 0.3; done; echo $left'
    return f"command -v find >/dev/null || exit 127; {wait}"


REMAINING_PODS: Final = Probe(
    "pods-left", on="kubernetes_worker", command=_leftovers_command, parse=parse_remaining_pods, timeout=15, stage=ProbeStage.AFTER_JOBS
)
