"""Pods run on the planned nodes, reach each other, and get the requested resources. GPUs on idle nodes only; busy nodes are not touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue, answer_of
from rackwright.checks.cluster.probes.pods import PODS, REMAINING_PODS, Pods, parse_devices, pod_output, rank_environment
from rackwright.errors import UndeterminedError


@pytest.fixture
def pods(ask: Ask, members: Members) -> Pods:
    """Return the results of the smoke run."""
    found: Pods = ask(PODS, of=members("@control")[0])
    return found


def test_run_on_every_node(node: Record, pods: Pods, expect: Expect) -> None:
    """A pod must be scheduled, start and complete on this node."""
    plain = pods.part(node.name, "plain")
    ran = plain["phase"] == "Succeeded"
    expect(f"ran on {plain['node']}" if ran else _failure_reason(plain, "did not run"), f"ran on {node.name}")


def test_reach_each_other(node: Record, pods: Pods, expect: Expect) -> None:
    """Pods must reach the pods of every other node by address: a route missing on one node is visible only from that node."""
    found = {other: pod_output(one) for other, one in pods.network(node.name)["reach"].items()}
    probed = {other: one for other, one in found.items() if one.error != "no pod runs there"}
    if not probed:
        raise UndeterminedError("no pod runs elsewhere")
    expect({other: one.answer for other, one in probed.items()}, {other: f"answers-{other}" for other in probed})


def test_find_names_inside(node: Record, cluster: Record, pods: Pods, expect: Expect) -> None:
    """Pods must resolve a service of their own namespace, and the API's service in another."""
    found = {name: pod_output(one).answer for name, one in pods.network(node.name)["names"].items()}
    first = str(next(IPv4Network(cluster.scheduler.services).hosts()))
    expect(found, {"answers": pods.data["service"], "kubernetes.default": first})


def test_find_names_outside(node: Record, pods: Pods, expect: Expect) -> None:
    """Cluster DNS must forward unknown names, and return the answers of the network's name servers."""
    outside = pods.data["outside"]
    if not outside or not outside["servers"]:
        raise UndeterminedError("cluster DNS has no upstream name server")
    unresponsive = [server for server, addresses in outside["servers"].items() if addresses is None]
    if unresponsive:
        raise UndeterminedError(f"{', '.join(unresponsive)} does not answer for {outside['name']}")
    found = pod_output(pods.network(node.name)["outside"])
    unanswered = pod_output(pods.network(node.name)["unheard"])
    if isinstance(unanswered.answer, UnreadableValue):
        raise UndeterminedError(unanswered.answer.why)
    if isinstance(found.answer, UnreadableValue):
        raise UndeterminedError(found.answer.why)
    if unanswered.rc != 0 and "no such host" not in unanswered.error:
        expect(f"an unknown name: {unanswered.error}", "forwarded, and reported as non-existent")
    known = [", ".join(addresses) for addresses in outside["servers"].values()]
    lacks = found.rc != 0 and "no such host" in found.error
    addresses = "" if lacks else ", ".join(found.answer.split())
    expect(
        f"{outside['name']}: {addresses or 'no such name'}", f"{outside['name']}: {known[0] or 'no such name'}", holds=addresses in known
    )


def test_service_answers(node: Record, pods: Pods, expect: Expect) -> None:
    """One address serves the pods of several nodes: every pod must answer behind it."""
    calls = pods.network(node.name)["service"]
    if calls["rc"] is None and not calls["found"]:
        raise UndeterminedError(f"no command could run in the pod: {calls['said']}")
    if not calls["behind"]:
        raise UndeterminedError("the service has no running pod")
    missed = sorted(set(calls["behind"]) - set(calls["found"]))
    expect(calls["found"] if not missed or not calls["said"] else _missed(calls), calls["behind"])


def test_node_port_answers(node: Record, pods: Pods, expect: Expect) -> None:
    """From the control plane, every node's port must reach the pod of the node and the pods of the others."""
    calls = pods.port(node.name)
    missed = set(calls["behind"]) - set(calls["found"])
    expect(_missed(calls) if missed else calls["behind"], calls["behind"])


