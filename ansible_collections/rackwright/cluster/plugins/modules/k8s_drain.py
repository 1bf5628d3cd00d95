"""Drain and uncordon Kubernetes nodes; running jobs finish, and cordons by an administrator stay.

Runs on a controller, as the cluster's administrator. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: k8s_drain
short_description: Drain and uncordon Kubernetes nodes
options:
  nodes: {type: list, elements: str, required: true, description: Names of the nodes.}
  state:
    description:
      - C(drained) cordons the nodes, evicts pods that their controllers will start on other nodes, and waits until jobs and single pods
        have ended. Pods that run longer than C(timeout) are an error that lists them; the nodes then stay cordoned, so that the next
        attempt has less to wait for.
      - C(resumed) waits until the nodes are Ready and uncordons nodes that rackwright cordoned. Nodes that were cordoned by others stay
        cordoned and are returned as C(held).
      - C(absent) deletes the Node objects.
      - Nodes unknown to the cluster are an error for C(resumed), and ignored otherwise.
    choices: [drained, resumed, absent]
    required: true
  reason: {type: str, default: leaving, description: "Reason, recorded as an annotation of the node."}
  timeout: {type: int, default: 60, description: Seconds to wait for pods to end (drained) or for nodes to be Ready (resumed).}
notes:
  - C(kubernetes.core.k8s_drain) does not wait for jobs that must not be evicted, and uncordons nodes that an administrator
    cordoned.
"""

EXAMPLES = r"""
- name: Drain two nodes before a reboot
  rackwright.cluster.k8s_drain:
    nodes: [worker0, worker1]
    state: drained
    reason: rolling
    timeout: 600

- name: Take the nodes into service again
  rackwright.cluster.k8s_drain:
    nodes: [worker0, worker1]
    state: resumed
"""

RETURN = r"""
actions: {description: "Actions that were, or in check mode would be, executed, as C(worker1: cordon).", returned: always, type: list}
held: {description: Nodes cordoned by others., returned: always, type: list}
"""

ARGUMENTS = {
    "nodes": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "resumed", "absent"], "required": True},
    "reason": {"type": "str", "default": "leaving"},
    "timeout": {"type": "int", "default": 60},
}
KUBECONFIG = "/etc/kubernetes/admin.conf"
MARK = "rackwright.node/cordoned"  # annotation with the reason of rackwright's cordon
MIRROR = "kubernetes.io/config.mirror"  # annotation of the API's copy of a static pod
STARTED_ELSEWHERE = {"ReplicaSet", "StatefulSet", "ReplicationController"}
STAYS = {"DaemonSet", "Node"}  # pods of DaemonSets and static pods belong to the node
PODS_SHOWN = 10
PAUSE = 0.5


class ClusterError(Exception):
    """A cluster error or timeout: place, problem, hint."""


class Node(NamedTuple):
    """A node as the API returns it."""

    name: str
    ready: bool
    cordoned: bool
    ours: bool

    @property
    def is_held(self) -> bool:
        """Return whether others cordoned the node."""
        return self.cordoned and not self.ours


class Pod(NamedTuple):
    """A pod on a node."""

    namespace: str
    name: str
    node: str
    owner: str  # kind of its controller; empty for a single pod
    over: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} on {self.node}"


def parse_nodes(text: str) -> dict[str, Node]:
    """Parse `kubectl get nodes -o json`; return nodes by name."""
    return {node["metadata"]["name"]: parse_node(node) for node in json.loads(text)["items"]}


def parse_node(found: dict[str, Any]) -> Node:
    """Parse one node of that list."""
    conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", [])}
    return Node(
        name=found["metadata"]["name"],
        ready=conditions.get("Ready") == "True",
        cordoned=bool(found.get("spec", {}).get("unschedulable")),
        ours=MARK in (found["metadata"].get("annotations") or {}),
    )


def parse_pods(text: str) -> list[Pod]:
    """Parse `kubectl get pods -o json`."""
    return [parse_pod(pod) for pod in json.loads(text)["items"]]


def parse_pod(found: dict[str, Any]) -> Pod:
    """Parse one pod of that list."""
    metadata = found["metadata"]
    owners = [one["kind"] for one in metadata.get("ownerReferences") or [] if one.get("controller")]
    over = found.get("status", {}).get("phase") in ("Succeeded", "Failed")
    owner = "Node" if MIRROR in (metadata.get("annotations") or {}) else owners[0] if owners else ""
    return Pod(metadata["namespace"], metadata["name"], found["spec"].get("nodeName", ""), owner, over)


def named(pods: list[Pod]) -> str:
    """Return the names of the first pods, and the number of the others."""
    rest = f" and {len(pods) - PODS_SHOWN} more" if len(pods) > PODS_SHOWN else ""
    return ", ".join(str(pod) for pod in pods[:PODS_SHOWN]) + rest


