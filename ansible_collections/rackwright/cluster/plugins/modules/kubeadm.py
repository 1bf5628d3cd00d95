"""Create, join and maintain the membership of a node in a Kubernetes cluster with kubeadm.

Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.certificates import certificates, ends_within
from ansible_collections.rackwright.cluster.plugins.module_utils.etcd_members import without_majority
from ansible_collections.rackwright.cluster.plugins.module_utils.kubeadm_commands import FOLDER, KubeadmError, kubectl, run
from ansible_collections.rackwright.cluster.plugins.module_utils.kubeadm_config import RUNTIME, joining
from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks
from ansible_collections.rackwright.cluster.plugins.module_utils.static_pods import StaticPods, StaticPodsError

DOCUMENTATION = r"""
module: kubeadm
short_description: Manage the membership of a node in a Kubernetes cluster
options:
  state:
    description:
      - C(initialized) creates the cluster on this node, or recreates it from etcd's data and the CA if they exist and the node is new. If
        the cluster exists, its static pods and uploaded configuration follow C(config), and control plane certificates that expire soon are
        renewed. The kubelet renews its own certificate. An API that does not answer is an error.
      - C(joined) joins the node with C(join_credentials), with C(control_plane) as another controller. A node that is a controller already
        follows C(config) and renews its certificates like the first one. Data of an earlier membership is deleted before a join.
      - C(queried) returns whether the node has joined, and for a controller whether its API answers.
      - C(reset) resets the node with kubeadm; a member of etcd is removed from it.
    choices: [initialized, joined, reset, queried]
    required: true
  config: {type: path, description: Configuration file of kubeadm on a controller., default: /etc/kubernetes/rackwright/kubeadm.yaml}
  name: {type: str, description: Name of the node (C(joined)).}
  address: {type: str, description: Address of the node (C(joined)).}
  endpoint: {type: str, description: "Endpoint of the API, as C(address:port)."}
  taints: {type: list, elements: str, default: [], description: "Taints at registration (C(joined)), as C(key=value:Effect)."}
  labels: {type: dict, default: {}, description: "Labels at registration (C(joined)), so that pods that select them start at once."}
  control_plane: {type: bool, default: false, description: "Whether the node is a control plane node (C(joined), C(queried))."}
  controllers: {type: dict, default: {}, description: "Controllers of the plan, name to address (C(initialized))."}
  join_credentials: {type: dict, description: "Result of M(rackwright.cluster.kubeadm_token), and C(certificate_key) for controllers."}
  ignore_preflight_errors: {type: list, elements: str, default: [], description: Preflight errors of kubeadm to ignore.}
  renew_before: {type: int, default: 45, description: Remaining days of a certificate at which a controller renews all of its own.}
  timeout: {type: int, default: 180, description: "Timeout of the API, in seconds."}
notes:
  - No module of ansible-core or a collection manages kubeadm. With C(ansible.builtin.command), check mode and a second run know
    nothing of the cluster.
"""

EXAMPLES = r"""
- name: Create the cluster
  rackwright.cluster.kubeadm:
    state: initialized
    endpoint: 10.77.0.10:6443
    controllers: {control0: 10.77.0.10}

- name: Join a worker
  rackwright.cluster.kubeadm:
    state: joined
    name: worker0
    address: 10.77.0.16
    endpoint: 10.77.0.10:6443
    labels: {node-role.kubernetes.io/worker: ""}
    join_credentials: "{{ join_credentials }}"