def test_get_requested_gpus(node: Record, pods: Pods, expect: Expect) -> None:
    """A pod must get exactly the requested number of GPUs, and see the same number."""
    gpus = pods.part(node.name, "gpus")
    given = {part: gpus[part] for part in ("first", "second") if part in gpus}
    found = {part: str(_devices(one)) if "devices" in one else _failure_reason(one) for part, one in given.items()}
    expect(found, {part: f"{one['asked']} device files, {one['asked']} visible" for part, one in given.items()})


def test_gpus_exclusive(node: Record, pods: Pods, expect: Expect) -> None:
    """Two pods at the same time on the same node must have different GPUs."""
    gpus = pods.part(node.name, "gpus")
    if not all("devices" in gpus[part] for part in ("first", "second")):
        raise UndeterminedError("the two pods did not run at the same time")
    first, second = (_devices(gpus[part]).files for part in ("first", "second"))
    both = set(first) & set(second)
    expect(f"{', '.join(first)} and {', '.join(second)}", "none in common", holds=not both and bool(first and second))


def test_no_gpu_without_request(node: Record, pods: Pods, expect: Expect) -> None:
    """A pod that requests no GPU must not see any."""
    found = parse_devices(_log(pods.part(node.name, "plain")))
    expect(str(found), "0 device files, 0 visible")


def test_whole_node_of_gpus(node: Record, pods: Pods, expect: Expect) -> None:
    """One pod must get all GPUs of the node after the earlier pods end."""
    whole = pods.part(node.name, "gpus")["whole"]
    found = f"sees {len(parse_devices(whole['log']['text']).files)}" if whole.get("log") else _failure_reason(whole)
    expect(found, f"sees {node.gpus.count}")


def test_excess_requests_pending(node: Record, pods: Pods, expect: Expect) -> None:
    """If all GPUs are in use, one more pod must wait, and the scheduler must report the reason."""
    excess = pods.part(node.name, "gpus")["excess"]
    if not excess["taken"]:
        raise UndeterminedError("not all GPUs of the node were in use")
    waits = excess["waits"]
    expect(waits or excess["phase"], "waits: Insufficient nvidia.com/gpu", holds="Insufficient nvidia.com/gpu" in waits)


def test_quota_is_enforced(pods: Pods, expect: Expect) -> None:
    """In a copy of each namespace: a pod within the quota must be accepted, a pod beyond any limit refused."""
    found: dict[str, str] = {}
    planned: dict[str, str] = {}
    for name, copy in pods.data["namespaces"].items():
        if copy["within"]:
            tried = {"a small pod": copy["within"], **{f"beyond {key}": one for key, one in copy["over"].items()}}
            found |= {f"{name}, {what}": _admission(one, "exceeded quota") for what, one in tried.items()}
            planned |= {f"{name}, {what}": "refused" if what.startswith("beyond") else "accepted" for what in tried}
    expect(found, planned)


def test_pod_security_is_enforced(pods: Pods, expect: Expect) -> None:
    """A privileged pod is root on the node: it may be accepted only where the plan permits it."""
    tried = {name: copy["privileged"] for name, copy in pods.data["namespaces"].items() if copy["privileged"]}
    tried["a namespace at level baseline"] = pods.data["privileged"]
    expect({name: _admission(one, "violates PodSecurity") for name, one in tried.items()}, dict.fromkeys(tried, "refused"))


def test_policies_hold(pods: Pods, expect: Expect) -> None:
    """Tested from both sides: pods of a namespace reach each other and resolve names; traffic from and to other namespaces is blocked."""
    found = pods.data["policies"]
    if not found or "error" in found:
        raise UndeterminedError((found or {}).get("error") or "no node accepts pods")
    wrong = [one["said"] for one in found.values() if one["rc"] is None]
    if wrong:
        raise UndeterminedError(f"no command could run in the pod: {wrong[0]}")
    results: dict[str, str | UnreadableValue] = {what: "answered" if one["rc"] == 0 else "no answer" for what, one in found.items()}
    for what in ("inside", "names"):  # for `in` and `out`, a time-out is the refusal of a filter that drops
        if isinstance(pod_output(found[what]).answer, UnreadableValue):
            results[what] = pod_output(found[what]).answer
    expect(results, {"inside": "answered", "names": "answered", "in": "no answer", "out": "no answer"})