class Api:
    """Access the cluster through kubectl."""

    def call(self, *words: str, stdin: str = "") -> str:
        """Return the output of kubectl. Raise ClusterError if it fails."""
        command = ["kubectl", f"--kubeconfig={KUBECONFIG}", "--request-timeout=10s", *words]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False, input=stdin, timeout=60)
        except FileNotFoundError:
            raise ClusterError("kubectl: command not found - check that the install steps ran on this node") from None
        except subprocess.TimeoutExpired:
            raise ClusterError(f"kubectl {words[0]}: no answer in 60 s - run `crictl ps` or `journalctl -u kubelet`") from None
        if done.returncode:
            raise ClusterError(
                f"kubectl {' '.join(words[:3])}: {done.stderr.strip()} - check that the API answers; run `journalctl -u kubelet`"
            )
        return done.stdout

    def nodes(self) -> dict[str, Node]:
        """Return all nodes."""
        return parse_nodes(self.call("get", "nodes", "--output=json"))

    def pods_on(self, name: str) -> list[Pod]:
        """Return the pods of a node that have not ended."""
        output = self.call("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}", "--output=json")
        return [pod for pod in parse_pods(output) if not pod.over]

    def evict(self, pod: Pod) -> bool:
        """Evict a pod; return False if a disruption budget does not allow it now."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": pod.namespace}}
        where = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        try:
            self.call("create", "--raw", where, "--filename=-", stdin=json.dumps(eviction))
        except ClusterError as error:
            # Nothing can be created in a namespace that is being deleted; its pods end without an eviction.
            if any(words in str(error) for words in ("disruption budget", "TooManyRequests", "because it is being terminated")):
                return False
            if "NotFound" in str(error) or "not found" in str(error):
                return True
            raise
        return True


class Service:
    """Change the nodes of one task, and record the actions."""

    def __init__(self, api: Api, nodes: list[str], check: bool) -> None:
        self.api = api
        self.names = nodes
        self.check = check
        self.actions: list[str] = []
        self.held: list[str] = []

    def drain(self, reason: str, timeout: int) -> None:
        """Cordon the nodes, evict pods that restart on other nodes, and wait for the others."""
        known = self.api.nodes()
        there = [known[name] for name in self.names if name in known]
        for node in there:
            if not node.cordoned:
                self._do(f"{node.name}: cordon", "annotate", "--overwrite", "node", node.name, f"{MARK}={reason}")
                self._do("", "cordon", node.name)
        if self.check:
            return
        deadline = time.monotonic() + timeout
        while True:
            left = [pod for node in there for pod in self.api.pods_on(node.name) if pod.owner not in STAYS]
            if not left:
                return
            movable = [pod for pod in left if pod.owner in STARTED_ELSEWHERE]
            for pod in movable:
                if self.api.evict(pod):
                    self._note(f"{pod.node}: evict {pod.namespace}/{pod.name}")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"after {timeout} s still running: {named(left)} - the nodes stay cordoned; "
                    "delete those pods or wait for them, then run the command again"
                )
            time.sleep(PAUSE)

    def resume(self, timeout: int) -> None:
        """Wait until the nodes are Ready, then uncordon those that rackwright cordoned."""
        deadline = time.monotonic() + timeout
        while True:
            known = self.api.nodes()
            waiting = [name for name in self.names if name not in known or not known[name].ready]
            if not waiting or self.check:
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"not Ready after {timeout} s: {', '.join(waiting)} - run `journalctl -u kubelet` there")
            time.sleep(PAUSE)
        for node in (known[name] for name in self.names if name in known):
            if node.is_held:
                self.held.append(f"{node.name} is cordoned, but not by rackwright: out of service until an administrator uncordons it")
            elif node.cordoned or node.ours:
                self._do(f"{node.name}: uncordon", "uncordon", node.name)
                self._do("", "annotate", "node", node.name, f"{MARK}-")

    def remove(self) -> None:
        """Delete the Node objects."""
        known = self.api.nodes()
        for name in self.names:
            if name in known:
                self._do(f"{name}: delete", "delete", "node", name, "--wait=false")

    def _do(self, action: str, *words: str) -> None:
        self._note(action)
        if not self.check:
            self.api.call(*words)

    def _note(self, action: str) -> None:
        if action and action not in self.actions:
            self.actions.append(action)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    service = Service(Api(), given["nodes"], module.check_mode)
    try:
        if given["state"] == "drained":
            service.drain(given["reason"], given["timeout"])
        elif given["state"] == "resumed":
            service.resume(given["timeout"])
        else:
            service.remove()
    except ClusterError as error:
        module.fail_json(msg=str(error), actions=service.actions, held=service.held)
    for line in service.held:
        module.warn(line)
    module.exit_json(changed=bool(service.actions), actions=service.actions, held=service.held)


if __name__ == "__main__":
    main()
