"""Pods run where they should, reach each other, and get what they asked for. GPUs on idle nodes only: a node at work is left in peace."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from cluster.probes.pods import LEFT, PODS, parse_devices, told
from rackwright.errors import CouldNotTell


@pytest.fixture
def pods(ask, members):
    """The pods that ran."""
    return ask(PODS, of=members("@control")[0])


def test_run_on_every_node(node, pods, expect):
    """Placed, started, run to its end."""
    plain = pods.part(node.name, "plain")
    ran = plain["phase"] == "Succeeded"
    expect(f"ran on {plain['node']}" if ran else f"did not: {plain['why'] or plain['phase']}", f"ran on {node.name}")


def test_reach_each_other(node, pods, expect):
    """Every other node's pod by its address: a route that one node lacks is seen from there alone."""
    found = {other: told(one) for other, one in pods.network(node.name)["reach"].items()}
    asked = {other: one for other, one in found.items() if one.said != "no pod runs there"}
    if not asked:
        raise CouldNotTell("no pod runs elsewhere")
    expect({other: one.answer for other, one in asked.items()}, {other: f"answers-{other}" for other in asked})


def test_find_names_inside(node, cluster, pods, expect):
    """A service of its own namespace, and the API's in another."""
    found = {name: told(one).answer for name, one in pods.network(node.name)["names"].items()}
    first = str(next(IPv4Network(cluster.scheduler.services).hosts()))
    expect(found, {"answers": pods.data["service"], "kubernetes.default": first})


def test_find_names_outside(node, pods, expect):
    """The cluster's own DNS hands on what it does not know, and hands back what the network's servers say."""
    outside = pods.data["outside"]
    if not outside or not outside["servers"]:
        raise CouldNotTell("the cluster's DNS is told of no name server")
    silent = [server for server, said in outside["servers"].items() if said is None]
    if silent:
        expect(f"{', '.join(silent)} says nothing of {outside['name']}", "every name server answers")
    found = told(pods.network(node.name)["outside"])
    unheard = told(pods.network(node.name)["unheard"])
    if unheard.rc != 0 and "no such host" not in unheard.answer:
        expect(f"a name that is not known: {unheard.said}", "handed on, and said not to be")
    known = [", ".join(said) for said in outside["servers"].values()]
    lacks = found.rc != 0 and "no such host" in found.said
    said = "" if lacks else ", ".join(found.answer.split())
    expect(f"{outside['name']}: {said or 'no such name'}", f"{outside['name']}: {known[0] or 'no such name'}", holds=said in known)


def test_service_answers(node, pods, expect):
    """One address in front of pods of several nodes: each of them is met behind it."""
    calls = pods.network(node.name)["service"]
    if calls["rc"] is None and not calls["found"]:
        raise CouldNotTell(f"no command got into the pod: {calls['said']}")
    if not calls["behind"]:
        raise CouldNotTell("no pod runs behind it")
    missed = sorted(set(calls["behind"]) - set(calls["found"]))
    expect(calls["found"] if not missed or not calls["said"] else f"{', '.join(calls['found'])}; {calls['said']}", calls["behind"])


def test_node_port_answers(node, pods, expect):
    """From the control plane, on every node: its own pod, and through it those of the others."""
    calls = pods.port(node.name)
    missed = set(calls["behind"]) - set(calls["found"])
    expect(f"{', '.join(calls['found']) or 'nobody'}; {calls['said']}" if missed else calls["behind"], calls["behind"])


def test_get_the_gpus_they_ask_for(node, pods, expect):
    """Exactly as many, and told to use as many."""
    gpus = pods.part(node.name, "gpus")
    given = {part: gpus[part] for part in ("first", "second") if part in gpus}
    found = {part: str(_devices(one)) if "devices" in one else f"does not run: {one['why'] or one['phase']}" for part, one in given.items()}
    expect(found, {part: f"{one['asked']} device files, {one['asked']} visible" for part, one in given.items()})


def test_share_no_gpu(node, pods, expect):
    """Two pods at the same time on the same node have different GPUs."""
    gpus = pods.part(node.name, "gpus")
    if not all("devices" in gpus[part] for part in ("first", "second")):
        raise CouldNotTell("the two pods did not run at the same time")
    first, second = (_devices(gpus[part]).files for part in ("first", "second"))
    both = set(first) & set(second)
    expect(f"{', '.join(first)} and {', '.join(second)}", "none in common", holds=not both and bool(first and second))


