"""Approve the serving certificate requests of kubelets that match the plan, so that the cluster's CA signs them.

Runs on a controller. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks

DOCUMENTATION = r"""
module: kubelet_certificates
short_description: Approve serving certificates of kubelets
description:
  - A kubelet with C(serverTLSBootstrap) requests its certificate from the cluster, and Kubernetes does not approve it automatically. A
    request is approved if it comes from the node that it names and contains only that name and the planned address.
  - The module verifies the certificate of each node with a connection to its kubelet.
options:
  nodes: {type: list, elements: dict, required: true, description: Nodes with C(name) and C(address).}
  authority: {type: path, default: /etc/kubernetes/pki/ca.crt, description: CA certificate that must have signed the certificates.}
  timeout: {type: int, default: 60, description: "Timeout for all kubelets to serve their certificates, in seconds."}
notes:
  - C(kubectl certificate approve) approves what a node requests. This module approves the planned name and address only.
"""

EXAMPLES = r"""
- name: Approve the serving certificates of the kubelets
  rackwright.cluster.kubelet_certificates:
    nodes:
      - {name: control0, address: 10.77.0.10}
      - {name: worker0, address: 10.77.0.16}
"""

RETURN = r"""
approved: {description: "Requests that were, or in check mode would be, approved.", returned: always, type: list}
unverified: {description: "Nodes whose kubelets serve no verified certificate, with the reason.", returned: always, type: dict}
"""

SIGNER = "kubernetes.io/kubelet-serving"
PORT = 10250
CONF = "/etc/kubernetes/admin.conf"


class CertificatesError(Exception):
    """A cluster error: place, problem, hint."""


def run(*words: str, stdin: str = "") -> str:
    """Return the output of a command."""
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=30)
    except FileNotFoundError:
        raise CertificatesError(f"{words[0]}: command not found - check that the install steps ran on this node") from None
    except subprocess.TimeoutExpired:
        raise CertificatesError(f"{' '.join(words[:3])}: not finished after 30 s") from None
    if done.returncode:
        raise CertificatesError(f"{' '.join(words[:3])}: {done.stderr.strip()}")
    return done.stdout


def pending() -> list[dict[str, Any]]:
    """Return pending requests for serving certificates."""
    found = json.loads(run("kubectl", f"--kubeconfig={CONF}", "get", "certificatesigningrequests", "-o", "json"))["items"]
    return [one for one in found if one["spec"]["signerName"] == SIGNER and not one["status"].get("conditions")]


def asked(text: str) -> set[str]:
    """Return names and addresses of a request, from the output of `openssl req -text`.

    >>> sorted(asked("X509v3 Subject Alternative Name:\\n   DNS:w0, IP Address:10.0.0.3\\n Signature Algorithm: x"))
    ['DNS:w0', 'IP Address:10.0.0.3']
    """
    found = re.search(r"Subject Alternative Name:[^\n]*\n\s*([^\n]+)", text)
    return {part.strip() for part in found[1].split(",")} if found else set()


def is_theirs(request: dict[str, Any], addresses: dict[str, str], text: str) -> bool:
    """Return whether sender, subject, names and addresses of a request are those of one planned node."""
    user = request["spec"]["username"]
    name = user.rpartition("system:node:")[2]
    subject = re.search(r"Subject:\s*O\s*=\s*system:nodes,\s*CN\s*=\s*system:node:(\S+)", text)
    if name not in addresses or user != f"system:node:{name}" or not subject or subject[1] != name:
        return False
    return asked(text) <= {f"DNS:{name}", f"IP Address:{addresses[name]}"} and f"IP Address:{addresses[name]}" in asked(text)


def approve(addresses: dict[str, str], check: bool) -> list[str]:
    """Approve requests that match the plan, renewals included, and return them; an administrator handles the others."""
    done = []
    for request in pending():
        text = run("openssl", "req", "-noout", "-text", stdin=base64.b64decode(request["spec"]["request"]).decode())
        if is_theirs(request, addresses, text):
            if not check:
                run("kubectl", f"--kubeconfig={CONF}", "certificate", "approve", request["metadata"]["name"])
            done.append(f"{request['spec']['username']} {request['metadata']['name']}")
    return done


def unverified(nodes: list[dict[str, Any]], authority: str) -> dict[str, str]:
    """Return nodes whose kubelet serves no verified certificate for its address, with the reason."""
    context = ssl.create_default_context(cafile=authority)
    found = {}
    for node in nodes:
        try:
            with socket.create_connection((node["address"], PORT), timeout=5) as plain:
                context.wrap_socket(plain, server_hostname=node["address"]).close()
        except (OSError, ssl.SSLError) as error:
            found[node["name"]] = getattr(error, "verify_message", "") or str(error)
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "dict", "required": True},
            "authority": {"type": "path", "default": "/etc/kubernetes/pki/ca.crt"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    addresses = {node["name"]: node["address"] for node in params["nodes"]}
    approved: list[str] = []
    wrong: dict[str, str] = {}
    try:
        for _ in ticks(time.monotonic() + (0 if module.check_mode else params["timeout"])):
            approved += approve(addresses, module.check_mode)
            wrong = unverified(params["nodes"], params["authority"])
            if not wrong or module.check_mode:
                break
    except CertificatesError as error:
        module.fail_json(msg=str(error), approved=approved)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{params['authority']}: {error}", approved=approved)
    if wrong and not module.check_mode:
        lines = "; ".join(f"{name}: {why}" for name, why in sorted(wrong.items()))
        hint = "run `kubectl get csr` for the requests, and `journalctl -u kubelet` on a node without one"
        module.fail_json(
            msg=f"kubelets without a certificate signed by the cluster CA: {lines} - {hint}", approved=approved, unverified=wrong
        )
    module.exit_json(changed=bool(approved or wrong), approved=approved, unverified=wrong)


if __name__ == "__main__":
    main()
