"""Save and restore etcd snapshots of a Kubernetes cluster.

A restore has steps; each step is executed on all controllers before the next one. A marker beside the data records the last step, so
that a later run can complete or roll back an interrupted restore on all controllers in the same way.

Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.etcd_members import HERE, Members, trust
from ansible_collections.rackwright.cluster.plugins.module_utils.kubeadm_commands import FOLDER, KubeadmError, kubectl
from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks
from ansible_collections.rackwright.cluster.plugins.module_utils.static_pods import PORTS, StaticPods, StaticPodsError

DOCUMENTATION = r"""
module: etcd
short_description: Save and restore etcd snapshots
options:
  state:
    description:
      - C(snapshot) writes a snapshot to C(path) and verifies it. It needs one running member, not a majority.
      - C(queried) returns the last step of an interrupted restore on this controller.
      - C(staged) unpacks the snapshot in C(path) beside the data, for the members C(members). Files that are not snapshots, and
        snapshots of another cluster, are refused. No service is stopped, and no data is changed.
      - C(stopped) stops the static pods, C(restored) replaces the data with the unpacked snapshot, C(started) starts the static pods.
      - C(ready) waits until the API and the other components are ready; if they are not, the module returns C(error) and does not fail.
      - C(committed) commits the restore, after which it is never rolled back; C(cleaned) then deletes the previous data.
      - C(rolled_back) restores the previous data and starts the static pods.
    choices: [snapshot, queried, staged, stopped, restored, started, ready, committed, cleaned, rolled_back]
    required: true
  path: {type: path, description: "Snapshot file on this node (C(snapshot), C(staged))."}
  name: {type: str, description: "Name of this controller (C(staged), C(ready))."}
  members: {type: dict, default: {}, description: "Members of the restored etcd, name to address (C(staged))."}
  token: {type: str, default: restored, description: "Cluster token of this restore; members with different tokens ignore each other."}
  timeout: {type: int, default: 180, description: "Timeout for the components to become ready, in seconds (C(ready))."}
notes:
  - No module restores etcd on several controllers with a way back. The steps are states, so that each runs on all controllers
    before the next.
"""

EXAMPLES = r"""
- name: Save a snapshot
  rackwright.cluster.etcd:
    state: snapshot
    path: /var/lib/rackwright/etcd.snapshot

- name: Unpack the snapshot beside the data of this controller
  rackwright.cluster.etcd:
    state: staged
    path: /var/lib/rackwright/etcd.snapshot
    name: control0
    members: {control0: 10.77.0.10, control1: 10.77.0.11, control2: 10.77.0.12}
    token: restored-20261127
"""

RETURN = r"""
snapshot: {description: "Status of the snapshot from etcdutl, with hash, revision, totalKey, totalSize.", returned: success, type: dict}
stage: {description: "C(staged), C(restored) or C(committed) after an interrupted restore; empty otherwise.", returned: success, type: str}
error: {description: "Component that does not become ready or does not stop; empty on success.", returned: success, type: str}
"""

DATA = "/var/lib/etcd"
MARKER = "rackwright-restore.json"
BUMP = 1_000_000_000
"""Revisions skipped by a restore, so that watchers do not mistake old objects for new ones (etcd.io/docs, recovery)."""
HEALTHY = {"kube-apiserver": "/readyz", "kube-controller-manager": "/healthz", "kube-scheduler": "/healthz"}


class EtcdError(Exception):
    """An etcd error: place, problem, hint."""


def run(*words: str) -> str:
    """Return the output of a command. Raise EtcdError with its last line if it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=300
        )
    except FileNotFoundError:
        raise EtcdError(f"{words[0]}: command not found - check that the install steps ran on this node") from None
    except subprocess.TimeoutExpired:
        raise EtcdError(f"{' '.join(words[:3])}: not finished after 300 s - see `journalctl -u kubelet`") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        decisive = [line for line in lines if line.startswith(("Error", "panic", "error"))] or lines[-1:]
        raise EtcdError(f"{' '.join(words[:3])}: {decisive[0]}")
    return done.stdout


def examined(path: str) -> dict[str, Any]:
    """Verify a snapshot, and return its status."""
    try:
        found: dict[str, Any] = json.loads(run("etcdutl", "snapshot", "status", path, "--write-out=json"))
    except (EtcdError, ValueError) as error:
        raise EtcdError(f"{path}: not a complete etcd snapshot ({error}) - nothing was changed; use another file") from None
    return found


def save(path: str) -> dict[str, Any]:
    """Save a snapshot with mode 0600, and return its status."""
    run("etcdctl", "snapshot", "save", path, f"--endpoints={HERE}", *trust(f"{FOLDER}/pki/etcd"))
    os.chmod(path, 0o600)
    return examined(path)


def is_of_this_cluster(path: str) -> bool:
    """Return whether the snapshot contains this cluster's CA certificate, which every namespace has in a ConfigMap."""
    try:
        with open(f"{FOLDER}/pki/ca.crt", "rb") as stream:
            authority = stream.read().strip()
    except FileNotFoundError:
        raise EtcdError(f"{FOLDER}/pki/ca.crt: not found - check that this controller has a control plane; nothing was changed") from None
    with open(path, "rb") as stream:
        return bool(authority) and authority in stream.read()


