"""Objects of a Kubernetes cluster, applied as the cluster's administrator through the official Python client.

Applied on the server's side, so that only what the objects say is ours, and what others add stays. Runs on a controller;
needs python3-kubernetes there.
"""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.rackwright_probe import ticks

DOCUMENTATION = r"""
module: rackwright_objects
short_description: Objects of a Kubernetes cluster
description:
  - Each object is applied in the order given, with the field manager C(rackwright). In check mode the server is asked what would change.
  - An object of kind Node is waited for, since a node registers itself; one that does not come is told as C(absent).
  - Objects labelled C(app.kubernetes.io/managed-by=rackwright), of the kinds in C(prune), that are not among them are deleted.
options:
  objects: {type: list, elements: dict, required: true, description: The objects.}
  prune: {type: list, elements: dict, default: [], description: C(apiVersion) and C(kind) of what is deleted when it is no longer said.}
  kubeconfig: {type: path, default: /etc/kubernetes/admin.conf, description: Who applies them, and where.}
  patience: {type: int, default: 30, description: Seconds the API may take to accept one.}
"""

RETURN = r"""
applied: {description: What was, or in check mode would be, changed, as C(ResourceQuota research/quota)., returned: always, type: list}
pruned: {description: What was, or would be, deleted., returned: always, type: list}
absent: {description: Nodes that are not there., returned: always, type: list}
"""

MANAGER = "rackwright"
OURS = "app.kubernetes.io/managed-by=rackwright"


class ObjectsError(Exception):
    """What the cluster refuses: where, what, what now."""


def told(found: dict[str, Any]) -> str:
    """An object in words."""
    metadata = found["metadata"]
    return f"{found['kind']} {metadata['namespace'] + '/' if metadata.get('namespace') else ''}{metadata['name']}"


def bare(found: dict[str, Any]) -> dict[str, Any]:
    """An object without what changes at every look at it."""
    metadata = {
        key: value for key, value in found.get("metadata", {}).items() if key not in ("managedFields", "resourceVersion", "generation")
    }
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}


class Applying:
    """One task."""

    def __init__(self, client: Any, check: bool, patience: int) -> None:
        self.client = client
        self.check = check
        self.patience = patience
        self.applied: list[str] = []
        self.pruned: list[str] = []
        self.absent: list[str] = []

    def apply(self, wanted: dict[str, Any]) -> None:
        """Bring one object to what it says."""
        kind = self._kind(wanted)
        if kind is None:  # its kind comes with an object before it, which check mode did not apply
            self.applied.append(told(wanted))
            return
        metadata = wanted["metadata"]
        before = (
            self._registered(kind, metadata["name"])
            if wanted["kind"] == "Node"
            else self._get(kind, metadata["name"], metadata.get("namespace"))
        )
        if before is None and wanted["kind"] == "Node":
            self.absent.append(metadata["name"])
            return
        if before is None and self.check:
            self.applied.append(told(wanted))
            return
        after = self._sent(kind, wanted, dry=self.check)
        if before is None or bare(before) != bare(after):
            self.applied.append(told(wanted))

    def prune(self, kind: dict[str, str], wanted: list[dict[str, Any]]) -> None:
        """Delete what is ours and no longer said."""
        resource = self._kind(kind)
        if resource is None:
            return
        named = {(one["metadata"].get("namespace"), one["metadata"]["name"]) for one in wanted if one["kind"] == kind["kind"]}
        for found in resource.get(label_selector=OURS).to_dict()["items"]:
            metadata = found["metadata"]
            if (metadata.get("namespace"), metadata["name"]) in named or metadata.get("deletionTimestamp"):
                continue
            self.pruned.append(told({"kind": kind["kind"], **found}))
            if not self.check:
                resource.delete(name=metadata["name"], namespace=metadata.get("namespace"))

    def _kind(self, wanted: dict[str, Any]) -> Any:
        from kubernetes.dynamic.exceptions import ResourceNotFoundError

        try:
            return self.client.resources.get(api_version=wanted["apiVersion"], kind=wanted["kind"])
        except ResourceNotFoundError:
            if self.check:
                return None
            raise ObjectsError(f"{wanted['apiVersion']} {wanted['kind']}: the cluster knows no such kind") from None

    def _registered(self, kind: Any, name: str) -> dict[str, Any] | None:
        """A node, which may be about to register itself."""
        found = self._get(kind, name, None)
        for _ in ticks(time.monotonic() + (0 if self.check else self.patience)):
            if found is not None:
                break
            found = self._get(kind, name, None)
        return found

    def _get(self, kind: Any, name: str, namespace: str | None) -> dict[str, Any] | None:
        from kubernetes.dynamic.exceptions import NotFoundError

        try:
            found: dict[str, Any] = kind.get(name=name, namespace=namespace).to_dict()
        except NotFoundError:
            return None
        return found

    def _sent(self, kind: Any, wanted: dict[str, Any], *, dry: bool) -> dict[str, Any]:
        """The object as the server has it, or would have it, afterwards."""
        from kubernetes.dynamic.exceptions import DynamicApiError

        refused = ""
        for _ in ticks(time.monotonic() + self.patience):
            try:
                done = self.client.patch(
                    kind,
                    body=wanted,
                    name=wanted["metadata"]["name"],
                    namespace=wanted["metadata"].get("namespace"),
                    content_type="application/apply-patch+yaml",
                    field_manager=MANAGER,
                    force=True,
                    query_params=[("fieldManager", MANAGER), ("force", "true"), *([("dryRun", "All")] if dry else [])],
                )
            except DynamicApiError as error:
                refused = f"{error.status} {error.reason}: {error.summary()}"
                if error.status < 500:
                    break
                continue
            found: dict[str, Any] = done.to_dict()
            return found
        raise ObjectsError(f"{told(wanted)}: {refused}")


def main() -> None:
    """The module's entry point."""
    module = AnsibleModule(
        argument_spec={
            "objects": {"type": "list", "elements": "dict", "required": True},
            "prune": {"type": "list", "elements": "dict", "default": []},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "patience": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    try:
        from kubernetes import config, dynamic
        from kubernetes.client import api_client
    except ImportError as error:
        module.fail_json(msg=f"python3-kubernetes: {error} - are the install steps done on this node?")
    applying = None
    try:
        config.load_kube_config(config_file=module.params["kubeconfig"])
        applying = Applying(dynamic.DynamicClient(api_client.ApiClient()), module.check_mode, module.params["patience"])
        for wanted in module.params["objects"]:
            applying.apply(wanted)
        for kind in module.params["prune"]:
            applying.prune(kind, module.params["objects"])
    except ObjectsError as error:
        module.fail_json(msg=str(error), applied=applying.applied if applying else [])
    except Exception as error:  # the client's own, which are many: a person needs its words, not its stack
        module.fail_json(msg=f"{module.params['kubeconfig']}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    module.exit_json(
        changed=bool(applying.applied or applying.pruned), applied=applying.applied, pruned=applying.pruned, absent=applying.absent
    )


if __name__ == "__main__":
    main()
