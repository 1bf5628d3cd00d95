"""A node's membership in a Kubernetes cluster: made by kubeadm where it is not, kept at its configuration where it is.

Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.rackwright_probe import ticks
from ansible.module_utils.rackwright_static_pods import StaticPods, StaticPodsError

DOCUMENTATION = r"""
module: rackwright_kubeadm
short_description: A node's membership in a Kubernetes cluster
options:
  state:
    description:
      - C(first) makes the cluster on this node, or takes it up again where etcd's data and its authority are there and the node is new.
        Where the cluster is there, its static pods and uploaded configuration follow C(config), and certificates of the control plane
        that end soon are renewed. The kubelet renews its own.
      - C(joined) makes the node join with C(invitation).
      - C(inviting) draws an invitation that lasts some minutes. Nodes of C(returning) that the cluster knows from an earlier life are
        forgotten first. Nothing is done without C(returning).
      - C(looked) tells whether the node is one already.
      - C(left) undoes what kubeadm did to this node; etcd forgets a member that was one.
    choices: [first, joined, inviting, left, looked]
    required: true
  config: {type: path, description: kubeadm's configuration (C(first))., default: /etc/kubernetes/rackwright/kubeadm.yaml}
  name: {type: str, description: The node's name (C(joined)).}
  address: {type: str, description: The node's address (C(joined)).}
  endpoint: {type: str, description: Where the API answers.}
  taints: {type: list, elements: str, default: [], description: Taints it registers with (C(joined)), as C(key=value:Effect).}
  labels: {type: dict, default: {}, description: Labels it registers with (C(joined)), so that what waits for one may start at once.}
  control_plane: {type: bool, default: false, description: Whether it joins the control plane (C(joined)).}
  invitation: {type: dict, description: What C(inviting) returned.}
  returning: {type: list, elements: str, default: [], description: Nodes about to join (C(inviting)).}
  tolerated: {type: list, elements: str, default: [], description: Findings of kubeadm's preflight that are none here.}
  renew_before: {type: int, default: 45, description: Days before a certificate's end at which all are renewed (C(first)).}
  timeout: {type: int, default: 180, description: Seconds the API may take to answer.}
"""

RETURN = r"""
joined: {description: Whether the node is one of the cluster (C(looked))., returned: always, type: bool}
actions: {description: What was, or in check mode would be, done., returned: always, type: list}
trouble: {description: Why there is no invitation (C(inviting))., returned: where it failed, type: str}
invitation: {description: Token and digest of the authority (C(inviting)); null where nobody needs one., returned: success, type: dict}
"""

FOLDER = "/etc/kubernetes"
KUBELET = "/var/lib/kubelet"
MANIFESTS = f"{FOLDER}/manifests"
ETCD = "/var/lib/etcd"
STAMP = f"{FOLDER}/rackwright/applied.json"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
OF_A_CUT_OFF_INIT = [
    *(f"FileAvailable--etc-kubernetes-manifests-{part}.yaml" for part in PARTS),
    *(f"Port-{port}" for port in (6443, 10250, 10257, 10259, 2379, 2380)),
]
"""What kubeadm's preflight finds of an init that was cut off: its phases may be run again over it."""
LIFETIME = "15m"  # of an invitation
ZONE = "topology.kubernetes.io/zone"
RUNTIME = "unix:///run/containerd/containerd.sock"


class KubeadmError(Exception):
    """What kubeadm or the cluster refuses: where, what, what now."""


def digest(path: str) -> str:
    """Of a file's bytes; empty where it is missing."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return ""


def complaint(text: str) -> str:
    """The decisive lines of what kubeadm printed: its preflight's errors, else its last words.

    >>> complaint("[preflight] Running\\nerror execution phase preflight\\n\\t[ERROR Port-6443]: Port is in use\\n")
    '[ERROR Port-6443]: Port is in use'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "[ERROR" in line] or [line for line in lines if line.lower().startswith("error")]
    hints = ("To see the stack trace", "[preflight] If you know")
    return "; ".join((errors or [line for line in lines if not line.startswith(hints)][-3:])[:5]) or "it said nothing"


def run(*words: str, patience: int = 240) -> str:
    """What a command prints; its complaint where it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=patience)
    except FileNotFoundError:
        raise KubeadmError(f"{words[0]}: there is no such command - are the install steps done on this node?") from None
    except subprocess.TimeoutExpired:
        raise KubeadmError(f"{' '.join(words[:3])}: no end after {patience} s - see `journalctl -u kubelet`") from None
    if done.returncode:
        raise KubeadmError(f"{' '.join(words[:3])}: {complaint(done.stdout + done.stderr)} - see `journalctl -u kubelet`")
    return done.stdout


def kubectl(*words: str) -> str:
    """kubectl as the cluster's administrator."""
    return run("kubectl", f"--kubeconfig={FOLDER}/admin.conf", "--request-timeout=10s", *words, patience=60)


def is_joined() -> bool:
    """Whether this node has joined: a join that was cut off leaves what it began with."""
    return os.path.exists(f"{FOLDER}/kubelet.conf") and not os.path.exists(f"{FOLDER}/bootstrap-kubelet.conf")


def certificates() -> Iterator[tuple[str, bytes]]:
    """The control plane's own, with their names: files, and those inside kubeconfigs. The authorities' last ten years."""
    for folder in ("pki", "pki/etcd"):
        for name in sorted(os.listdir(f"{FOLDER}/{folder}") if os.path.isdir(f"{FOLDER}/{folder}") else []):
            if name.endswith(".crt") and not name.endswith("ca.crt"):
                with open(f"{FOLDER}/{folder}/{name}", "rb") as stream:
                    yield f"{folder}/{name}", stream.read()
    for name in ("admin.conf", "controller-manager.conf", "scheduler.conf", "super-admin.conf"):
        try:
            with open(f"{FOLDER}/{name}", encoding="utf-8") as text:
                found = re.search(r"^\s*client-certificate-data: (\S+)$", text.read(), re.MULTILINE)
            if found:
                yield name, base64.b64decode(found[1])
        except (FileNotFoundError, binascii.Error):
            continue


def ends_within(certificate: bytes, days: int) -> bool:
    """Whether a certificate ends within so many days; one that cannot be read counts as ended."""
    command = ["openssl", "x509", "-noout", "-checkend", str(days * 86400)]
    try:
        return subprocess.run(command, input=certificate, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        raise KubeadmError("openssl: there is no such command - are the install steps done on this node?") from None


class Membership:
    """One task."""

    def __init__(self, params: dict[str, Any], check: bool) -> None:
        self.params = params
        self.check = check
        self.actions: list[str] = []

    def first(self) -> None:
        """The cluster's first controller."""
        pods = StaticPods(MANIFESTS, f"{FOLDER}/rackwright/held")
        if pods.interrupted():
            self.actions.append("start the static pods again")
            if self.check:
                return
            pods.start()
            self._wait()
        if not self._controls() or not os.path.exists(STAMP):
            self._make()
        else:
            self._follow()
            self._renew(pods)

    def joined(self) -> None:
        """A node that joins the others."""
        if is_joined() and (not self.params["control_plane"] or self._controls()):
            return
        self.actions.append(f"join {self.params['endpoint']}")
        if self.check:
            return
        if not self.params["invitation"]:
            raise KubeadmError("kubeadm join: there is no invitation - does the first controller answer?")
        # A join that was cut off, or the kubelet's memory of an earlier life: kubeadm would trip over the first, and with the second
        # a node offers GPUs before anybody has looked at them.
        if os.path.exists(f"{FOLDER}/kubelet.conf") or os.path.exists(f"{KUBELET}/config.yaml"):
            run("kubeadm", "reset", "--force", "--cri-socket", RUNTIME)
        handle, path = tempfile.mkstemp(suffix=".json")  # Readable by root alone: the token is in it.
        try:
            with os.fdopen(handle, "w") as stream:
                json.dump(joining(self.params), stream)
            run("kubeadm", "join", "--config", path, *self._tolerate())
        finally:
            os.unlink(path)

    def left(self) -> None:
        """A node that is none any more. What it ran is stopped, and its network interfaces for pods go."""
        if not os.path.exists(f"{FOLDER}/kubelet.conf"):
            return
        self.actions.append("leave the cluster")
        if self.check:
            return
        run("kubeadm", "reset", "--force", "--cri-socket", RUNTIME, "--cleanup-tmp-dir")
        for leftover in (STAMP, "/etc/cni/net.d/10-rackwright.conflist", "/run/flannel/subnet.env"):
            if os.path.exists(leftover):
                os.unlink(leftover)
        for interface in ("cni0", "flannel.1"):
            subprocess.run(["ip", "link", "delete", interface], capture_output=True, check=False)

    def inviting(self) -> dict[str, str] | None:
        """An invitation for nodes that are about to join."""
        returning = self.params["returning"]
        if not returning:
            return None
        self.actions.append(f"invite {', '.join(returning)}")
        if self.check:
            return None
        kubectl("delete", "node", "--ignore-not-found", *returning)
        said = run("kubeadm", "token", "create", "--ttl", LIFETIME, "--description", "rackwright: nodes that join", "--print-join-command")
        return invitation(said)

    def _controls(self) -> bool:
        return os.path.exists(f"{FOLDER}/admin.conf") and os.path.exists(f"{MANIFESTS}/kube-apiserver.yaml")

    def _make(self) -> None:
        survived, cut_off = os.path.isdir(f"{ETCD}/member"), self._controls()
        self.actions.append(
            "finish making the cluster" if cut_off else "take up the cluster that etcd remembers" if survived else "make the cluster"
        )
        if self.check:
            return
        ignored = [*(["DirAvailable--var-lib-etcd"] if survived else []), *(OF_A_CUT_OFF_INIT if cut_off else [])]
        run("kubeadm", "init", "--config", self.params["config"], "--skip-token-print", *self._tolerate(*ignored))
        self._remember()
        self._wait()

    def _follow(self) -> None:
        """Static pods and the uploaded configuration as declared, whoever changed them."""
        known = self._stamp()
        changed = [name for name in PARTS if digest(f"{MANIFESTS}/{name}.yaml") != known.get(name)]
        if known.get("config") == digest(self.params["config"]) and not changed:
            return
        self.actions.append(f"write the static pods again{': ' + ', '.join(changed) if changed else ''}")
        if self.check:
            return
        for phase in (("control-plane", "all"), ("etcd", "local"), ("upload-config", "all")):
            run("kubeadm", "init", "phase", *phase, "--config", self.params["config"])
        self._remember()
        self._wait()

    def _renew(self, pods: StaticPods) -> None:
        """Certificates of the control plane that last."""
        ending = [name for name, text in certificates() if ends_within(text, self.params["renew_before"])]
        if not ending:
            return
        self.actions.append(f"renew the certificates, of which end soon: {', '.join(ending)}")
        if self.check:
            return
        run("kubeadm", "certs", "renew", "all", "--config", self.params["config"])
        pods.stop()  # What runs holds the old ones until it starts anew.
        pods.start()
        self._wait()

    def _stamp(self) -> dict[str, str]:
        try:
            with open(STAMP, encoding="utf-8") as stream:
                found: dict[str, str] = json.load(stream)
                return found
        except (OSError, ValueError):
            return {}

    def _remember(self) -> None:
        stamp = {name: digest(f"{MANIFESTS}/{name}.yaml") for name in PARTS}
        stamp["config"] = digest(self.params["config"])
        with open(f"{STAMP}.new", "w", encoding="utf-8") as stream:
            json.dump(stamp, stream)
        os.replace(f"{STAMP}.new", STAMP)

    def _wait(self) -> None:
        import time

        said = ""
        for _ in ticks(time.monotonic() + self.params["timeout"]):
            try:
                kubectl("get", "--raw", "/readyz")
            except KubeadmError as error:
                said = str(error)
                continue
            return
        raise KubeadmError(f"the API does not answer within {self.params['timeout']} s: {said}")

    def _tolerate(self, *more: str) -> list[str]:
        names = [*self.params["tolerated"], *more]
        return [f"--ignore-preflight-errors={','.join(names)}"] if names else []


def invitation(said: str) -> dict[str, str]:
    """Token and digest out of the join command that kubeadm prints."""
    token = re.search(r"--token (\S+)", said)
    authority = re.search(r"--discovery-token-ca-cert-hash (\S+)", said)
    if not token or not authority:
        raise KubeadmError("kubeadm token create: it printed no join command - has its output format changed?")
    return {"token": token[1], "authority": authority[1]}


def joining(params: dict[str, Any]) -> dict[str, Any]:
    """JoinConfiguration (kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4); the authority is pinned."""
    invited = params["invitation"]
    document = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": params["endpoint"],
                "token": invited["token"],
                "caCertHashes": [invited["authority"]],
            }
        },
        "nodeRegistration": {
            "name": params["name"],
            "criSocket": RUNTIME,
            "imagePullPolicy": "IfNotPresent",
            "taints": [taint(text) for text in params["taints"]],
            "kubeletExtraArgs": [{"name": "node-ip", "value": params["address"]}, *registered(params["labels"])],
        },
    }
    if params["control_plane"]:
        document["controlPlane"] = {
            "localAPIEndpoint": {"advertiseAddress": params["address"], "bindPort": 6443},
            "certificateKey": invited["certificate_key"],
        }
    return document


def registered(labels: dict[str, str]) -> list[dict[str, str]]:
    """The kubelet's argument for labels that a node may register with: those of kubernetes.io are not its own to set, but for its zone
    (kubernetes.io/docs/reference/access-authn-authz/admission-controllers, NodeRestriction)."""
    reserved = ("kubernetes.io", "k8s.io")
    own = {key: value for key, value in labels.items() if key == ZONE or not key.partition("/")[0].endswith(reserved)}
    return [{"name": "node-labels", "value": ",".join(f"{key}={value}" for key, value in sorted(own.items()))}] if own else []


def taint(text: str) -> dict[str, str]:
    """`key=value:Effect`.

    >>> taint("node-role.kubernetes.io/control-plane=:NoSchedule")
    {'key': 'node-role.kubernetes.io/control-plane', 'effect': 'NoSchedule'}
    """
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def main() -> None:
    """The module's entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["first", "joined", "inviting", "left", "looked"], "required": True},
            "config": {"type": "path", "default": f"{FOLDER}/rackwright/kubeadm.yaml"},
            "name": {"type": "str"},
            "address": {"type": "str"},
            "endpoint": {"type": "str"},
            "taints": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "control_plane": {"type": "bool", "default": False},
            "invitation": {"type": "dict", "no_log": True},
            "returning": {"type": "list", "elements": "str", "default": []},
            "tolerated": {"type": "list", "elements": "str", "default": []},
            "renew_before": {"type": "int", "default": 45},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    membership = Membership(module.params, module.check_mode)
    invited = None
    try:
        if module.params["state"] == "first":
            membership.first()
        elif module.params["state"] == "joined":
            membership.joined()
        elif module.params["state"] == "left":
            membership.left()
        elif module.params["state"] == "inviting":
            invited = membership.inviting()
    except (KubeadmError, StaticPodsError) as error:
        if module.params["state"] == "inviting":  # Its answer is kept out of logs, and with it would be what went wrong.
            module.exit_json(changed=False, actions=membership.actions, invitation=None, trouble=str(error))
        module.fail_json(msg=str(error), actions=membership.actions)
    changed = bool(membership.actions) and module.params["state"] != "inviting"
    module.exit_json(changed=changed, actions=membership.actions, invitation=invited, joined=is_joined())


if __name__ == "__main__":
    main()
