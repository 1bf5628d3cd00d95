"""What a Kubernetes cluster holds, saved as a snapshot of etcd and put back from one.

Runs on the first controller. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.rackwright_probe import ticks
from ansible.module_utils.rackwright_static_pods import StaticPods, StaticPodsError

DOCUMENTATION = r"""
module: rackwright_etcd
short_description: A snapshot of etcd, made or put back
options:
  state:
    description:
      - C(saved) writes a snapshot to C(path) and reads it back.
      - C(restored) puts the one in C(path) in the place of what the cluster holds. The control plane is stopped meanwhile; pods go on.
        A file that is no snapshot, or one of another cluster, is refused before anything is touched. Where the API does not answer
        afterwards, what was there before is put back. Only for a control plane of one controller.
    choices: [saved, restored]
    required: true
  path: {type: path, required: true, description: The snapshot's file on this node.}
  timeout: {type: int, default: 180, description: Seconds the API may take to answer (C(restored)).}
"""

RETURN = r"""
snapshot: {description: "What etcdutl says of it: hash, revision, totalKey, totalSize.", returned: success, type: dict}
"""

FOLDER = "/etc/kubernetes"
DATA = "/var/lib/etcd"
BUMP = 1_000_000_000
"""Revisions skipped by a restore, so that nobody who watched takes an old object for a new one (etcd.io/docs, recovery)."""


class EtcdError(Exception):
    """What etcd refuses: where, what, what now."""


def run(*words: str) -> str:
    """What a command prints; its last words where it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=300)
    except FileNotFoundError:
        raise EtcdError(f"{words[0]}: there is no such command - are the install steps done on this node?") from None
    except subprocess.TimeoutExpired:
        raise EtcdError(f"{' '.join(words[:3])}: no end after 300 s - see `journalctl -u kubelet`") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        decisive = [line for line in lines if line.startswith(("Error", "panic", "error"))] or lines[-1:]
        raise EtcdError(f"{' '.join(words[:3])}: {decisive[0]}")
    return done.stdout


def examined(path: str) -> dict[str, Any]:
    """What a snapshot holds, after it was read from end to end."""
    try:
        found: dict[str, Any] = json.loads(run("etcdutl", "snapshot", "status", path, "--write-out=json"))
    except (EtcdError, ValueError) as error:
        raise EtcdError(f"{path}: is no snapshot of etcd, or not a whole one ({error}) - nothing was touched, take another file") from None
    return found


def save(path: str) -> dict[str, Any]:
    """Write a snapshot that its owner alone reads."""
    pki = f"{FOLDER}/pki/etcd"
    trust = [f"--cacert={pki}/ca.crt", f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key"]
    run("etcdctl", "snapshot", "save", path, "--endpoints=https://127.0.0.1:2379", *trust)
    os.chmod(path, 0o600)
    return examined(path)


def is_of_this_cluster(path: str) -> bool:
    """Whether the authority of this node's cluster is among its objects: a ConfigMap in every namespace holds it, as it is."""
    try:
        with open(f"{FOLDER}/pki/ca.crt", "rb") as stream:
            authority = stream.read().strip()
    except FileNotFoundError:
        raise EtcdError(f"{FOLDER}/pki/ca.crt: is missing - is this the first controller? Nothing was touched") from None
    with open(path, "rb") as stream:
        return bool(authority) and authority in stream.read()


def member(manifest: str) -> list[str]:
    """How etcd's static pod calls itself, as options of a restore."""
    try:
        with open(manifest, encoding="utf-8") as stream:
            said = dict(re.findall(r"^\s*- --([a-z-]+)=(\S+)$", stream.read(), re.MULTILINE))
        if "," in said["initial-cluster"]:
            raise EtcdError(f"{manifest}: etcd has several members, and each would need the snapshot - nothing was touched")
        return [f"--{name}={said[name]}" for name in ("name", "initial-cluster", "initial-advertise-peer-urls")]
    except (OSError, KeyError) as error:
        raise EtcdError(f"{manifest}: does not say how etcd runs ({error!r}) - `rackwright up` brings it back first") from None


def answers(timeout: int) -> str:
    """Empty once the API is ready; else what it last said."""
    said = ""
    for _ in ticks(time.monotonic() + timeout):
        try:
            run("kubectl", f"--kubeconfig={FOLDER}/admin.conf", "--request-timeout=5s", "get", "--raw", "/readyz")
        except EtcdError as error:
            said = str(error)
            continue
        return ""
    return said


def restore(path: str, pods: StaticPods, timeout: int) -> None:
    """Put the snapshot in the place of what is there; back again where the API does not come."""
    options, fresh, before = member(f"{pods.manifests}/etcd.yaml"), f"{DATA}/restored", f"{DATA}/before"
    if os.path.isdir(before):
        raise EtcdError(f"{before}: is what a restore that was cut off put aside - keep it or remove it, then run the same again")
    shutil.rmtree(fresh, ignore_errors=True)
    # Beside the data, on its volume: a mount cannot be replaced, and a rename does not cross it.
    run("etcdutl", "snapshot", "restore", path, f"--data-dir={fresh}", f"--bump-revision={BUMP}", "--mark-compacted", *options)
    pods.stop()
    try:
        os.rename(f"{DATA}/member", before)
        os.rename(f"{fresh}/member", f"{DATA}/member")
    finally:
        pods.start()
        shutil.rmtree(fresh, ignore_errors=True)
    said = answers(timeout)
    if not said:
        shutil.rmtree(before)
        return
    pods.stop()
    shutil.rmtree(f"{DATA}/member")
    os.rename(before, f"{DATA}/member")
    pods.start()
    raise EtcdError(f"{path}: with it the API does not answer within {timeout} s ({said}) - not restored, what was there is back")


def main() -> None:
    """The module's entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["saved", "restored"], "required": True},
            "path": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    path, pods, found = module.params["path"], StaticPods(f"{FOLDER}/manifests", f"{FOLDER}/rackwright/held"), {}
    try:
        if module.params["state"] == "restored":
            found = examined(path)
            if not is_of_this_cluster(path):
                raise EtcdError(
                    f"{path}: is of another cluster, whose authority is not this one's - nothing was touched, take another file"
                )
            if not module.check_mode:
                restore(path, pods, module.params["timeout"])
        elif not module.check_mode:
            found = save(path)
    except (EtcdError, StaticPodsError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=module.params["state"] == "restored", snapshot=found)


if __name__ == "__main__":
    main()
