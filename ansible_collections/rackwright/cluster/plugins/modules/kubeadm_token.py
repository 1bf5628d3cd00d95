"""Create join tokens for nodes, and remove etcd members of deleted controllers.

Runs on the primary control plane node. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.etcd_members import Members, without_majority
from ansible_collections.rackwright.cluster.plugins.module_utils.kubeadm_commands import FOLDER, KubeadmError, kubectl, run
from ansible_collections.rackwright.cluster.plugins.module_utils.kubeadm_config import certificate_key, join_credentials

DOCUMENTATION = r"""
module: kubeadm_token
short_description: Create join tokens and remove etcd members
options:
  state:
    description:
      - C(created) creates a join token that is valid for 15 minutes. Old Node objects and etcd members of nodes in C(returning) are
        deleted first. If controllers are among them, the control plane's certificates are uploaded, encrypted with a new key. Without
        C(returning) the module does nothing.
      - C(revoked) deletes the uploaded certificates.
      - C(member_removed) removes the members of C(controllers) from etcd.
    choices: [created, revoked, member_removed]
    required: true
  config: {type: path, description: Configuration file of kubeadm., default: /etc/kubernetes/rackwright/kubeadm.yaml}
  controllers:
    type: dict
    default: {}
    description: Controllers of the plan (C(created)) or to remove (C(member_removed)), name to address.
  returning: {type: list, elements: str, default: [], description: Nodes about to join (C(created)).}
notes:
  - C(ansible.builtin.command) with C(kubeadm token create) leaves the Node object and the etcd member of a node that is installed
    again.
"""

EXAMPLES = r"""
- name: Create a join token for a worker that returns
  rackwright.cluster.kubeadm_token:
    state: created
    controllers: {control0: 10.77.0.10}
    returning: [worker0]
  register: join_credentials
  no_log: true
"""

RETURN = r"""
actions: {description: "Actions that were, or in check mode would be, executed.", returned: always, type: list}
error: {description: Reason why there is no join token (C(created))., returned: on failure, type: str}
join_credentials: {description: Token and digest of the CA certificate (C(created)); null if not needed., returned: success, type: dict}
certificate_key: {description: "Key of the uploaded certificates, if controllers join.", returned: success, type: str}
"""

LIFETIME = "15m"  # of a join token


class Host:
    """Execute one task on the primary controller."""

    def __init__(self, params: dict[str, Any], check: bool) -> None:
        self.params = params
        self.check = check
        self.actions: list[str] = []
        self.members = Members(run, KubeadmError, FOLDER)

    def created(self) -> tuple[dict[str, str] | None, str | None]:
        """Create a join token for nodes that will join; return it with the certificate key that controllers among them need."""
        returning = self.params["returning"]
        if not returning:
            return None, None
        self.actions.append(f"create a join token for {', '.join(returning)}")
        if self.check:
            return None, None
        kubectl("delete", "node", "--ignore-not-found", *returning)
        controllers = {name: address for name, address in self.params["controllers"].items() if name in returning}
        for member in self.members.gone(controllers) if controllers else ():
            self.members.remove(member)
        output = run(
            "kubeadm", "token", "create", "--ttl", LIFETIME, "--description", "rackwright: nodes that join", "--print-join-command"
        )
        invited = join_credentials(output)
        if not invited:
            raise KubeadmError("kubeadm token create: no join command in its output - check the kubeadm version")
        return invited, self.upload_certificates() if controllers else None

    def revoked(self) -> None:
        """Delete the uploaded certificates; kubeadm itself keeps them for two hours."""
        if not self.check:
            kubectl("--namespace=kube-system", "delete", "secret", "kubeadm-certs", "--ignore-not-found")

    def member_removed(self) -> None:
        """Remove etcd members whose nodes are removed or gone."""
        leaving = self.members.gone(self.params["controllers"])
        if leaving and not self.check:
            self.members.lead_here()
        for member in leaving:
            self.actions.append(f"remove {member.name or member.address} from etcd")
            if not self.check:
                self.members.remove(member)

    def upload_certificates(self) -> str:
        """Upload the certificates as an encrypted secret; return the key, which only kubeadm's output contains."""
        output = run("kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", self.params["config"])
        key = certificate_key(output)
        if not key:
            raise KubeadmError("kubeadm init phase upload-certs: no certificate key in its output - check the kubeadm version")
        return key


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["created", "revoked", "member_removed"], "required": True},
            "config": {"type": "path", "default": f"{FOLDER}/rackwright/kubeadm.yaml"},
            "controllers": {"type": "dict", "default": {}},
            "returning": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    host, state, credentials = Host(module.params, module.check_mode), module.params["state"], (None, None)
    try:
        if state == "created":
            credentials = host.created()
        elif state == "revoked":
            host.revoked()
        else:
            host.member_removed()
    except KubeadmError as error:
        if state != "created":
            module.fail_json(msg=str(error), actions=host.actions)
        message = without_majority(module.params["controllers"]) or str(error)
        # no_log hides the result of the task, and would hide the error as well.
        module.exit_json(changed=False, actions=host.actions, join_credentials=None, certificate_key=None, error=message)
    changed = bool(host.actions) and state != "created"
    module.exit_json(changed=changed, actions=host.actions, join_credentials=credentials[0], certificate_key=credentials[1])


if __name__ == "__main__":
    main()