"""

RETURN = r"""
joined: {description: "Whether the node has joined, as a complete controller if it is one.", returned: always, type: bool}
serves: {description: Whether the local API of a controller is ready (C(queried))., returned: always, type: bool}
remembers: {description: Revision of etcd's data on a recreated controller (C(queried)); 0 without data., returned: always, type: int}
actions: {description: "Actions that were, or in check mode would be, executed.", returned: always, type: list}
"""

KUBELET = "/var/lib/kubelet"
MANIFESTS = f"{FOLDER}/manifests"
ETCD = "/var/lib/etcd"
STAMP = f"{FOLDER}/rackwright/applied.json"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
FORMATION = 900
"""Seconds for kubeadm init and join: the kubelet's and the control plane's health checks and a call of the API have 4 minutes each
(kubeadm-config.v1beta4, Timeouts)."""
OF_A_CUT_OFF_INIT = [
    *(f"FileAvailable--etc-kubernetes-manifests-{part}.yaml" for part in PARTS),
    *(f"Port-{port}" for port in (6443, 10250, 10257, 10259, 2379, 2380)),
]
"""Preflight errors of kubeadm after an interrupted init, whose phases may be repeated."""


def digest(path: str) -> str:
    """Return the SHA-256 of a file; empty if it is missing."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return ""


def static_pods() -> StaticPods:
    """Return the control plane's static pods on this node."""
    return StaticPods(MANIFESTS, f"{FOLDER}/rackwright/held")


def is_joined() -> bool:
    """Return whether this node has joined; an interrupted join leaves its bootstrap kubeconfig."""
    return os.path.exists(f"{FOLDER}/kubelet.conf") and not os.path.exists(f"{FOLDER}/bootstrap-kubelet.conf")


def has_control_plane() -> bool:
    """Return whether kubeadm has written a control plane here."""
    return os.path.exists(f"{FOLDER}/admin.conf") and os.path.exists(f"{MANIFESTS}/kube-apiserver.yaml")


def is_controller() -> bool:
    """Return whether this node is a complete controller; the stamp is written last."""
    return os.path.exists(STAMP) and (has_control_plane() or static_pods().interrupted())


def serves() -> bool:
    """Return whether the local API is ready, with a majority of etcd."""
    try:
        kubectl("get", "--raw", "/readyz")
    except KubeadmError:
        return False
    return True


def remembered() -> int:
    """Return the revision of etcd's data on a persistent disk; 0 without data."""
    try:
        return int(json.loads(run("etcdutl", "snapshot", "status", f"{ETCD}/member/snap/db", "--write-out=json"))["revision"])
    except (KubeadmError, ValueError, KeyError):
        return 0


def query(control_plane: bool) -> dict[str, Any]:
    """Return the membership of this node."""
    if not control_plane:
        return {"joined": is_joined()}
    controls = is_joined() and is_controller()
    return {"joined": controls, "serves": controls and serves(), "remembers": 0 if controls else remembered()}


class Membership:
    """Execute one task."""

    def __init__(self, params: dict[str, Any], check: bool) -> None:
        self.params = params
        self.check = check
        self.actions: list[str] = []
        self.pods = static_pods()

    def initialized(self) -> None:
        """Maintain the primary controller; create the cluster if there is none."""
        if not self._resume():
            return
        if not is_controller():
            self._make()
            return
        self._update_static_pods(upload=True)
        self._renew()
        if not self.check:
            self._wait()

    def joined(self) -> None:
        """Join the node, or maintain a controller that has joined."""
        controls = self.params["control_plane"]
        if controls and is_controller():
            if self._resume():
                self._update_static_pods(upload=False)
                self._renew()
            return
        if is_joined() and not controls:
            return
        self.actions.append(f"join {self.params['endpoint']}{' as a controller' if controls else ''}")
        if self.check:
            return
        if not self.params["join_credentials"]:
            raise KubeadmError("kubeadm join: no join token - check that the API of the primary controller answers")
        self._delete_earlier_membership()
        handle, path = tempfile.mkstemp(suffix=".json")  # Readable by root only, because it contains the token.
        try:
            with os.fdopen(handle, "w") as stream:
                json.dump(joining(self.params), stream)
            run("kubeadm", "join", "--config", path, *self._ignored_errors(), timeout=FORMATION)
        finally:
            os.unlink(path)
        if controls:
            self._wait()
            self._remember()

    def reset(self) -> None:
        """Reset the node: stop what it ran, and delete its pod network interfaces."""
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

    def _delete_earlier_membership(self) -> None:
        """Delete the remains of an interrupted join and the state of an earlier membership.

        kubeadm would fail on the former; with the latter, a node would offer GPUs before its plugin runs. A controller's etcd data and
        certificates are outdated."""
        controls = self.params["control_plane"]
        survived = os.path.isdir(ETCD) and os.listdir(ETCD) if controls else []
        if controls and os.path.exists(STAMP):
            os.unlink(STAMP)
        known = (f"{FOLDER}/kubelet.conf", f"{KUBELET}/config.yaml", *((f"{FOLDER}/pki/ca.key",) if controls else ()))
        if survived or any(os.path.exists(path) for path in known):
            run("kubeadm", "reset", "--force", "--cri-socket", RUNTIME)
        if controls:
            for name in os.listdir(ETCD) if os.path.isdir(ETCD) else []:
                shutil.rmtree(f"{ETCD}/{name}", ignore_errors=True)
            shutil.rmtree(f"{FOLDER}/rackwright/held", ignore_errors=True)

    def _resume(self) -> bool:
        """Restart static pods that an interrupted run had stopped; return whether there is more to do."""
        if not self.pods.interrupted():
            return True
        self.actions.append("restart the static pods")
        if self.check:
            return False
        self.pods.start()
        self._wait()
        return True

    def _make(self) -> None:
        survived, cut_off = os.path.isdir(f"{ETCD}/member"), has_control_plane()
        self.actions.append(
            "finish creating the cluster" if cut_off else "recreate the cluster from the etcd data" if survived else "create the cluster"
        )
        if self.check:
            return
        if not cut_off:
            self._refuse_a_second()
        ignored = [*(["DirAvailable--var-lib-etcd"] if survived else []), *(OF_A_CUT_OFF_INIT if cut_off else [])]
        alone = survived and len(self.params["controllers"]) > 1
        config = self._single_member_config() if alone else self.params["config"]
        run("kubeadm", "init", "--config", config, "--skip-token-print", *self._ignored_errors(*ignored), timeout=FORMATION)
        if alone:
            self._phase("etcd", "local")
            self._upload()
            os.unlink(config)
        self._remember()
        self._wait()

    def _refuse_a_second(self) -> None:
        """Raise KubeadmError if an API answers at the cluster's endpoint, because this node would create a second cluster."""
        host, _, port = (self.params["endpoint"] or "").partition(":")
        if not host or len(self.params["controllers"]) < 2:
            return
        with socket.socket() as probe:
            probe.settimeout(3)
            if probe.connect_ex((host, int(port))) == 0:
                raise KubeadmError(
                    f"{host}:{port}: an API server answers, but no reachable controller runs one - start "
                    "the controller that runs it, or find the owner of the address; no cluster was created"
                )

    def _single_member_config(self) -> str:
        """Write a kubeadm configuration for an etcd without the other members, whose data is lost or which join again; return its path."""
        path = f"{self.params['config']}.alone"
        kind, forced = "kind: ClusterConfiguration\n", 'etcd: {local: {extraArgs: [{name: force-new-cluster, value: "true"}]}}\n'
        with open(self.params["config"], encoding="utf-8") as stream:
            text = stream.read().replace(kind, kind + forced)
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
            stream.write(text)
        return path

    def _update_static_pods(self, *, upload: bool) -> None:
        """Restore static pods and the uploaded configuration to the declared state."""
        known = self._stamp()
        changed = [name for name in PARTS if digest(f"{MANIFESTS}/{name}.yaml") != known.get(name)]
        if known.get("config") == digest(self.params["config"]) and not changed:
            return
        self.actions.append(f"rewrite the static pods{': ' + ', '.join(changed) if changed else ''}")
        if self.check:
            return
        self._phase("control-plane", "all")
        self._phase("etcd", "local")
        if upload:
            self._upload()
        self._remember()
        self._wait()

    def _phase(self, *phase: str) -> None:
        run("kubeadm", "init", "phase", *phase, "--config", self.params["config"])

    def _upload(self) -> None:
        """Upload the configuration; repeat until the timeout, because the static pods that were just rewritten restart meanwhile.

        A call of the API may fail at once or time out: etcd and the API server of a single controller restart one after the other, and
        keepalived withdraws the endpoint's address until its health check passes again.
        """
        failed = KubeadmError("kubeadm was not started")
        for _ in ticks(time.monotonic() + self.params["timeout"]):
            try:
                self._phase("upload-config", "all")
                return
            except KubeadmError as error:
                failed = error
        raise failed

    def _renew(self) -> None:
        """Renew the control plane's certificates if one expires soon."""
        try:
            ending = [name for name, text in certificates(FOLDER) if ends_within(text, self.params["renew_before"])]
        except FileNotFoundError:
            raise KubeadmError("openssl: command not found - check that the install steps ran on this node") from None
        if not ending:
            return
        self.actions.append(f"renew all certificates, because these expire soon: {', '.join(ending)}")
        if self.check:
            return
        run("kubeadm", "certs", "renew", "all", "--config", self.params["config"])
        self.pods.stop()  # Running components use the old certificates until they restart.
        self.pods.start()
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
        message = ""
        for _ in ticks(time.monotonic() + self.params["timeout"]):
            try:
                kubectl("get", "--raw", "/readyz")
            except KubeadmError as error:
                message = str(error)
                continue
            return
        lost = without_majority(self.params["controllers"])
        raise KubeadmError(lost or f"the API did not answer within {self.params['timeout']} s: {message}")

    def _ignored_errors(self, *more: str) -> list[str]:
        names = [*self.params["ignore_preflight_errors"], *more]
        return [f"--ignore-preflight-errors={','.join(names)}"] if names else []


def main() -> None:
    """Run the module."""
    states = ["initialized", "joined", "reset", "queried"]
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": states, "required": True},
            "config": {"type": "path", "default": f"{FOLDER}/rackwright/kubeadm.yaml"},
            "name": {"type": "str"},
            "address": {"type": "str"},
            "endpoint": {"type": "str"},
            "taints": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "control_plane": {"type": "bool", "default": False},
            "controllers": {"type": "dict", "default": {}},
            "join_credentials": {"type": "dict", "no_log": True},
            "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
            "renew_before": {"type": "int", "default": 45},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    membership, state = Membership(module.params, module.check_mode), module.params["state"]
    if state == "queried":
        module.exit_json(changed=False, actions=[], **query(module.params["control_plane"]))
    try:
        getattr(membership, state)()
    except (KubeadmError, StaticPodsError) as error:
        module.fail_json(msg=str(error), actions=membership.actions)
    module.exit_json(changed=bool(membership.actions), actions=membership.actions, joined=is_joined())


if __name__ == "__main__":
    main()
