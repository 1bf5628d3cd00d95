"""Phase rdma between virtual machines: tests by count, connections through rdma_cm, and what counts as too slow."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rackwright.checks.acceptance.evaluators.software_rdma import CHECKS, CONNECTIONS, DATA
from rackwright.checks.acceptance.parsers.rping import parse_rping
from rackwright.checks.acceptance.phase import Job
from rackwright.checks.acceptance.phases import rdma
from rackwright.errors import UndeterminedError

from .played import FAILED, FOUR, PASSED, SKIPPED, UNKNOWN, judged, scope, text, verdicts


def said(**changed: Callable[[str, str, str], tuple[str, int]]) -> Callable[..., object]:
    """Return captured texts as the output of clients; `changed`: text and status by tool, from server, client and rail."""

    def answer(job: Job, node: str, rank: int) -> object:
        met = json.loads(job.arguments[job.arguments.index("--pairs") + 1])
        mine = next((pair for pair in met if pair[1] == node), None)
        meetings = []
        for rail in ("rxe0", "rxe1") if mine else ():
            for tool, good in (("ib_write_bw", text("perftest", "software-bw")), ("rping", text("rping", "good"))):
                printed, status = changed[tool](*mine, rail) if tool in changed else (good, 0)
                meetings.append({"rail": rail, "tool": tool, "rc": status, "out": printed, "err": ""})
        return {"role": "client" if mine else "server", "meetings": meetings}

    return answer


def slow(figure: str) -> Callable[[str, str, str], tuple[str, int]]:
    """Return the output of a test in which one rail between two nodes has this rate in Gb/s."""
    good = text("perftest", "software-bw")
    return lambda one, other, rail: (
        good.replace("0.0938", figure) if ({one, other}, rail) == ({"worker0", "worker1"}, "rxe1") else good,
        0,
    )


def test_jobs_of_software_rdma_count_messages_and_name_rail_addresses() -> None:
    job = rdma.PHASE.jobs(scope(("worker0", "worker1"), software_rdma=True))[0]
    words = dict(zip(job.arguments[5::2], job.arguments[6::2], strict=True))
    assert job.arguments[:3] == ("--rails", "rxe0", "rxe1") and words["--count"] == "100" and words["--pings"] == "5"
    assert json.loads(words["--addresses"]) == {"worker0": ["198.18.0.24", "198.18.1.24"], "worker1": ["198.18.0.25", "198.18.1.25"]}


def test_jobs_of_adapters_stay_tests_by_duration() -> None:
    assert all("--count" not in job.arguments for job in rdma.PHASE.jobs(scope(FOUR)))


def test_paced_links_pass() -> None:
    found = judged(rdma, scope(FOUR, software_rdma=True), said())
    assert {check for check, _ in found} == set(CHECKS) and verdicts(found) == {}
    assert found[DATA, "worker0"].expected == "at least 50 Mbit/s" and "93.8 Mbit/s" in found[DATA, "worker0"].found
    assert {one.name for one in found[DATA, "worker0"].measurements} >= {f"{DATA}/rxe0/worker1", f"{DATA}/rxe1/worker3"}


@pytest.mark.parametrize(("figure", "verdict"), [("0.0499", FAILED), ("0.0500", PASSED)])
def test_half_of_the_rate_is_the_limit(figure: str, verdict: object) -> None:
    found = judged(rdma, scope(("worker0", "worker1"), software_rdma=True), said(ib_write_bw=slow(figure)))
    assert {found[DATA, node].verdict for node in ("worker0", "worker1")} == {verdict}
    assert found[CONNECTIONS, "worker0"].verdict is PASSED
    if verdict is FAILED:
        assert "worker1 on rxe1: 49.9 Mbit/s" in found[DATA, "worker0"].reason


def test_nodes_that_do_not_connect_are_unknown() -> None:
    broken = judged(rdma, scope(("worker0", "worker1"), software_rdma=True), said(rping=lambda *_: (text("rping", "failed-connect"), 255)))
    assert verdicts(broken) == {f"{CONNECTIONS}[worker0]": UNKNOWN, f"{CONNECTIONS}[worker1]": UNKNOWN}
    assert "cma event RDMA_CM_EVENT_REJECTED, error 8" in broken[CONNECTIONS, "worker0"].reason


def test_failure_of_the_server_follows_the_clients_error() -> None:
    """The client only knows that it could not connect."""
    client = said(ib_write_bw=lambda *_: ("Couldn't connect to worker0:18515", 1))

    def answer(job: Job, node: str, rank: int) -> object:
        failed = {
            "rail": "rxe0",
            "tool": "ib_write_bw",
            "rc": 1,
            "out": " Warning\n",
            "err": "Couldn't allocate MR\nFailed to create resources\n",
        }
        return {"role": "server", "meetings": [failed]} if node == "worker0" else client(job, node, rank)

    found = judged(rdma, scope(("worker0", "worker1"), software_rdma=True), answer)
    assert found[DATA, "worker1"].reason.endswith(
        "worker0 on rxe0: perftest did not run: Couldn't connect to worker0:18515; "
        "ib_write_bw on worker0 ended with status 1: Failed to create resources"
    )


def test_fewer_pings_fail() -> None:
    lines = text("rping", "good").splitlines()
    found = judged(rdma, scope(("worker0", "worker1"), software_rdma=True), said(rping=lambda *_: ("\n".join([*lines[:3], lines[5]]), 0)))
    assert found[CONNECTIONS, "worker0"].verdict is FAILED and "3 round trips, expected at least 5" in found[CONNECTIONS, "worker0"].reason


def test_failed_test_has_no_figure() -> None:
    broken = judged(
        rdma, scope(("worker0", "worker1"), software_rdma=True), said(ib_write_bw=lambda *_: (text("perftest", "software-bw"), 1))
    )
    assert broken[DATA, "worker0"].verdict is UNKNOWN and "ib_write_bw ended with status 1" in broken[DATA, "worker0"].reason


def test_nodes_without_output_are_unknown() -> None:
    silent = judged(rdma, scope(FOUR, software_rdma=True), lambda *_: None)
    assert set(verdicts(silent).values()) == {UNKNOWN} and len(silent) == len(FOUR) * len(CHECKS)


def test_adapters_skip_the_checks_of_software_rdma() -> None:
    found = judged(rdma, scope(FOUR), lambda *_: None)
    assert {found[check, node].verdict for check in CHECKS for node in FOUR} == {SKIPPED}


@pytest.mark.parametrize("name", ["failed-connect", "truncated"])
def test_rping_without_a_whole_list_is_refused(name: str) -> None:
    with pytest.raises(UndeterminedError):
        parse_rping(text("rping", name))


@pytest.mark.parametrize(
    "trouble",
    [
        "rdma_accept: Invalid argument",
        "ibv_create_qp: Cannot allocate memory",
        "recv_buf reg_mr failed",
        "ibv_alloc_pd failed",
        "poll failed: Bad file descriptor",
        "Failed to get cq event!",
        "setup_qp failed: -12",
        "recv wc error: -1",
        "post recv error: 22",
        "cq completion failed status 12",
        "cma detected device removal!!!!",
        "Received bogus data, size 8",
        "getaddrinfo failed (Name or service not known) - invalid hostname or IP address",
    ],
)
def test_rping_names_its_trouble(trouble: str) -> None:
    """Messages of rdma-core 65, librdmacm/examples/rping.c."""
    with pytest.raises(UndeterminedError, match="rping did not connect") as refused:
        parse_rping(f"verbose\n{trouble}\nclient DISCONNECT EVENT...\n")
    assert trouble in str(refused.value)


@pytest.mark.parametrize("name", ["good", "good-without-end"])
def test_rping_reports_round_trips(name: str) -> None:
    assert parse_rping(text("rping", name)) == 5
