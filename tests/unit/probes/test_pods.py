"""The checks of a Kubernetes smoke run: each passes on a good run and fails on its own bad one."""

from __future__ import annotations

import copy
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row

from rackwright.checks.cluster import test_pods as checks
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import NodeBusyError
from rackwright.checks.cluster.probes.pods import (
    Pods,
    parse_devices,
    parse_pods,
    parse_remaining_pods,
    rank_environment,
)
from rackwright.errors import UndeterminedError

CAPTURED = Path(__file__).parents[1] / "captured" / "pods"
REFUSED = {"rc": 1, "out": "", "said": "dial tcp 10.203.1.4:8080: connect: connection refused"}
LATE = {"rc": 1, "out": "", "said": "dial tcp 10.203.1.4:8080: i/o timeout"}
ANSWERED = {"rc": 0, "out": "answers-worker0\n", "said": ""}
HELD = {"inside": ANSWERED, "names": ANSWERED, "in": LATE, "out": REFUSED}
"""Answers of a network that enforces policies; the captured lab enforces none."""
RUNNING = {"node": "worker0", "phase": "Running", "why": "", "uid": "x", "seconds": 45}
GROUP = {
    "refused": "",
    "pods": {"leader": RUNNING, "worker": dict(RUNNING, node="worker1")},
    "asks": {"leader": {"rc": 0, "out": "group-0", "said": ""}, "worker": {"rc": 0, "out": "group-0-1", "said": ""}},
}
"""A LeaderWorkerSet that runs, written by hand: the captured lab has no such add-on."""
DEVICE = {"pod": RUNNING, "held": ["gpu-3"], "given": ["gpu-3"], "environment": {"rc": 0, "out": "", "said": ""}}
"""A claim of a simulated device, written by hand: the captured lab has no such add-on."""
TRAINING = {
    "refused": "",
    "pods": {"master": dict(RUNNING, phase="Succeeded"), "worker": dict(RUNNING, phase="Succeeded", node="worker1")},
    "ranks": {name: {"given": rank_environment(name), "met": [met], "said": ""} for name, met in (("master", "1"), ("worker", "0"))},
    "ended": "Succeeded",
}
"""A PyTorchJob that ran, written by hand: the captured lab has no such add-on."""
BALANCER = {
    "address": "10.83.0.12",
    "behind": ["answers-worker0", "answers-worker1"],
    "announced": {"by": ["worker1"], "said": ""},
    "node": {"rc": 0, "out": "answers-worker0", "said": ""},
    "pod": {"rc": 0, "out": "answers-worker1\n", "said": ""},
}
"""A Service of type LoadBalancer that answers, written by hand: the captured lab has no such add-on."""
SCALING = {
    "refused": "", "ready": "", "idle": 0, "pod": RUNNING, "busy": 1, "metric": {"value": "1", "said": ""}, "after": 0, "why": "",
}  # fmt: skip
"""A Deployment that KEDA started and stopped, written by hand: the captured lab has no such add-on."""
CAPTURED_RUN = parse_pods((CAPTURED / "good.txt").read_text(encoding="utf-8")).data
GOOD = {**CAPTURED_RUN, "policies": HELD, "group": GROUP, "training": TRAINING, "balancer": BALANCER, "scaling": SCALING}
for part in GOOD["nodes"].values():
    part["device"] = DEVICE
WORKERS = ("worker0", "worker1")
NAMES = [name.removeprefix("test_") for name in vars(checks) if name.startswith("test_")]


def bad(*path, **changes):
    """Return the good run with one change."""
    data = copy.deepcopy(GOOD)
    place = data
    for key in path:
        place = place[key]
    place.update(changes)
    return data


