"""Every Kubernetes controller serves the API as kubeadm configured it, and protects its secrets."""

from __future__ import annotations

from datetime import UTC, datetime

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.control import AUDIT, MANIFESTS, SECRETS
from rackwright.checks.cluster.probes.kubelet import ANSWERS, FILES, not_refused
from rackwright.checks.cluster.probes.kubernetes import DNS, HEALTH, OBJECTS, PODS, TOKENS
from rackwright.checks.cluster.probes.units import STATIC_PODS, UNITS
from rackwright.errors import UndeterminedError

DAY = 86400
"""Seconds of a day."""
PARTS = STATIC_PODS


def test_api_is_ready(ask: Ask, expect: Expect) -> None:
    """The API server names the component that is not ready: etcd, an unfinished hook, an informer."""
    expect(ask(HEALTH), {})


def test_static_pods_run(ask: Ask, expect: Expect) -> None:
    """State of the processes on the node, read without the API: the API reports a suspended one as running, and requests wait for it."""
    units = ask(UNITS)
    expect({part: units[f"{part}.pod"].state for part in PARTS}, dict.fromkeys(PARTS, "active"))


def test_components_running(node: Record, ask: Ask, expect: Expect) -> None:
    """Without a scheduler pods wait; without a controller manager nothing is reconciled; both faults are noticed late."""
    found = {pod.labels.get("component"): pod for pod in ask(PODS) if pod.node == node.name and "tier" in pod.labels}
    expect({part: found[part].described if part in found else "none" for part in PARTS}, dict.fromkeys(PARTS, "ready"))


def test_manifests_match_plan(ask: Ask, expect: Expect) -> None:
    """A manifest that was edited by hand takes effect at once and differs from the declared one."""
    expect(ask(MANIFESTS), dict.fromkeys(PARTS, "as written"))


def test_certificates_valid(ask: Ask, expect: Expect, limit: float) -> None:
    """kubeadm's certificates last a year; after that the API is inaccessible, even for renewal."""
    found = {path: left for path, left in ask(FILES).certificates.items() if not path.startswith("/var/lib/kubelet/")}
    if not found:
        raise UndeterminedError("no certificates found under /etc/kubernetes")
    short = {path: "unreadable" if left is None else f"{left / DAY:.0f} days" for path, left in found.items() if not _is_valid(left, limit)}
    expect(short, {}, holds=not short)


def test_secrets_are_encrypted(ask: Ask, expect: Expect) -> None:
    """Anyone with etcd's disk or backup can read every secret that is stored in clear text."""
    found = ask(SECRETS)
    state = {"stored": dict(found.kinds), "in clear text": list(found.clear), "next secret": found.next}
    good = set(found.kinds) <= {"secretbox"} and found.next == "secretbox"
    expect(state, "secretbox for all, and for the next secret", holds=good)


def test_audit_log_enabled(ask: Ask, expect: Expect) -> None:
    """A request for secrets that was refused a moment ago must be in the audit log."""
    found = ask(AUDIT)
    expect("logged" if found.is_recorded else f"not in the last {found.lines} lines", "logged")


def test_audit_log_has_no_secrets(ask: Ask, expect: Expect) -> None:
    """An audit log that records the contents of secrets is a second, unencrypted store of them."""
    expect(ask(AUDIT).secret_entries, ())


def test_bootstrap_tokens_expire(ask: Ask, expect: Expect) -> None:
    """A bootstrap token lets its holder add a node; rackwright's tokens last 15 minutes."""
    now = datetime.now(UTC)
    left = {name: _seconds_until(end, now) if end else None for name, end in ask(TOKENS).items()}
    wrong = {name: "never ends" if one is None else f"{one / DAY:.1f} days" for name, one in left.items() if one is None or one > DAY}
    expect(wrong, {})


def test_anonymous_requests_refused(ask: Ask, expect: Expect) -> None:
    """Tested, not read from the configuration: an anonymous client requests nodes and secrets."""
    found = ask(ANSWERS)
    answers = {f"anonymous request for {kind}": found[f"anonymous request to the API for {kind}"] for kind in ("nodes", "secrets")}
    expect(not_refused(answers), {})


def test_coredns_available(ask: Ask, expect: Expect) -> None:
    """With a single replica left, cluster DNS fails with the node that runs the replica."""
    found = ask(OBJECTS)[DNS]
    if found is None:
        expect("no CoreDNS", "CoreDNS")
    wanted = found["spec"].get("replicas", 1) or 1  # scaled to none, there is no DNS
    expect((found.get("status") or {}).get("availableReplicas", 0), wanted)


def _seconds_until(end: str, now: datetime) -> float:
    """Return the remaining life of a token; Kubernetes treats one whose expiry it cannot read as expired (bootstrap token secrets)."""
    try:
        found = datetime.fromisoformat(end)
    except ValueError:
        return 0
    return (found - now).total_seconds() if found.tzinfo else 0


def _is_valid(left: float | None, limit: float) -> bool:
    return left is not None and left > limit * DAY
