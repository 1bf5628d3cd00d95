"""What is installed for users' jobs serves them: it runs as declared, its hooks answer, its queues are the plan's, its figures are told."""

from __future__ import annotations

from cluster.harness.subset import differences
from cluster.probes.addons import DEPLOYMENTS, HOOKED, HOOKS, MEASUREMENTS, QUEUES, deployment
from cluster.probes.kubernetes import QUEUED, path_of

WITH_STATUS = ("ClusterQueue", "LocalQueue")


def test_are_available(ask, cluster, expect):
    """Whoever is not there admits no job; another release than the declared one was proven by nobody."""
    live = {one.name: ask(DEPLOYMENTS)[deployment(vars(one))] for one in cluster.scheduler.addons}
    found = {name: f"{one.available} of {one.asked}, {one.image}" if one else "missing" for name, one in live.items()}
    expect(found, {one.name: f"1 of 1, {one.image}" for one in cluster.scheduler.addons})


def test_hooks_answer(ask, cluster, expect):
    """Tried, with objects that are not kept: where a hook is silent, nobody can make a job at all."""
    expect(ask(HOOKS), {one.name: "answers" for one in cluster.scheduler.addons if one.name in HOOKED})


def test_queues_match_plan(ask, planned_objects, expect):
    """What a namespace owns and may borrow; and a queue that is not active admits nothing."""
    live = ask(QUEUES)
    wrong = {f"{one['kind']} {one['metadata']['name']}": list(_wrong(one, live[path_of(one)])) for one in planned_objects(*QUEUED)}
    expect({name: lines for name, lines in wrong.items() if lines}, {})


def test_measurements_are_told(ask, cluster, expect, limit):
    """`kubectl top` and every autoscaler go by them: of every node, and of now."""
    found = ask(MEASUREMENTS)
    planned = [one.name for one in cluster.scheduler.nodes]
    told = {name: f"{found.ages[name]:g} s old" if name in found.ages else found.trouble or "no figures" for name in planned}
    expect(told, f"figures of every node, at most {limit:g} s old", holds=all(found.ages.get(name, limit + 1) <= limit for name in planned))


def _wrong(one, found):
    if found is None:
        yield "missing"
        return
    yield from differences({key: value for key, value in one.items() if key != "metadata"}, found)
    conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", ())}
    if one["kind"] in WITH_STATUS and conditions.get("Active", {}).get("status") != "True":
        yield f"not active: {conditions.get('Active', {}).get('message', 'nothing is said of it')}"
