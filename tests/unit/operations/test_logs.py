"""Queries of logs: which nodes are asked what, nodes without an answer, unknown names, secrets, and jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import yaml

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import load_inventory
from rackwright.operations import job_logs, log_stream, logs
from rackwright.operations.logs import LogQuery, query_logs, refuse_combinations
from rackwright.report.logs.document import LogEntry
from rackwright.report.logs.job_record import JobId

Program = Callable[[str, Mapping[str, Any]], Any]
NODES = ["login0", "worker0", "worker1", "storage0"]


def answer(*entries: tuple[float, str, str], **more: Any) -> dict[str, Any]:
    rows = [[round(when * 1e6), unit, 6, 7, message] for when, unit, message in entries]
    empty = {"cut": "", "begins": None, "volatile": False, "known": {}, "seen": [], "warnings": [], "notes": []}
    return {"entries": rows, "now": time.time(), **empty, **more}


class Nodes:
    """The nodes of a stack: what each answers to a program, by name; a text is why there is no answer."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []
        self.programs: dict[str, Program] = {"journal": lambda name, request: answer()}

    async def connect(self, stack: str, names: Any, *, within: float, cause: Any = None) -> dict[str, str]:
        return {name: self.lost[name] for name in names if name in self.lost}

    async def run(
        self, stack: str, program: str, requests: Mapping[str, Mapping[str, Any]], sudo: Mapping[str, bool], **_: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        self.asked += [(name, program, request) for name, request in requests.items()]
        found = {name: self.programs[program](name, request) for name, request in requests.items()}
        good = {name: one for name, one in found.items() if not isinstance(one, str)}
        return good, {name: one for name, one in found.items() if isinstance(one, str)}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, lab: str) -> Nodes:
    found = Nodes()
    monkeypatch.setattr(ssh_connections, "connect_all", found.connect)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run)
    for module in (logs, job_logs):
        monkeypatch.setattr(module, "slowness", lambda: 1)
    return found


def asked(nodes: Nodes) -> list[str]:
    return [name for name, _, _ in nodes.asked]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ((), NODES),
        (("worker1",), ["worker1"]),
        (("worker",), ["worker0", "worker1"]),
        (("work*",), ["worker0", "worker1"]),
        (("role_controller", "worker0", "worker"), ["login0", "worker0", "worker1"]),
    ],
)
def test_names_groups_and_patterns_choose_nodes(nodes: Nodes, wanted: tuple[str, ...], names: list[str]) -> None:
    query_logs("lab", LogQuery(nodes=wanted))
    assert asked(nodes) == names


def test_unknown_node_is_refused_before_anything_is_asked(nodes: Nodes) -> None:
    with pytest.raises(InputError, match="has no node and no group `wroker`") as refused:
        query_logs("lab", LogQuery(nodes=("wroker",)))
    assert (refused.value.hint, nodes.asked) == ("did you mean `worker`?", [])


def test_entries_of_all_nodes_are_merged(nodes: Nodes) -> None:
    now = time.time()
    moments = {"login0": now - 1, "worker0": now - 3, "worker1": now - 2, "storage0": now - 4}
    nodes.programs["journal"] = lambda name, request: answer((moments[name], "a", name))
    report = query_logs("lab", LogQuery(lines=3))
    assert ([entry.node for entry in report.entries], report.limited) == (["worker0", "worker1", "login0"], True)


def test_nodes_without_answer_have_a_reason(nodes: Nodes) -> None:
    nodes.lost = {"worker0": "no response over SSH"}
    nodes.programs["journal"] = lambda name, request: {
        "worker1": "journalctl is not installed",
        "storage0": {"entries": [[1]]},
        "login0": answer(),
    }[name]
    found = {node.node: node.reason for node in query_logs("lab", LogQuery()).unanswered}
    assert list(found) == ["worker0", "worker1", "storage0"]
    assert found["worker1"] == "journalctl is not installed"
    assert found["storage0"].startswith("its answer cannot be read: ")


def test_unit_that_no_node_has_is_refused(nodes: Nodes) -> None:
    nodes.programs["journal"] = lambda name, request: answer(known={"slurmct": False}, seen=["slurmctld", "munge"])
    with pytest.raises(InputError, match="no node that was asked has a unit `slurmct`") as refused:
        query_logs("lab", LogQuery(units=("slurmct.service",)))
    assert refused.value.hint == "did you mean `slurmctld`?"
    nodes.lost = {"worker0": "no response"}
    assert query_logs("lab", LogQuery(units=("slurmct",))).entries == ()


def test_unit_of_one_node_is_enough(nodes: Nodes) -> None:
    nodes.programs["journal"] = lambda name, request: answer(known={"slurmctld": name == "login0"})
    query_logs("lab", LogQuery(units=("slurmctld",)))


@pytest.mark.parametrize("text", ["(", "[a", "*x", "a{2,1}"])
def test_invalid_pattern_is_refused(nodes: Nodes, text: str) -> None:
    with pytest.raises(InputError, match="is not a regular expression"):
        query_logs("lab", LogQuery(grep=text))
    assert nodes.asked == []