def test_leader_worker_set_runs(pods: Pods, expect: Expect) -> None:
    """A leader must get its worker, and each must reach the other by the name that the add-on gives it."""
    group = pods.data.get("group")
    if not group:
        raise UndeterminedError("no node accepts pods")
    if group["refused"]:
        expect(f"refused: {group['refused']}", "accepted")
    states = {name: "runs" if one["phase"] == "Running" else _failure_reason(one) for name, one in group["pods"].items()}
    expect(states, dict.fromkeys(states, "runs"))
    expect({name: pod_output(one).answer for name, one in group["asks"].items()}, {"leader": "group-0", "worker": "group-0-1"})


def test_pytorch_job_runs(pods: Pods, expect: Expect) -> None:
    """A master and a worker must get each other's address and their ranks from the operator, meet by name, and end the job."""
    job = pods.data.get("training")
    if not job:
        raise UndeterminedError("no node accepts pods")
    if job["refused"]:
        expect(f"refused: {job['refused']}", "accepted")
    ranks = job["ranks"]
    given = {name: one["given"] for name, one in ranks.items() if one["given"] is not None}
    expect(given, {name: rank_environment(name) for name in given})
    states = {name: _rank_state(ranks.get(name), one, bool(ranks)) for name, one in job["pods"].items()}
    expect(states, {"master": "met rank 1", "worker": "met rank 0"})
    expect(job["ended"] or "goes on", "Succeeded")


def test_claimed_device_is_given(node: Record, pods: Pods, expect: Expect) -> None:
    """A container must get the device that the scheduler allocated to its claim, through the driver and the runtime (CDI)."""
    part = pods.part(node.name, "device")
    if "given" not in part:
        expect(_failure_reason(part["pod"]), "runs")
    if pod_output(part["environment"]).rc != 0:
        raise UndeterminedError(f"the environment is unknown: {part['environment']['said']}")
    expect(part["given"], part["held"], holds=part["given"] == part["held"] and len(part["held"]) == 1)


def test_load_balancer_answers(cluster: Record, pods: Pods, expect: Expect) -> None:
    """A Service must get an address of the pool, exactly one node must announce it by ARP, and it must answer on a node and in a pod."""
    balancer = pods.data.get("balancer")
    if not balancer:
        raise UndeterminedError("no node accepts pods")
    ranges = cluster.scheduler.load_balancer_addresses
    if not _is_within(balancer["address"], ranges):
        expect(balancer["address"] or f"no address: {balancer['why']}", f"an address of {', '.join(ranges)}")
    if not balancer["behind"]:
        raise UndeterminedError("no pod ran that could answer")
    if balancer["announced"]["said"]:
        raise UndeterminedError(f"no ARP request could be sent: {balancer['announced']['said']}")
    by, nodes = balancer["announced"]["by"], {one.name for one in cluster.scheduler.nodes}
    found: dict[str, str | UnreadableValue] = {
        "announced by": "one node" if len(by) == 1 and set(by) <= nodes else ", ".join(by) or "no device"
    }
    for where in ("node", "pod"):
        answer = pod_output(balancer[where]).answer
        is_known = not isinstance(answer, UnreadableValue) and answer in balancer["behind"]
        found[f"from a {where}"] = "answered" if is_known else answer
    expect(found, {"announced by": "one node", "from a node": "answered", "from a pod": "answered"})


def test_scaled_to_zero_and_back(pods: Pods, expect: Expect) -> None:
    """KEDA must start a pod when there is work, serve the number that an autoscaler reads, and stop the pod when there is none."""
    scaling = pods.data.get("scaling")
    if not scaling:
        raise UndeterminedError("no node accepts pods")
    if scaling["refused"] or scaling["ready"]:
        expect(f"refused: {scaling['refused']}" if scaling["refused"] else f"not ready: {scaling['ready']}", "ready")
    started = _started(scaling)
    found: dict[str, str | UnreadableValue] = {"without work": _replicas(scaling["idle"]), "with work": started}
    planned = {"without work": "0 pods", "with work": "its pod runs"}
    if scaling["metric"]:
        found |= {"metric": scaling["metric"]["value"] or scaling["metric"]["said"]}
        found |= {"after the work": _replicas(scaling["after"], scaling["why"])}
        planned |= {"metric": "1", "after the work": "0 pods"}
    expect(found, planned)


