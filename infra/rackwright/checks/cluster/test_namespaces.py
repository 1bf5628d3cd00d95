"""Namespaces match the plan: access, quotas and shared volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.subset import differences
from rackwright.checks.cluster.probes.kubernetes import OBJECTS, PODS, QUEUED, path_of

CLAIMS, QUOTAS = ("PersistentVolumeClaim",), ("ResourceQuota",)
NOT_HERE = ("Node", *QUOTAS, *QUEUED)
"""Kinds that have checks of their own."""
SYSTEM = "kube-system"
PRIVILEGED = "privileged"


def test_objects_match_plan(ask: Ask, planned_objects: Callable[..., list[dict[str, Any]]], expect: Expect) -> None:
    """A user who may edit an object can change what the plan grants to others."""
    live = ask(OBJECTS)
    ours = [one for one in planned_objects() if one["kind"] not in NOT_HERE]
    expect({_named(one): wrong for one in ours if (wrong := _difference(one, live))}, {})


def test_quotas_match_plan(ask: Ask, planned_objects: Callable[..., list[dict[str, Any]]], expect: Expect) -> None:
    """The API server must enforce the planned quota of each namespace."""
    live = ask(OBJECTS)
    planned = {_named(one): one["spec"]["hard"] for one in planned_objects(*QUOTAS)}
    found = {name: (one or {}).get("status", {}).get("hard", {}) for name, one in _by_name(planned_objects(*QUOTAS), live).items()}
    wrong = {name: list(differences(hard, found[name])) for name, hard in planned.items()}
    expect({name: lines for name, lines in wrong.items() if lines}, {})


def test_claims_are_bound(ask: Ask, planned_objects: Callable[..., list[dict[str, Any]]], expect: Expect) -> None:
    """Pods that use a claim without a volume wait indefinitely."""
    live = _by_name(planned_objects(*CLAIMS), ask(OBJECTS))
    found = {name: one["status"]["phase"] if one else "missing" for name, one in live.items()}
    expect(found, dict.fromkeys(found, "Bound"))


def test_pods_have_no_rights_on_nodes(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A pod that is privileged, or uses its node's namespaces and files, is root there, whatever its namespace permits."""
    trusted = {SYSTEM, *(one.name for one in cluster.scheduler.namespaces if one.pod_security == PRIVILEGED)}
    # A DaemonSet of an add-on works on its node, and users have no rights in its namespace.
    trusted |= {one.namespace for one in getattr(cluster.scheduler, "addons", ()) if "daemon_set" in vars(one)}
    found = {
        f"{pod.namespace}/{pod.name}": list(pod.rights)
        for pod in ask(PODS)
        if pod.rights and not pod.has_ended and pod.namespace not in trusted
    }
    expect(found, {})


def _named(one: Mapping[str, Any]) -> str:
    about = one["metadata"]
    return f"{one['kind']} {about.get('namespace', '')}{'/' if 'namespace' in about else ''}{about['name']}"


def _by_name(planned: Iterable[Mapping[str, Any]], live: Mapping[str, Any]) -> dict[str, Any]:
    return {_named(one): live[path_of(one)] for one in planned}


def _difference(one: Mapping[str, Any], live: Mapping[str, Any]) -> str | list[str]:
    found = live[path_of(one)]
    return "missing" if found is None else list(differences(one, found))
