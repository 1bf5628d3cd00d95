"""Apply Kubernetes objects as the cluster's administrator through the official Python client.

Server-side apply: rackwright owns only the declared fields, and fields of others stay. Runs on a controller; needs python3-kubernetes
there.
"""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.server_side_apply import Applying, ObjectsError

DOCUMENTATION = r"""
module: k8s
short_description: Apply and prune Kubernetes objects
description:
  - Objects are applied in the given order, with the field manager C(rackwright). In check mode, a server-side dry run reports changes.
  - The module waits for objects of kind Node, because nodes register themselves; missing nodes are returned as C(absent).
  - Objects with the label C(app.kubernetes.io/managed-by=rackwright), of the kinds in C(prune), that are not declared are deleted.
options:
  objects: {type: list, elements: dict, required: true, description: Objects to apply.}
  prune: {type: list, elements: dict, default: [], description: C(apiVersion) and C(kind) of objects to delete if not declared.}
  kubeconfig: {type: path, default: /etc/kubernetes/admin.conf, description: Kubeconfig of the administrator.}
  timeout:
    type: int
    default: 120
    description: >-
      Timeout in seconds of a request that the API server, or a webhook that it calls, refuses because it has just started. Chosen, not
      measured.
notes:
  - C(kubernetes.core.k8s) does not delete objects that are no longer declared, and needs a Python client on the node.
"""

EXAMPLES = r"""
- name: Apply the namespaces of the users and delete those that are no longer declared
  rackwright.cluster.k8s:
    objects:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: research
          labels: {app.kubernetes.io/managed-by: rackwright}
    prune:
      - {apiVersion: v1, kind: Namespace}
"""

RETURN = r"""
applied: {description: "Objects that were, or would be, changed, as C(ResourceQuota research/quota).", returned: always, type: list}
pruned: {description: "Objects that were, or in check mode would be, deleted.", returned: always, type: list}
absent: {description: Nodes that are not registered., returned: always, type: list}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "objects": {"type": "list", "elements": "dict", "required": True},
            "prune": {"type": "list", "elements": "dict", "default": []},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "timeout": {"type": "int", "default": 120},
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
        for wanted in module.params["objects"]:
            applying.apply(wanted)
        for kind in module.params["prune"]:
            applying.prune(kind, module.params["objects"])
    except ObjectsError as error:
        module.fail_json(msg=str(error), applied=applying.applied if applying else [])
    except Exception as error:  # the client raises many types; the message is enough, without the traceback
        module.fail_json(msg=f"{module.params['kubeconfig']}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    module.exit_json(
        changed=bool(applying.applied or applying.pruned), applied=applying.applied, pruned=applying.pruned, absent=applying.absent
    )


if __name__ == "__main__":
    main()