@pytest.mark.parametrize(("text", "sent"), [("xid", "(?i:xid)"), ("Xid", "Xid"), ("a|b", "(?i:a|b)")])
def test_pattern_without_capitals_ignores_case(nodes: Nodes, text: str, sent: str) -> None:
    query_logs("lab", LogQuery(grep=text, nodes=("login0",)))
    assert nodes.asked[0][2]["rules"] == [["", sent]]


def test_secrets_of_the_stack_are_masked(nodes: Nodes) -> None:
    paths.secrets("lab").write_text("munge_key: c2VjcmV0LWtleQ==\n")
    paths.ssh_private_key_file("lab").write_text("-----BEGIN KEY-----\nAAAAB3NzaC1lZDI1\n-----END KEY-----\n")
    leak = "key c2VjcmV0LWtleQ== and AAAAB3NzaC1lZDI1"
    nodes.programs["journal"] = lambda name, request: leak if name == "worker0" else answer((time.time(), "a", leak), notes=[leak])
    report = query_logs("lab", LogQuery(nodes=("login0", "worker0")))
    shown = str(report.as_dict())
    assert "c2VjcmV0" not in shown and "AAAAB3" not in shown and shown.count("[secret] and [secret]") == 3


def test_request_holds_no_secret(nodes: Nodes) -> None:
    paths.secrets("lab").write_text("munge_key: c2VjcmV0LWtleQ==\n")
    query_logs("lab", LogQuery())
    assert "c2VjcmV0" not in str(nodes.asked)