def verdicts(data, left=()):
    """Return every check on every worker that did not pass, with its verdict."""
    nodes = [SimpleNamespace(name=name) for name in ("login0", *WORKERS)]
    ranges = ["10.83.0.8-10.83.0.9", "10.83.0.12-10.83.0.15"]
    cluster = SimpleNamespace(scheduler=SimpleNamespace(services="10.204.0.0/16", nodes=nodes, load_balancer_addresses=ranges))
    found = {}
    for name in NAMES:
        for worker in WORKERS:
            node = SimpleNamespace(name=worker, gpus=SimpleNamespace(count=8))
            given = {"node": node, "pods": Pods(data), "expect": Expect(), "cluster": cluster, "ask": lambda _: left}
            function = getattr(checks, f"test_{name}")
            try:
                function(**{argument: given[argument] for argument in inspect.signature(function).parameters})
            except (Mismatch, UndeterminedError, NodeBusyError) as error:
                found[name, worker] = error
            assert given["expect"].compared or (name, worker) in found
    return found


def test_good_run_passes():
    assert verdicts(GOOD) == {}


FIRST = ("nodes", "worker0")
TAKEN = {"taken": True, "status": 201, "said": ""}
DEVICES = '{"visible": "0,6", "files": ["/dev/nvidia0", "/dev/nvidia6"], "rdma": []}'
SAME = DEVICES.replace("0,6", "0,1,2,3,6").replace('6"]', '6", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"]')
WRONG = {
    "reach_each_other": bad(*FIRST, "network", "reach", worker1=REFUSED),
    "find_names_inside": bad(*FIRST, "network", "names", answers=dict(REFUSED, said="lookup answers: no such host")),
    "find_names_outside": bad(*FIRST, "network", unheard=dict(REFUSED, said="lookup kb3-login0.dns.podman.: server misbehaving")),
    "service_answers": bad(*FIRST, "network", "service", found=["answers-worker0"], said="connection refused"),
    "node_port_answers": bad("ports", "worker0", found=["answers-worker0"], said="[Errno 111] Connection refused"),
    "get_requested_gpus": bad(*FIRST, "gpus", "first", "devices", out=DEVICES),
    "gpus_exclusive": bad(*FIRST, "gpus", "second", "devices", out=SAME),
    "no_gpu_without_request": bad(*FIRST, "plain", "log", text=DEVICES),
    "whole_node_of_gpus": bad(*FIRST, "gpus", "whole", log=None, why="UnexpectedAdmissionError"),
    "excess_requests_pending": bad(*FIRST, "gpus", "excess", waits="", phase="Running"),
    "quota_is_enforced": bad("namespaces", "research", "over", **{"requests.nvidia.com/gpu": TAKEN}),
    "pod_security_is_enforced": bad(privileged=TAKEN),
    "policies_hold": bad("policies", **{"in": ANSWERED}),
    "claimed_device_is_given": bad(*FIRST, "device", given=[]),
    "leader_worker_set_runs": bad("group", "asks", leader=dict(REFUSED, said="lookup group-0.group.x: no such host")),
    "pytorch_job_runs": bad("training", "ranks", "worker", met=[], said="training-master-0:23456: Name or service not known"),
    "load_balancer_answers": bad("balancer", announced={"by": [], "said": ""}),
    "scaled_to_zero_and_back": bad("scaling", busy=0, pod=None, metric=None, after=None, why="deployments/scale is forbidden"),
    "claim_is_shared": bad(*FIRST, "storage", "read", out="stale\n"),
    "logs_and_exec_work": bad(
        *FIRST, "network", version=dict(REFUSED, rc=None, said="dial tcp 10.0.0.5:10250: connect: connection refused")
    ),
}


@each_row("name", WRONG)
def test_wrong_answer_fails_exactly_one_check(name):
    found = verdicts(WRONG[name])
    assert {key for key, _ in found} == {name}
    assert isinstance(found[name, "worker0"], Mismatch)


