"""Apply and remove add-ons of a Kubernetes cluster, from the manifests in their part of the bundle.

Runs on a controller; needs python3-kubernetes there. A label marks the objects of an add-on, so that the cluster itself records the
installed add-ons, even if a controller's disk is lost.
"""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.addon_removal import Removal, unfinished
from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks
from ansible_collections.rackwright.cluster.plugins.module_utils.server_side_apply import Applying, ObjectsError, told

DOCUMENTATION = r"""
module: k8s_addons
short_description: Manage add-ons of a Kubernetes cluster
description:
  - C(state=present) applies the objects of each add-on, in order, and waits until its Deployment or DaemonSet and its aggregated API are
    available. It fails before any change if an add-on that is no longer declared has unfinished work.
  - C(state=removable) changes nothing. It fails if an add-on that is no longer declared has unfinished work.
  - C(state=absent) deletes all objects of add-ons that are not declared, and objects of declared add-ons that are no longer in their
    manifests. A custom resource definition is deleted if it has no objects; otherwise it is kept and returned as C(kept).
options:
  state: {choices: [removable, present, absent], required: true, description: Desired state.}
  addons: {type: list, elements: dict, required: true, description: "Add-ons with C(name) and C(namespace), in order."}
  folder: {type: path, default: /opt/rackwright/kubernetes/addons, description: Parent of the add-ons' folders with C(manifests.yaml).}
  kubeconfig: {type: path, default: /etc/kubernetes/admin.conf, description: Kubeconfig of the administrator.}
  timeout: {type: int, default: 180, description: "Timeout of start and of deletion, in seconds."}
notes:
  - C(kubernetes.core.k8s) applies manifests. It does not delete an add-on in the order that its webhooks and custom resources
    require.
"""

EXAMPLES = r"""
- name: Apply the add-ons and wait until they are available
  rackwright.cluster.k8s_addons:
    state: present
    addons:
      - {name: metrics-server, namespace: kube-system, deployment: metrics-server}
      - {name: kueue, namespace: kueue-system, deployment: kueue-controller-manager}

- name: Delete add-ons that are no longer declared
  rackwright.cluster.k8s_addons:
    state: absent
    addons:
      - {name: metrics-server, namespace: kube-system, deployment: metrics-server}
"""

RETURN = r"""
applied: {description: "Objects that were, or in check mode would be, changed.", returned: always, type: list}
removed: {description: "Objects that were, or in check mode would be, deleted.", returned: always, type: list}
kept: {description: "Custom resource definitions that were kept, because users created objects.", returned: always, type: list}
"""


def described(folder: str, name: str) -> list[dict[str, Any]]:
    """Return the objects of an add-on, in the order in which they can be applied. Raise ObjectsError if the file is missing."""
    import yaml

    path = os.path.join(folder, name, "manifests.yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with open(path, encoding="utf-8") as stream:
            found = [one for one in yaml.load_all(stream, Loader=loader) if one]
    except FileNotFoundError:
        raise ObjectsError(f"{path}: not found - check that the add-on was copied to this node") from None
    first = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Role", "ConfigMap", "Secret")
    last = ("Deployment", "DaemonSet", "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    order = {kind: place for place, kind in enumerate((*first, "", *last))}
    return sorted(found, key=lambda one: order.get(one["kind"], order[""]))


def unavailable_reason(applying: Applying, addon: dict[str, Any], objects: list[dict[str, Any]]) -> str:
    """Return why an add-on is not available yet; empty if it is."""
    wanted = [one for one in objects if one["kind"] in ("Deployment", "DaemonSet", "APIService")]
    for one in wanted:
        found = applying.found(one) or {}
        status = found.get("status", {})
        if one["kind"] != "APIService":
            planned, updated, available = replicas(found)
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            if not current or updated < planned or available < planned:
                return f"{told(one)} has {available} of {planned} available"
        else:
            condition = next((each for each in status.get("conditions", []) if each["type"] == "Available"), {})
            if condition.get("status") != "True":
                return f"{told(one)} is not available: {condition.get('message', 'no reason given')}"
    return "" if wanted else f"{addon['name']}: no Deployment and no DaemonSet among its objects"


def replicas(found: dict[str, Any]) -> tuple[int, int, int]:
    """Return the numbers of planned, updated and available pods of a Deployment or DaemonSet."""
    status = found.get("status", {})
    if found["kind"] == "DaemonSet":
        return status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return found.get("spec", {}).get("replicas", 1), status.get("updatedReplicas", 0), status.get("availableReplicas", 0)


def install(applying: Applying, addon: dict[str, Any], folder: str, timeout: int) -> None:
    """Apply the objects of an add-on, and wait until it is available."""
    import time

    objects, before = described(folder, addon["name"]), len(applying.applied)
    for one in objects:
        applying.apply(one)
    if applying.check and len(applying.applied) > before:
        return
    reason = ""
    for _ in ticks(time.monotonic() + timeout):
        reason = unavailable_reason(applying, addon, objects)
        if not reason:
            return
    raise ObjectsError(f"{addon['name']}: after {timeout} s {reason} - see `kubectl -n {addon['namespace']} describe pods`")


def run(module: AnsibleModule, applying: Applying) -> dict[str, Any]:
    """Execute the state of the task."""
    params = module.params
    names = [one["name"] for one in params["addons"]]
    removal = Removal(applying, params["timeout"])
    if params["state"] != "absent":
        waiting = [line for name in removal.undeclared_addons(names) for line in unfinished(applying, name)]
        if waiting:
            raise ObjectsError(
                f"removed from scheduler.addons with unfinished work: {', '.join(waiting)}"
                " - wait for that work or delete it, then apply again"
            )
        for addon in params["addons"] if params["state"] == "present" else []:
            install(applying, addon, params["folder"], params["timeout"])
        return {}
    objects = [one for name in names for one in described(params["folder"], name)]
    removal.run(names, objects)
    return {"removed": removal.removed, "kept": removal.kept}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["removable", "present", "absent"], "required": True},
            "addons": {"type": "list", "elements": "dict", "required": True},
            "folder": {"type": "path", "default": "/opt/rackwright/kubernetes/addons"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    try:
        from kubernetes import config, dynamic
        from kubernetes.client import api_client
    except ImportError as error:
        module.fail_json(msg=f"python3-kubernetes: {error} - check that the install steps ran on this node")
    applying = None
    try:
        config.load_kube_config(config_file=module.params["kubeconfig"])
        applying = Applying(dynamic.DynamicClient(api_client.ApiClient()), module.check_mode, module.params["timeout"])
        found = {"removed": [], "kept": [], **run(module, applying)}
    except ObjectsError as error:
        module.fail_json(msg=str(error), applied=applying.applied if applying else [])
    except Exception as error:  # the client raises many types; the message is enough, without the traceback
        module.fail_json(msg=f"{module.params['kubeconfig']}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    module.exit_json(changed=bool(applying.applied or found["removed"]), applied=applying.applied, **found)


if __name__ == "__main__":
    main()
