"""The kubelet of every node runs as configured, and serves the cluster only."""

from __future__ import annotations

from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.kubelet import ANSWERS, COMPLAINTS, DROP_INS, FILES, FREE, not_refused
from rackwright.checks.cluster.probes.kubernetes import KUBELETS
from rackwright.checks.cluster.probes.units import KUBELET, UNITS
from rackwright.errors import UndeterminedError

DAY = 86400
OTHERS = 0o077
"""Seconds of a day, and the mode bits of group and others: inode(7)."""
CONTROL_PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"


def test_runs(ask: Ask, expect: Expect) -> None:
    """State of the daemon in systemd: the cluster notices a failure most of a minute later."""
    unit = ask(UNITS)[KUBELET]
    expect(unit.described, "active", holds=unit.state == "active")


def test_starts_with_the_node(ask: Ask, expect: Expect) -> None:
    """A kubelet that was started by hand does not return after the next boot."""
    unit = ask(UNITS)[KUBELET]
    expect("enabled" if unit.enabled else "disabled", "enabled")


def test_healthy(ask: Ask, expect: Expect) -> None:
    """A kubelet can be active in systemd but hung, or without its runtime."""
    expect(ask(ANSWERS)["kubelet"], "status 200")


def test_node_registered(ask: Ask, expect: Expect) -> None:
    """A kubelet without its own certificate has not joined: its bootstrap token expired, or was mistyped."""
    if ask(FILES).joined:
        expect("a certificate of its own", "a certificate of its own")
        return
    reason = next(iter(_complaints(ask)), "no reason in its log")
    expect(f"no certificate of its own: {reason}", "a certificate of its own", holds=False)


def test_certificate_is_renewed(ask: Ask, expect: Expect, limit: float) -> None:
    """The kubelet renews its certificate long before expiry; a node whose certificate expires leaves the cluster."""
    left = ask(FILES).certificates.get(CLIENT)
    if left is None:
        raise UndeterminedError("the kubelet has no certificate that could be read")
    expect(f"{left / DAY:.0f} days", f"more than {limit:g} days", holds=left > limit * DAY)


def test_runs_its_configuration(ask: Ask, node: Record, cluster: Record, expect: Expect) -> None:
    """An edited file that is not loaded takes effect at the next restart, unplanned."""
    running, written = _running(ask, node, cluster), ask(DROP_INS)
    expect({key: _configured(value, running.get(key, "none")) for key, value in written.items()}, written)


def test_authentication_enabled(ask: Ask, node: Record, cluster: Record, expect: Expect) -> None:
    """A client that may query a kubelet can read every pod's log and run commands in every pod."""
    running = _running(ask, node, cluster)
    found = {
        "anonymous": running["authentication"]["anonymous"]["enabled"],
        "authorization": running["authorization"]["mode"],
        "read-only port": running.get("readOnlyPort", 0),
        "renews its certificate": running.get("rotateCertificates", False),  # a kubelet leaves it out where it is off
    }
    expect(found, {"anonymous": False, "authorization": "Webhook", "read-only port": 0, "renews its certificate": True})


def test_anonymous_requests_refused(ask: Ask, expect: Expect) -> None:
    """Tested, not read from the configuration: an anonymous client requests pods and settings."""
    found = ask(ANSWERS)
    requests = {
        "pods": "anonymous request to the kubelet for pods",
        "configuration": "anonymous request to the kubelet for its configuration",
    }
    answers = {f"anonymous request for {what}": found[key] for what, key in requests.items()}
    read_only = not_refused({"read-only port": found["read-only port"]}, ("refused",))
    expect(not_refused(answers) | read_only, {})


def test_file_permissions(ask: Ask, expect: Expect) -> None:
    """A user who reads one of these files can act as the node, or as administrator of the whole cluster."""
    found = ask(FILES).private
    expect({path: f"user {owner}, mode {mode:o}" for path, (owner, mode) in found.items() if owner or mode & OTHERS}, {})


def test_static_pods_match_plan(ask: Ask, node: Record, cluster: Record, expect: Expect) -> None:
    """A file in the manifests folder is a pod with all privileges, outside Kubernetes' access control."""
    controls = node.name in cluster.scheduler.controllers
    expect(ask(FILES).static_pods, tuple(f"{part}.yaml" for part in CONTROL_PARTS) if controls else ())


def test_disk_space(ask: Ask, node: Record, expect: Expect, limit: float) -> None:
    """The disk holds images, pods and etcd: if it is full, the kubelet evicts pods and etcd refuses writes."""
    read = {folder: left for folder, left in ask(FREE).items() if not isinstance(left, UnreadableValue)}
    expect({folder: f"{left} %" for folder, left in read.items()}, f"at least {limit:g} % free", holds=min(read.values()) >= limit)
    unread = [left.why for left in ask(FREE).values() if isinstance(left, UnreadableValue)]
    if unread:
        raise UndeterminedError("; ".join(unread))


def _complaints(ask: Ask) -> Any:
    return ask(COMPLAINTS)


def _running(ask: Ask, node: Record, cluster: Record) -> Any:
    found = ask(KUBELETS, of=cluster.scheduler.controllers[0])[node.name]
    if isinstance(found, str):
        raise UndeterminedError(f"the kubelet does not report its configuration: {found}")
    return found


def _configured(written: Any, running: Any) -> Any:
    """Return the running value of each setting in the file. Other keys of a table are defaults of the kubelet."""
    if isinstance(written, dict) and isinstance(running, dict):
        return {key: _configured(value, running.get(key, "none")) for key, value in written.items()}
    return running