TIMED_OUT = {
    "reach_each_other": bad(*FIRST, "network", "reach", worker1=LATE),
    "find_names_inside": bad(*FIRST, "network", "names", answers=dict(LATE, said="lookup answers on 10.203.0.10:53: i/o timeout")),
    "find_names_outside": bad(*FIRST, "network", unheard=dict(LATE, said="lookup x. on 10.203.0.10:53: i/o timeout")),
    "service_answers": bad(*FIRST, "network", "service", found=["answers-worker0"], said="Get: context deadline exceeded"),
    "node_port_answers": bad("ports", "worker0", found=["answers-worker0"], said="timed out"),
    "get_requested_gpus": bad(*FIRST, "gpus", first={"asked": 3, "phase": "Pending", "why": "", "uid": "x", "seconds": 45}),
    "whole_node_of_gpus": bad(*FIRST, "gpus", "whole", log=None, why="", phase="Running", seconds=45),
    "policies_hold": bad("policies", inside=LATE),
    "claimed_device_is_given": bad(*FIRST, device={"pod": dict(RUNNING, phase="Pending")}),
    "leader_worker_set_runs": bad("group", pods={"leader": RUNNING, "worker": dict(RUNNING, phase="Pending")}, asks={}),
    "pytorch_job_runs": bad("training", "ranks", "worker", met=[], said="training-master-0:23456: timed out"),
    "load_balancer_answers": bad("balancer", pod=LATE),
    "scaled_to_zero_and_back": bad("scaling", pod=dict(RUNNING, phase="Pending")),
    "claim_is_shared": bad(*FIRST, "storage", "wrote", rc=1, said="write /shared/from-worker0: connection timed out"),
    "logs_and_exec_work": bad(*FIRST, "network", version=dict(LATE, rc=None, said="dial tcp 10.0.0.5:10250: i/o timeout")),
    "run_on_every_node": bad(*FIRST, "plain", phase="Pending", why="", seconds=90),
}


@pytest.mark.parametrize("name", TIMED_OUT)
def test_time_out_is_unknown(name):
    """An answer that is late is no fault, and does not pass."""
    found = verdicts(TIMED_OUT[name])[name, "worker0"]
    assert isinstance(found, UndeterminedError) and re.search(r"timed? ?out|deadline|after \d+ s", str(found)), found


def test_time_out_beside_wrong_answer_fails():
    data = bad(*FIRST, "network", "names", answers=LATE, **{"kubernetes.default": REFUSED})
    assert isinstance(verdicts(data)["find_names_inside", "worker0"], Mismatch)


def test_node_without_pods_leaves_checks_unknown():
    found = verdicts(bad(*FIRST, "plain", phase="Pending", why="ErrImagePull"))
    assert {name for (name, worker), error in found.items() if isinstance(error, Mismatch)} == {"run_on_every_node"}
    assert isinstance(found["claim_is_shared", "worker0"], UndeterminedError)
    assert {worker for _, worker in found} == {"worker0"}


@pytest.mark.parametrize("what", ["inside", "names", "out"])
def test_policies_blocking_too_much_or_little_fail(what):
    found = verdicts(bad("policies", **{what: REFUSED if HELD[what] is ANSWERED else ANSWERED}))
    assert isinstance(found["policies_hold", "worker0"], Mismatch)


@pytest.mark.parametrize("data", [{"error": "its pods do not run"}, {**HELD, "in": {"rc": None, "out": "", "said": "no route"}}, None])
def test_untested_policies_are_unknown(data):
    assert isinstance(verdicts({**GOOD, "policies": data})["policies_hold", "worker0"], UndeterminedError)


NO_POD = {"node": None, "phase": None, "uid": None, "why": "it was not created: failed calling webhook"}


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (dict(GROUP, refused="the server could not find the requested resource", pods={}, asks={}), "could not find"),
        (dict(GROUP, pods={"leader": RUNNING, "worker": NO_POD}, asks={}), "failed calling webhook"),
        (dict(GROUP, asks=dict(GROUP["asks"], worker=GROUP["asks"]["leader"])), "group-0-1"),
    ],
    ids=["no-kind", "no-webhook", "wrong-pod"],
)
def test_group_without_a_pod_or_a_name_fails(group, said):
    found = verdicts({**GOOD, "group": group})
    assert {name for name, _ in found} == {"leader_worker_set_runs"}
    assert isinstance(found["leader_worker_set_runs", "worker0"], Mismatch) and said in str(found["leader_worker_set_runs", "worker0"])