def test_get_no_gpu_unasked(node, pods, expect):
    """A pod that asks for none must not find any."""
    found = parse_devices(_log(pods.part(node.name, "plain")))
    expect(str(found), "0 device files, 0 visible")


def test_whole_node_of_gpus(node, pods, expect):
    """One pod gets all of them, once those before it have ended."""
    whole = pods.part(node.name, "gpus")["whole"]
    found = f"sees {len(parse_devices(whole['log']['text']).files)}" if whole.get("log") else f"does not run: {whole['why']}"
    expect(found, f"sees {node.gpus.count}")


def test_excess_waits(node, pods, expect):
    """With all GPUs taken, one pod more waits, and the scheduler says for what."""
    excess = pods.part(node.name, "gpus")["excess"]
    if not excess["taken"]:
        raise CouldNotTell("the node's GPUs were not all taken")
    waits = excess["waits"]
    expect(waits or excess["phase"], "waits: Insufficient nvidia.com/gpu", holds="Insufficient nvidia.com/gpu" in waits)


def test_quota_is_enforced(pods, expect):
    """In a copy of each namespace: a pod within its quota is taken, one beyond any of its limits is not."""
    found, planned = {}, {}
    for name, copy in pods.data["namespaces"].items():
        if copy["within"]:
            tried = {"a small pod": copy["within"], **{f"beyond {key}": one for key, one in copy["over"].items()}}
            found |= {f"{name}, {what}": _admission(one, "exceeded quota") for what, one in tried.items()}
            planned |= {f"{name}, {what}": "refused" if what.startswith("beyond") else "taken" for what in tried}
    expect(found, planned)


def test_pod_security_is_enforced(pods, expect):
    """A privileged pod is the node's root: it is taken only where the plan says so."""
    tried = {name: copy["privileged"] for name, copy in pods.data["namespaces"].items() if copy["privileged"]}
    tried["a namespace at level baseline"] = pods.data["privileged"]
    expect({name: _admission(one, "violates PodSecurity") for name, one in tried.items()}, dict.fromkeys(tried, "refused"))


def test_policies_hold(pods, expect):
    """Tried from both sides: pods of a namespace reach each other and find names; those of another neither reach them nor are reached."""
    found = pods.data["policies"]
    if not found or "trouble" in found:
        raise CouldNotTell((found or {}).get("trouble") or "no node takes pods")
    wrong = [one["said"] for one in found.values() if one["rc"] is None]
    if wrong:
        raise CouldNotTell(f"no command got into the pod: {wrong[0]}")
    said = {what: "answered" if one["rc"] == 0 else "silence" for what, one in found.items()}
    expect(said, {"inside": "answered", "names": "answered", "in": "silence", "out": "silence"})


def test_claim_is_shared(node, pods, expect):
    """What a pod on one node wrote into the claim, one on another reads."""
    found = pods.storage(node.name)
    if "read" not in found:
        expect(f"its pod does not run: {found['pod']['why'] or found['pod']['phase']}", "runs")
    if told(found["wrote"]).rc != 0:
        expect(f"cannot write: {told(found['wrote']).answer}", "writes")
    expect(told(found["read"]).answer, found["planned"])


def test_logs_and_exec_work(node, pods, expect):
    """Both go through the API to the kubelet, and back."""
    log, version = pods.part(node.name, "plain")["log"], told(pods.network(node.name)["version"])
    found = {"logs": "answered" if log["text"] else log["said"] or "empty", "exec": "answered" if version.rc == 0 else version.said}
    expect(found, {"logs": "answered", "exec": "answered"})


def test_ended_pods_leave_nothing(node, ask, expect):
    """No folder and no control group: what stays keeps memory and mounts."""
    expect(ask(LEFT), ())


def _devices(part):
    """What a pod said of its GPUs."""
    return parse_devices(told(part["devices"]).answer)


def _log(part):
    """What a pod printed; CouldNotTell where that cannot be had."""
    if not part["log"]["text"]:
        raise CouldNotTell(f"its log cannot be had: {part['log']['said'] or 'it is empty'}")
    return part["log"]["text"]


def _admission(one, words):
    """What the API made of a pod, where it refuses for the reason in question."""
    return "taken" if one["taken"] else "refused" if words in one["said"] else f"refused for another reason: {one['said']}"
