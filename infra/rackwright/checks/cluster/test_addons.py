"""Add-ons for users' jobs work: they run as declared, their hooks answer, their queues match the plan, their metrics are current."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.subset import differences
from rackwright.checks.cluster.probes.addons import DEPLOYMENTS, HOOKED, HOOKS, METRICS, QUEUES, workloads
from rackwright.checks.cluster.probes.kubernetes import QUEUED, path_of

WITH_STATUS = ("ClusterQueue", "LocalQueue")


def test_are_available(ask: Ask, cluster: Record, expect: Expect) -> None:
    """An add-on that is down admits no jobs; a release other than the declared one is not verified."""
    live, planned = ask(DEPLOYMENTS), {}
    found = {}
    for addon in cluster.scheduler.addons:
        paths = workloads(vars(addon))
        for key, path in paths.items():
            name = addon.name if len(paths) == 1 else f"{addon.name}, {path.rpartition('/')[2]}"
            count = len(cluster.scheduler.nodes) if key == "daemon_set" else 1
            one = live[path]
            found[name] = f"{one.available} of {one.planned}, {one.image}" if one else "missing"
            planned[name] = f"{count} of {count}, {addon.image}"
    expect(found, planned)


def test_webhooks_respond(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Tested with dry-run objects: if a webhook does not answer, no job can be created."""
    expect(ask(HOOKS), {one.name: "answers" for one in cluster.scheduler.addons if one.name in HOOKED})


def test_queues_match_plan(ask: Ask, planned_objects: Callable[..., list[dict[str, Any]]], expect: Expect) -> None:
    """Queues define what a namespace owns and may borrow; an inactive queue admits nothing."""
    live = ask(QUEUES)
    wrong = {f"{one['kind']} {one['metadata']['name']}": list(_differences(one, live[path_of(one)])) for one in planned_objects(*QUEUED)}
    expect({name: lines for name, lines in wrong.items() if lines}, {})


def test_metrics_available(ask: Ask, cluster: Record, expect: Expect, limit: float) -> None:
    """`kubectl top` and every autoscaler need current figures of every node."""
    found = ask(METRICS)
    planned = [one.name for one in cluster.scheduler.nodes]
    ages = {name: f"{found.ages[name]:g} s old" if name in found.ages else found.error or "no figures" for name in planned}
    expect(ages, f"figures of every node, at most {limit:g} s old", holds=all(found.ages.get(name, limit + 1) <= limit for name in planned))


def _differences(one: Mapping[str, Any], found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is None:
        yield "missing"
        return
    yield from differences({key: value for key, value in one.items() if key != "metadata"}, found)
    conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", ())}
    if one["kind"] in WITH_STATUS and conditions.get("Active", {}).get("status") != "True":
        yield f"not active: {conditions.get('Active', {}).get('message', 'no message')}"