def test_group_is_unknown_where_no_node_accepts_pods():
    assert isinstance(verdicts({**GOOD, "group": None})["leader_worker_set_runs", "worker0"], UndeterminedError)


FAILED = {"given": rank_environment("worker"), "met": [], "said": "training-master-0:23456: Name or service not known"}
NOT_GIVEN = dict(rank_environment("worker"), RANK="0")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"refused": "the server could not find the requested resource", "pods": {}, "ranks": {}}, "could not find"),
        ({"pods": {"master": NO_POD, "worker": NO_POD}, "ranks": {}, "ended": ""}, "failed calling webhook"),
        ({"pods": dict(TRAINING["pods"], master=RUNNING), "ranks": {"worker": FAILED}, "ended": "Failed"}, "waits for the other"),
        ({"ranks": dict(TRAINING["ranks"], worker=dict(FAILED, given=NOT_GIVEN))}, "RANK"),
        ({"ranks": dict(TRAINING["ranks"], worker={"given": None, "met": [], "said": "no module json"})}, "no module json"),
        ({"pods": {name: dict(RUNNING, why="no Service") for name in TRAINING["pods"]}, "ranks": {}, "ended": ""}, "not end: no Service"),
        ({"ended": ""}, "goes on"),
        ({"ended": "Failed"}, "Failed"),
    ],
    ids=["no-kind", "no-pod", "no-name", "wrong-rank", "no-document", "no-service", "goes-on", "failed"],
)
def test_job_whose_ranks_do_not_meet_fails(changes, said):
    found = verdicts(bad("training", **changes))
    assert {name for name, _ in found} == {"pytorch_job_runs"}
    assert isinstance(found["pytorch_job_runs", "worker0"], Mismatch) and said in str(found["pytorch_job_runs", "worker0"])


def test_job_is_unknown_where_no_node_accepts_pods():
    assert isinstance(verdicts(bad(training=None))["pytorch_job_runs", "worker0"], UndeterminedError)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (dict(DEVICE, given=["gpu-5"]), "gpu-5"),
        (dict(DEVICE, given=[], held=[]), "expected none, found none"),
        ({"pod": dict(RUNNING, phase="Pending", why="cannot allocate all claims")}, "cannot allocate all claims"),
    ],
    ids=["other-device", "no-device", "no-allocation"],
)
def test_pod_without_its_claimed_device_fails(device, said):
    found = verdicts(bad(*FIRST, device=device))
    assert set(found) == {("claimed_device_is_given", "worker0")}
    assert isinstance(found["claimed_device_is_given", "worker0"], Mismatch) and said in str(found["claimed_device_is_given", "worker0"])


def test_claimed_device_is_unknown_where_no_command_ran():
    data = bad(*FIRST, "device", given=[], environment=dict(REFUSED, rc=None))
    assert isinstance(verdicts(data)["claimed_device_is_given", "worker0"], UndeterminedError)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": "", "why": "Failed to allocate IP: no available IPs"}, "no address: Failed to allocate IP"),
        ({"address": "10.83.0.16"}, "10.83.0.16"),
        ({"announced": {"by": ["worker0", "worker1"], "said": ""}}, "worker0, worker1"),
        ({"announced": {"by": ["02:42:0a:53:00:63"], "said": ""}}, "02:42:0a:53:00:63"),
        ({"node": {"rc": 1, "out": "", "said": "[Errno 111] Connection refused"}}, "Connection refused"),
        ({"pod": {"rc": 0, "out": "a web server of somebody else", "said": ""}}, "somebody else"),
    ],
    ids=["no-address", "outside-the-pool", "two-nodes", "strange-device", "node-refused", "strange-answer"],
)
def test_load_balancer_without_address_announcement_or_answer_fails(changes, said):
    found = verdicts(bad("balancer", **changes))
    assert {name for name, _ in found} == {"load_balancer_answers"}
    assert isinstance(found["load_balancer_answers", "worker0"], Mismatch) and said in str(found["load_balancer_answers", "worker0"])