def test_share_of_the_answer_falls_with_the_number_of_nodes(nodes: Nodes) -> None:
    query_logs("lab", LogQuery())
    assert {request["bytes"] for _, _, request in nodes.asked} == {logs._BYTES // 4}


@pytest.mark.parametrize("pod", ["ml/train-0", "x", "A/b"])
def test_pod_of_slurm_stack_is_refused(nodes: Nodes, pod: str) -> None:
    with pytest.raises(InputError, match="has no pods"):
        query_logs("lab", LogQuery(pod=pod))


@pytest.fixture
def kubernetes(nodes: Nodes) -> Nodes:
    inventory = load_inventory("lab")
    inventory["all"]["vars"]["cluster"]["scheduler"]["kind"] = "kubernetes"
    paths.inventory("lab").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    return nodes


def test_logs_of_a_pod(kubernetes: Nodes) -> None:
    kubernetes.programs["container_logs"] = lambda name, request: answer(known={"train-0": request["pod"] == "train-0"})
    query_logs("lab", LogQuery(pod="ml/train-0"))
    with pytest.raises(InputError, match="no node has logs of a pod `train-1` in namespace ml") as refused:
        query_logs("lab", LogQuery(pod="ml/train-1"))
    assert refused.value.hint == "did you mean `train-0`?"
    with pytest.raises(InputError, match="is not a pod"):
        query_logs("lab", LogQuery(pod="train-0"))


def test_static_pods_are_units(kubernetes: Nodes) -> None:
    """The kubelet's journal and the API server's containers are asked in one query."""
    now = time.time()
    kubernetes.programs["container_logs"] = lambda name, request: answer(
        (now - 1, "kube-system/etcd-login0/etcd", "b"), known={"etcd-login0": True}
    )
    kubernetes.programs["journal"] = lambda name, request: answer((now - 2, "kubelet", "a"), known={"kubelet": True})
    report = query_logs("lab", LogQuery(nodes=("login0",), units=("kubelet", "etcd")))
    assert [entry.message for entry in report.entries] == ["a", "b"]
    assert [(program, request.get("units"), request.get("pod")) for _, program, request in kubernetes.asked] == [
        ("container_logs", None, "etcd-*"),
        ("journal", ["kubelet"], None),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"--job": "5", "--unit": ["a"]},
        {"--job": "5", "--pod": "a/b"},
        {"--follow": True, "--since": "1h"},
        {"--pod": "a/b", "--unit": ["a"]},
    ],
)
def test_options_that_exclude_each_other(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be combined with"):
        refuse_combinations(given)
    refuse_combinations(dict.fromkeys(given))


def test_followed_entries_are_passed_on_and_lost_nodes_named(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    nodes.lost = {"worker1": "no response over SSH"}
    monkeypatch.setattr(log_stream, "_CLOSING", 0)
    paths.secrets("lab").write_text("munge_key: c2VjcmV0LWtleQ==\n")

    async def stream(stack: str, program: str, request: Any, name: str, *, sudo: bool, on_value: Callable[[Any], Awaitable[None]]) -> str:
        await on_value({"files": ["slurmctld"] if name == "login0" else []})
        await on_value(None)
        await on_value([1795795200000000, "sshd", 6, 7, f"{name} c2VjcmV0LWtleQ=="])
        await asyncio.sleep(0)
        return "connection closed"

    monkeypatch.setattr(remote_exec, "stream_from_node", stream)
    entries: list[LogEntry] = []
    remarks: list[str] = []
    with pytest.raises(UndeterminedError, match="no node is followed any more"):
        log_stream.follow_logs("lab", LogQuery(nodes=("login0", "worker")), entries.append, remarks.append)
    assert sorted(entry.message for entry in entries) == ["login0 [secret]", "worker0 [secret]"]
    assert sorted(remarks) == [
        "login0: log files are not followed: slurmctld",
        "login0: not followed any more: connection closed",
        "worker0: not followed any more: connection closed",
        "worker1: not followed: no response over SSH",
    ]


FIELDS = ["JobID", "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "NodeList"]
NO_JOB = "slurm_load_jobs error: Invalid job id specified"
NOW = int(time.time())


def record(*rows: list[str], **more: Any) -> dict[str, Any]:
    empty = {"sacct": "", "scontrol": "", "scontrol_error": NO_JOB, "users": {}}
    return {"fields": FIELDS, "rows": list(rows), "hosts": {"worker0": ["worker0"], "old7": ["old7"]}, **empty, **more}


FAILED = ["5", "5", "FAILED", "7:0", str(NOW - 70), str(NOW - 60), str(NOW - 50), "worker0"]
EXIT = (NOW - 50.0, "slurmctld", "_job_complete: JobId=5 WEXITSTATUS 7")


def test_job_is_explained_from_its_nodes_and_the_controller(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record(FAILED)
    nodes.programs["journal"] = lambda name, request: answer(*([EXIT] if name == "login0" else [(NOW - 55.0, "slurmd", "[6.0] other job")]))
    report = job_logs.query_job("lab", JobId("5"))
    assert [(name, program) for name, program, _ in nodes.asked] == [("login0", "slurm_job"), ("login0", "journal"), ("worker0", "journal")]
    assert (report.reports[0].cause.text, report.reports[0].cause.evidence[0].message) == ("it ended with exit code 7", EXIT[2])
    assert ([entry.message for entry in report.logs.entries], report.is_determined) == ([EXIT[2]], True)


def test_node_of_a_job_without_answer_leaves_it_undetermined(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record(FAILED)
    nodes.programs["journal"] = lambda name, request: answer(EXIT) if name == "login0" else "no end after 35 s"
    report = job_logs.query_job("lab", JobId("5"))
    assert ([node.node for node in report.logs.unanswered], report.is_determined) == (["worker0"], False)


def test_node_that_left_the_stack_is_named(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record([*FAILED[:-1], "old7"])
    assert job_logs.query_job("lab", JobId("5")).remarks == ("old7: no longer part of the stack, so their lines are missing",)


def test_accounting_without_answer_is_named(nodes: Nodes) -> None:
    shown = "JobId=5 JobName=x\n   JobState=FAILED Reason=NonZeroExitCode\n   NodeList=worker0\n"
    nodes.programs["slurm_job"] = lambda name, request: record(sacct="Connection refused", scontrol=shown, scontrol_error="")
    report = job_logs.query_job("lab", JobId("5"))
    assert (report.reports[0].run.state, "Connection refused" in report.remarks[0]) == ("FAILED", True)


def test_unknown_job_is_refused(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record()
    with pytest.raises(InputError, match="job 99: slurmctld, the accounting and the logs have no such job"):
        job_logs.query_job("lab", JobId("99"))


def test_unknown_job_is_undetermined_while_the_accounting_does_not_answer(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record(sacct="Connection refused")
    report = job_logs.query_job("lab", JobId("99"))
    assert (report.is_determined, report.remarks[-1]) == (False, "no line names it")


def test_job_without_record_is_searched_in_the_logs(nodes: Nodes) -> None:
    nodes.programs["slurm_job"] = lambda name, request: record()
    allocated = (NOW - 9000.0, "slurmctld", "sched: Allocate JobId=5 NodeList=worker[0-1],old7 #CPUs=2 Partition=gpu")
    nodes.programs["journal"] = lambda name, request: answer(*([allocated] if name == "login0" else []))
    report = job_logs.query_job("lab", JobId("5"))
    assert asked(nodes) == ["login0", "login0", "worker0", "worker1"]
    assert (len(report.logs.entries), report.is_determined) == (1, False)
    assert "has no record of it any more" in report.remarks[-1]


def test_controller_without_answer_is_undetermined(nodes: Nodes) -> None:
    nodes.lost = {"login0": "no response over SSH"}
    with pytest.raises(UndeterminedError, match="no controller answers:\nlogin0: no response over SSH"):
        job_logs.query_job("lab", JobId("5"))


def test_array_reads_logs_of_runs_that_failed(nodes: Nodes) -> None:
    tasks = [[f"5_{task}", str(10 + task), "FAILED" if task == 3 else "COMPLETED", *FAILED[3:]] for task in range(20)]
    nodes.programs["slurm_job"] = lambda name, request: record(*tasks)
    report = job_logs.query_job("lab", JobId("5"))
    assert "5_3" in [one.run.job for one in report.reports] and len(report.reports) == job_logs._RUNS
    assert "logs of 8 of 20 runs were read" in report.remarks[0]


def test_job_of_kubernetes_is_refused(kubernetes: Nodes) -> None:
    with pytest.raises(InputError, match="has no jobs of Slurm"):
        job_logs.query_job("lab", JobId("5"))