def is_well(part: str) -> str:
    """Return why a component of this control plane is unhealthy; empty if it is healthy."""
    connection = http.client.HTTPSConnection("127.0.0.1", PORTS[part], context=ssl._create_unverified_context(), timeout=5)
    try:
        connection.request("GET", HEALTHY[part])
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{part} does not answer ({error})"
    finally:
        connection.close()
    return "" if status == 200 else f"{part} returns status {status}"


class Restore:
    """Execute one step of a restore on this controller."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.pods = StaticPods(f"{FOLDER}/manifests", f"{FOLDER}/rackwright/held")
        self.fresh, self.before, self.data = f"{DATA}/restored", f"{DATA}/before", f"{DATA}/member"

    def stage(self) -> str:
        """Return the last step of a restore; empty if none is in progress."""
        try:
            with open(f"{DATA}/{MARKER}", encoding="utf-8") as stream:
                return str(json.load(stream)["stage"])
        except FileNotFoundError:
            return "restored" if os.path.isdir(self.before) else ""
        except (ValueError, KeyError):
            return "restored" if os.path.isdir(self.before) else "staged"

    def staged(self) -> dict[str, Any]:
        """Unpack the snapshot next to the data, on the same volume: a mount point cannot be replaced, and a rename cannot cross volumes."""
        path, members, name = self.params["path"], self.params["members"], self.params["name"]
        found = examined(path)
        if not is_of_this_cluster(path):
            raise EtcdError(f"{path}: snapshot of another cluster, the CA certificate differs - nothing was changed; use another file")
        shutil.rmtree(self.fresh, ignore_errors=True)
        self._mark("staged")
        all_of_them = ",".join(f"{one}=https://{address}:2380" for one, address in members.items())
        own = [f"--name={name}", f"--initial-advertise-peer-urls=https://{members[name]}:2380"]
        whose = [f"--initial-cluster={all_of_them}", f"--initial-cluster-token={self.params['token']}", *own]
        run("etcdutl", "snapshot", "restore", path, f"--data-dir={self.fresh}", f"--bump-revision={BUMP}", "--mark-compacted", *whose)
        return found

    def restored(self) -> None:
        """Replace the data. The marker is written first, so that an interrupted swap is rolled back."""
        self._mark("restored")
        os.rename(self.data, self.before)
        os.rename(f"{self.fresh}/member", self.data)

    def committed(self) -> None:
        """Commit the restore: later runs complete it."""
        self._mark("committed")

    def cleaned(self) -> None:
        """Delete the previous data, then the marker."""
        for folder in (self.before, self.fresh):
            shutil.rmtree(folder, ignore_errors=True)
        self._unmark()
        self.pods.start()

    def rolled_back(self) -> None:
        """Restore the previous data."""
        if os.path.isdir(self.before):
            self.pods.stop()
            shutil.rmtree(self.data, ignore_errors=True)
            os.rename(self.before, self.data)
        shutil.rmtree(self.fresh, ignore_errors=True)
        self._unmark()
        self.pods.start()

    def ready(self) -> str:
        """Wait for etcd, the API, the other components and this node's static pods; return what is not ready, empty if all are."""
        reason = ""
        for _ in ticks(time.monotonic() + self.params["timeout"]):
            reason = self._unready()
            if not reason:
                return ""
        return reason

    def _unready(self) -> str:
        for part in HEALTHY:
            trouble = is_well(part)
            if trouble:
                return trouble
        try:
            Members(run, EtcdError, FOLDER).found()
            pods = [f"pod/{part}-{self.params['name']}" for part in PORTS]
            kubectl("--namespace=kube-system", "wait", "--for=condition=Ready", "--timeout=5s", *pods)
        except (EtcdError, KubeadmError) as error:
            return str(error)
        return ""

    def _mark(self, stage: str) -> None:
        with open(f"{DATA}/{MARKER}.new", "w", encoding="utf-8") as stream:
            json.dump({"stage": stage}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(f"{DATA}/{MARKER}.new", f"{DATA}/{MARKER}")

    def _unmark(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{DATA}/{MARKER}")


def done(state: str, params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Execute the state, and return the task's result."""
    restore = Restore(params)
    if state == "queried":
        return {"changed": False, "stage": restore.stage()}
    if check:
        return {"changed": state in ("cleaned", "rolled_back")}
    if state == "snapshot":
        return {"changed": False, "snapshot": save(params["path"])}
    if state == "staged":
        return {"changed": False, "snapshot": restore.staged()}
    if state == "ready":
        return {"changed": False, "error": restore.ready()}
    if state == "stopped":
        try:
            restore.pods.stop()
        except StaticPodsError as error:
            return {"changed": False, "error": str(error)}
    elif state == "started":
        restore.pods.start()
    else:
        getattr(restore, state)()
    return {"changed": state in ("restored", "cleaned", "rolled_back"), "error": ""}


def main() -> None:
    """Run the module."""
    states = ["snapshot", "queried", "staged", "stopped", "restored", "started", "ready", "committed", "cleaned", "rolled_back"]
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": states, "required": True},
            "path": {"type": "path"},
            "name": {"type": "str"},
            "members": {"type": "dict", "default": {}},
            "token": {"type": "str", "default": "restored", "no_log": False},
            "timeout": {"type": "int", "default": 180},
        },
        required_if=[("state", "snapshot", ["path"]), ("state", "staged", ["path", "name", "members"]), ("state", "ready", ["name"])],
        supports_check_mode=True,
    )
    try:
        result = done(module.params["state"], module.params, module.check_mode)
    except (EtcdError, StaticPodsError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