@pytest.mark.parametrize(
    "balancer",
    [None, dict(BALANCER, behind=[]), dict(BALANCER, announced={"by": [], "said": "Operation not permitted"})],
    ids=["no-node", "no-pod", "no-arp"],
)
def test_load_balancer_is_unknown_where_nothing_could_be_asked(balancer):
    assert isinstance(verdicts({**GOOD, "balancer": balancer})["load_balancer_answers", "worker0"], UndeterminedError)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"refused": "no matches for kind ScaledObject"}, "refused: no matches for kind ScaledObject"),
        ({"ready": "the operator sets no condition"}, "not ready: the operator sets no condition"),
        ({"idle": 1}, "1 pods"),
        ({"busy": 0, "pod": None, "metric": None, "why": "deployments/scale is forbidden"}, "0 pods: deployments/scale is forbidden"),
        ({"pod": dict(RUNNING, phase="Pending", why="0/3 nodes are available")}, "does not run: 0/3 nodes are available"),
        ({"metric": {"value": "", "said": "unable to get external metric"}}, "unable to get external metric"),
        ({"metric": {"value": "2", "said": ""}}, "2"),
        ({"after": 1, "why": "the scaler has an error"}, "1 pods: the scaler has an error"),
    ],
    ids=["refused", "no-operator", "starts-idle", "forbidden", "no-room", "no-metric", "other-metric", "stays"],
)
def test_deployment_that_does_not_follow_its_work_fails(changes, said):
    found = verdicts(bad("scaling", **changes))
    assert {name for name, _ in found} == {"scaled_to_zero_and_back"}
    assert isinstance(found["scaled_to_zero_and_back", "worker0"], Mismatch) and said in str(found["scaled_to_zero_and_back", "worker0"])


def test_scaling_is_unknown_without_a_node():
    assert isinstance(verdicts({**GOOD, "scaling": None})["scaled_to_zero_and_back", "worker0"], UndeterminedError)


def test_leftover_objects_fail():
    found = verdicts(GOOD, left=parse_remaining_pods("/var/lib/kubelet/pods/8c03\n"))
    assert {name for name, _ in found} == {"cleanup_complete"}


def test_every_check_can_fail():
    assert {*WRONG, "cleanup_complete", "run_on_every_node"} == set(NAMES)


def test_unresponsive_outside_server_is_named():
    found = verdicts(bad("outside", servers={"10.83.0.1": None, "10.83.0.2": []}))["find_names_outside", "worker0"]
    assert isinstance(found, UndeterminedError) and "10.83.0.1 does not answer for" in str(found)


def test_unresolvable_outside_name_passes():
    data = bad("outside", servers={"10.83.0.1": []})
    for worker in WORKERS:
        data["nodes"][worker]["network"]["outside"] = dict(REFUSED, said="lookup x.: no such host")
    assert verdicts(data) == {}


def test_gpus_in_use_are_skipped():
    data = bad(busy=["worker0"])
    del data["nodes"]["worker0"]["gpus"]
    found = verdicts(data)
    assert {name for name, _ in found} == {"get_requested_gpus", "gpus_exclusive", "whole_node_of_gpus", "excess_requests_pending"}
    assert all(isinstance(error, NodeBusyError) and worker == "worker0" for (_, worker), error in found.items())


def test_unavailable_node_is_unknown():
    found = verdicts(bad("states", worker1="cordoned"))
    assert all(
        isinstance(error, UndeterminedError) and "cordoned" in str(error) for (_, worker), error in found.items() if worker == "worker1"
    )
    assert not [name for name, worker in found if worker == "worker0"]


def test_pending_pod_is_unknown_with_reason():
    data = copy.deepcopy(GOOD)
    data["nodes"]["worker0"]["network"] = {"pod": {"node": "worker0", "phase": "Pending", "why": "ErrImageNeverPull", "uid": "x"}}
    assert "ErrImageNeverPull" in str(verdicts(data)["service_answers", "worker0"])


@pytest.mark.parametrize("said", ["", "none", "void"])
def test_answers_for_nodes_without_gpus(said):
    assert parse_devices(json.dumps({"visible": said, "files": []})).visible == ()
