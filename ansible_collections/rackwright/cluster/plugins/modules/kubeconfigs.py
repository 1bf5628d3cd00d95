"""Find users without a valid kubeconfig on a login node, generate kubeconfigs on a controller, and write them for their users.

The cluster's CA signs a user's certificate. It cannot be revoked, so it is valid for some months and renewed in time.
Standard library and openssl, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import re
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubeconfigs
short_description: Generate and write kubeconfigs of the cluster's users
options:
  state:
    description:
      - C(queried) returns the C(users) without a kubeconfig on this node that is valid for C(renew_before) and uses C(endpoint).
      - C(generated) generates a kubeconfig for each of C(users); runs on a controller and changes nothing there.
      - C(installed) writes the generated kubeconfigs to the users' home directories, mode 0600.
    choices: [queried, generated, installed]
    required: true
  users: {type: list, elements: str, default: [], description: Names of users.}
  endpoint: {type: str, description: Endpoint of the API (C(queried)).}
  authority: {type: str, default: "", description: "CA certificate of the cluster in PEM, if known (C(queried))."}
  namespaces: {type: dict, default: {}, description: Default namespace of each user (C(generated)).}
  kubeconfigs: {type: dict, default: {}, description: Kubeconfigs by user (C(installed)).}
  days: {type: int, default: 180, description: Validity of a new certificate in days (C(generated)).}
  renew_before: {type: int, default: 45, description: Remaining days at which a certificate is renewed (C(queried)).}
  config: {type: path, default: /etc/kubernetes/rackwright/kubeadm.yaml, description: Configuration file of kubeadm (C(generated)).}
notes:
  - With C(community.crypto) it takes five tasks for each user and a Python library on the node.
"""

EXAMPLES = r"""
- name: Query which users need a kubeconfig
  rackwright.cluster.kubeconfigs:
    state: queried
    users: [alice, bob]
    endpoint: 10.77.0.10:6443
  register: queried

- name: Generate the kubeconfigs
  rackwright.cluster.kubeconfigs:
    state: generated
    users: "{{ queried.wanting }}"
    namespaces: {alice: research, bob: research}
  delegate_to: control0
  register: generated
  no_log: true
"""

RETURN = r"""
wanting: {description: Users who need one (C(queried))., returned: always, type: list}
kubeconfigs: {description: Kubeconfigs by user (C(generated))., returned: always, type: dict}
"""

DAY = 86400


class KubeconfigError(Exception):
    """An error: place, problem, hint."""


def home(user: str) -> pwd.struct_passwd:
    """Return the user's account on this node. Raise KubeconfigError if there is none."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise KubeconfigError(f"{user}: user not found on this node - check that phase bootstrap succeeded") from None


def path_of(user: str) -> str:
    """Return the path where kubectl reads the kubeconfig."""
    return os.path.join(home(user).pw_dir, ".kube", "config")


def reads(text: str, key: str) -> bytes:
    """Return a certificate inside a kubeconfig; empty if there is none."""
    found = re.search(rf"^\s*{key}: (\S+)$", text, re.MULTILINE)
    try:
        return base64.b64decode(found[1]) if found else b""
    except binascii.Error:
        return b""


def is_good(path: str, endpoint: str, authority: str, before: int) -> bool:
    """Return whether a kubeconfig is valid for this cluster for at least so many seconds."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        return False
    certificate = reads(text, "client-certificate-data")
    if f"server: https://{endpoint}\n" not in text or not certificate:
        return False
    if authority and reads(text, "certificate-authority-data").strip() != authority.encode().strip():
        return False
    done = subprocess.run(["openssl", "x509", "-noout", "-checkend", str(before)], input=certificate, capture_output=True, check=False)
    return done.returncode == 0


def generate(user: str, config: str, days: int, namespace: str) -> str:
    """Generate a kubeconfig."""
    command = ["kubeadm", "kubeconfig", "user", "--client-name", user, "--config", config, "--validity-period", f"{days * 24}h"]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=60
        )
    except FileNotFoundError:
        raise KubeconfigError("kubeadm: command not found - check that the install steps ran on this node") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise KubeconfigError(f"kubeadm kubeconfig user: {last} - check that the CA key is in /etc/kubernetes/pki")
    text = done.stdout[done.stdout.index("apiVersion:") :]
    return re.sub(r"^(\s*)user: (\S+)\n(?=\s*name:)", rf"\1namespace: {namespace}\n\1user: \2\n", text, count=1, flags=re.MULTILINE)


def install(user: str, text: str) -> None:
    """Write the kubeconfig so that only its user can read it."""
    account, path = home(user), path_of(user)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
        os.chown(folder, account.pw_uid, account.pw_gid)
    draft = f"{path}.rackwright"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chown(draft, account.pw_uid, account.pw_gid)
    os.replace(draft, path)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["queried", "generated", "installed"], "required": True},
            "users": {"type": "list", "elements": "str", "default": []},
            "endpoint": {"type": "str"},
            "authority": {"type": "str", "default": ""},
            "namespaces": {"type": "dict", "default": {}},
            "kubeconfigs": {"type": "dict", "default": {}, "no_log": True},
            "days": {"type": "int", "default": 180},
            "renew_before": {"type": "int", "default": 45},
            "config": {"type": "path", "default": "/etc/kubernetes/rackwright/kubeadm.yaml"},
        },
        supports_check_mode=True,
    )
    params, wanting, kubeconfigs = module.params, [], {}
    try:
        if params["state"] == "queried":
            before = params["renew_before"] * DAY
            wanting = [user for user in params["users"] if not is_good(path_of(user), params["endpoint"], params["authority"], before)]
        elif params["state"] == "generated" and not module.check_mode:
            names = params["namespaces"]
            kubeconfigs = {user: generate(user, params["config"], params["days"], names.get(user, "default")) for user in params["users"]}
        elif params["state"] == "installed":
            for user, text in sorted(params["kubeconfigs"].items()):
                install(user, text)
    except KubeconfigError as error:
        module.fail_json(msg=str(error))
    changed = bool(params["kubeconfigs"]) if params["state"] == "installed" else bool(wanting)
    module.exit_json(changed=changed, wanting=wanting, kubeconfigs=kubeconfigs)


if __name__ == "__main__":
    main()
