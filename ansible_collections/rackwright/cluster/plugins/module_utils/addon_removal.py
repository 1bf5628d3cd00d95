"""Remove an add-on from a Kubernetes cluster: webhooks first, which would call a deleted service; definitions and namespaces last."""

from __future__ import annotations

import time
from typing import Any

from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks
from ansible_collections.rackwright.cluster.plugins.module_utils.server_side_apply import Applying, ObjectsError, told

LABEL = "rackwright.addon/name"
_RBAC = "rbac.authorization.k8s.io/v1"
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet"}
CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
SERVICE = {"apiVersion": "v1", "kind": "Service"}
HOOKS = (
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding"},
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"},
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"},
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"},
    {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"},
)
REST = (
    DEPLOYMENT,
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"},
    DAEMON_SET,
    SERVICE,
    {"apiVersion": "v1", "kind": "ConfigMap"},
    {"apiVersion": "v1", "kind": "Secret"},
    {"apiVersion": _RBAC, "kind": "RoleBinding"},
    {"apiVersion": _RBAC, "kind": "ClusterRoleBinding"},
    {"apiVersion": _RBAC, "kind": "Role"},
    {"apiVersion": _RBAC, "kind": "ClusterRole"},
    {"apiVersion": "v1", "kind": "ServiceAccount"},
)
WORK = {
    "kueue": ({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"}, ("Finished",)),
    "jobset": ({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}, ("Completed", "Failed")),
    "trainer": ({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}, ("Complete", "Failed")),
    "training-operator": ({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}, ("Succeeded", "Failed")),
}
"""Work of an add-on, in its storage version, and the conditions that mark it as finished."""
STANDING = {
    "leaderworkerset": ({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"},),
    "keda": tuple({"apiVersion": "keda.sh/v1alpha1", "kind": kind} for kind in ("ScaledObject", "ScaledJob")),
}
"""Work of an add-on that lasts until it is deleted. Without the controller, a lost pod of a set is not replaced, a server at zero replicas
stays there, and a deleted ScaledObject keeps its finalizer."""
DRIVERS = {"dra-example-driver": "gpu.example.com"}
"""DRA drivers of add-ons. A kubelet cannot end a pod with a claim whose driver is gone: the driver must release the device."""
ALLOCATED = {"metallb": "metallb.io/ip-allocated-from-pool"}
"""Annotation of add-ons on the Services to which they assigned an address (controller/service.go of MetalLB). Without the add-on, no node
answers at that address."""
DERIVED = {"kueue": WORK["kueue"][0]}
"""Objects that an add-on derives from others: deleted with it, and recreated by the next installation."""


def unfinished(applying: Applying, addon: str) -> list[str]:
    """Return descriptions of unfinished work of an add-on."""
    kind, ends = WORK.get(addon, (None, ()))
    found = [one for each in (*((kind,) if kind else ()), *STANDING.get(addon, ())) for one in _items(applying, each)]
    claims = [one for one in _items(applying, CLAIM) if DRIVERS[addon] in _drivers(one)] if addon in DRIVERS else []
    services = [one for one in _items(applying, SERVICE) if _is_balanced(one, ALLOCATED[addon])] if addon in ALLOCATED else []
    return sorted(_named(one) for one in [*claims, *services, *found] if not _is_over(one, ends))


def _is_balanced(service: dict[str, Any], annotation: str) -> bool:
    """Return whether a Service has an address from the add-on."""
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    return bool(ingress) and annotation in (service["metadata"].get("annotations") or {})


def _drivers(claim: dict[str, Any]) -> set[str]:
    """Return the drivers of the devices that a claim holds."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {one["driver"] for one in (allocation.get("devices") or {}).get("results") or []}


def _is_over(one: dict[str, Any], ends: tuple[str, ...]) -> bool:
    conditions = (one.get("status") or {}).get("conditions") or []
    return any(each["type"] in ends and each["status"] == "True" for each in conditions)


def _named(one: dict[str, Any]) -> str:
    """Return the owner of an object: a workload belongs to a user's job."""
    owners = one["metadata"].get("ownerReferences") or []
    kind, name = (owners[0]["kind"], owners[0]["name"]) if owners else (one.get("kind", "Workload"), one["metadata"]["name"])
    return f"{kind} {one['metadata'].get('namespace', '')}/{name}"


def _items(applying: Applying, kind: dict[str, str], label: str = "") -> list[dict[str, Any]]:
    resource = applying.known(kind)
    if resource is None:
        return []
    listed = applying.ask(kind["kind"], lambda: resource.get(label_selector=label) if label else resource.get())
    return [{**kind, **one} for one in listed.to_dict()["items"]]


class Removal:
    """Remove add-ons. `timeout`: seconds for deleted objects to disappear."""

    def __init__(self, applying: Applying, timeout: int) -> None:
        self.applying = applying
        self.timeout = timeout
        self.removed: list[str] = []
        self.kept: list[str] = []

    def undeclared_addons(self, names: list[str]) -> list[str]:
        """Return installed add-ons that are not declared."""
        marked = {
            one["metadata"]["labels"][LABEL] for kind in (DEPLOYMENT, DAEMON_SET, DEFINITION) for one in _items(self.applying, kind, LABEL)
        }
        return sorted(marked - set(names))

    def run(self, names: list[str], declared: list[dict[str, Any]]) -> None:
        """Delete objects of undeclared add-ons, and objects that declared add-ons no longer contain."""
        leaving = self.undeclared_addons(names)
        for kind in HOOKS:
            self._delete(kind, declared)
        for name in leaving:
            if name in DERIVED:
                self._empty(DERIVED[name])
        self._await_deleted(leaving)
        for kind in REST:
            self._delete(kind, declared)
        self._definitions(declared)
        self._delete(NAMESPACE, declared)

    def _delete(self, kind: dict[str, str], declared: list[dict[str, Any]]) -> None:
        for one in self._undeclared(kind, declared):
            self._delete_object(kind, one)

    def _undeclared(self, kind: dict[str, str], declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
        named = {(one["metadata"].get("namespace"), one["metadata"]["name"]) for one in declared if one["kind"] == kind["kind"]}
        found = _items(self.applying, kind, LABEL)
        return [
            one for one in found if not self._is_deleting(one) and (one["metadata"].get("namespace"), one["metadata"]["name"]) not in named
        ]

    @staticmethod
    def _is_deleting(one: dict[str, Any]) -> bool:
        return bool(one["metadata"].get("deletionTimestamp"))

    def _delete_object(self, kind: dict[str, str], one: dict[str, Any]) -> None:
        self.removed.append(told(one))
        self.applying.delete({**kind, **one})

    def _empty(self, kind: dict[str, str]) -> None:
        for one in _items(self.applying, kind):
            if not self._is_deleting(one):
                self._delete_object(kind, one)

    def _await_deleted(self, leaving: list[str]) -> None:
        """Wait for deletions in progress: only the running add-on can remove its finalizers."""
        if self.applying.check:
            return
        definitions = [one for one in _items(self.applying, DEFINITION, LABEL) if one["metadata"]["labels"][LABEL] in leaving]
        going: list[str] = []
        for _ in ticks(time.monotonic() + self.timeout):
            going = [told(one) for each in definitions for one in _items(self.applying, _kind_of(each)) if self._is_deleting(one)]
            if not going:
                return
        raise ObjectsError(f"still present {self.timeout} s after deletion: {', '.join(going)} - check the finalizers, then apply again")

    def _definitions(self, declared: list[dict[str, Any]]) -> None:
        for one in self._undeclared(DEFINITION, declared):
            left = [each for each in _items(self.applying, _kind_of(one)) if not self._is_deleting(each)]
            if left and not self.applying.check:
                self._detach(one)
            if left:
                self.kept.append(f"{one['metadata']['name']} ({len(left)}: {', '.join(sorted(_named(each) for each in left)[:3])})")
            else:
                self._delete_object(DEFINITION, one)

    def _detach(self, one: dict[str, Any]) -> None:
        """Detach a definition that is kept: remove the conversion webhook of the deleted service, and the add-on's label."""
        body = {"metadata": {"labels": {LABEL: None}}, "spec": {"conversion": {"strategy": "None", "webhook": None}}}
        client, resource, name = self.applying.client, self.applying.known(DEFINITION), one["metadata"]["name"]
        self.applying.ask(told(one), lambda: client.patch(resource, body=body, name=name, content_type="application/merge-patch+json"))


def _kind_of(definition: dict[str, Any]) -> dict[str, str]:
    """Return the kind of a definition, in its storage version."""
    spec = definition["spec"]
    stored = next(each["name"] for each in spec["versions"] if each["storage"])
    return {"apiVersion": f"{spec['group']}/{stored}", "kind": spec["names"]["kind"]}