def _started(scaling: Mapping[str, Any]) -> str | UnreadableValue:
    """Return whether the Deployment's pod runs; without it, why."""
    if scaling["busy"] != 1:
        return _replicas(scaling["busy"], scaling["why"])
    return "its pod runs" if scaling["pod"]["phase"] == "Running" else _failure_reason(scaling["pod"])


def _replicas(count: int, why: str = "") -> str:
    return f"{count} pods" + (f": {why}" if why else "")


def _is_within(address: str, ranges: Iterable[str]) -> bool:
    """Return whether an address is in one of the ranges `first-last`; not if it is empty."""
    bounds = [tuple(IPv4Address(part) for part in one.split("-")) for one in ranges]
    return bool(address) and any(first <= IPv4Address(address) <= last for first, last in bounds)


def test_claim_is_shared(node: Record, pods: Pods, expect: Expect) -> None:
    """A pod on one node must read what a pod on another node wrote into the claim."""
    found = pods.storage(node.name)
    if "read" not in found:
        expect(_failure_reason(found["pod"], "its pod does not run"), "runs")
    if pod_output(found["wrote"]).rc != 0:
        expect({"cannot write": pod_output(found["wrote"]).answer}, {"cannot write": "writes"})
    expect(pod_output(found["read"]).answer, found["planned"])


def test_logs_and_exec_work(node: Record, pods: Pods, expect: Expect) -> None:
    """Logs and exec both go through the API server to the kubelet, and back."""
    log, version = pods.part(node.name, "plain")["log"], pod_output(pods.network(node.name)["version"])
    found = {
        "logs": "answered" if log["text"] else answer_of("logs", log["said"] or "empty"),
        "exec": "answered" if version.rc == 0 else answer_of("exec", version.error),
    }
    expect(found, {"logs": "answered", "exec": "answered"})


def test_cleanup_complete(node: Record, ask: Ask, expect: Expect) -> None:
    """A folder or control group that remains occupies memory and keeps mounts."""
    expect(ask(REMAINING_PODS), ())


def _devices(part: Mapping[str, Any]) -> Any:
    """Return the GPUs that a pod reports."""
    answer = pod_output(part["devices"]).answer
    if isinstance(answer, UnreadableValue):
        raise UndeterminedError(answer.why)
    return parse_devices(answer)


def _failure_reason(pod: Mapping[str, Any], what: str = "does not run") -> str | UnreadableValue:
    """Return why a pod did not run; UnreadableValue where it was still starting at the time limit, without a reason."""
    if not pod["why"] and pod["phase"] in ("Pending", "Running"):
        return MissingAnswer("its pod", f"{pod['phase']} after {pod.get('seconds', 0)} s, no reason reported")
    return f"{what}: {pod['why'] or pod['phase']}"


def _rank_state(rank: Mapping[str, Any] | None, pod: Mapping[str, Any], other_ended: bool) -> str | UnreadableValue:
    """Return which rank a container of the PyTorchJob met, or why it met none."""
    if rank and not rank["met"]:
        error = answer_of("its rank", rank["said"])
        return error if isinstance(error, UnreadableValue) else f"met no rank: {error}"
    if rank:
        return f"met rank {', '.join(rank['met'])}"
    if pod["phase"] == "Running":
        return "waits for the other" if other_ended else _failure_reason(pod, "does not end")
    return _failure_reason(pod)


def _missed(calls: Mapping[str, Any]) -> str | UnreadableValue:
    """Return which pods responded and the last error, or why that is unknown."""
    found = ", ".join(calls["found"]) or "no pod"
    error = answer_of(f"beside {found}", calls["said"])
    return error if isinstance(error, UnreadableValue) else f"{found}; {error}"


def _log(part: Mapping[str, Any]) -> str:
    """Return the output of a pod; raise UndeterminedError if there is none."""
    if not part["log"]["text"]:
        raise UndeterminedError(f"no log of the pod: {part['log']['said'] or 'empty'}")
    return str(part["log"]["text"])


def _admission(one: Mapping[str, Any], words: str) -> str:
    """Return the response of the API server to a pod: accepted, refused with the expected reason, or refused for another."""
    return "accepted" if one["taken"] else "refused" if words in one["said"] else f"refused for another reason: {one['said']}"
