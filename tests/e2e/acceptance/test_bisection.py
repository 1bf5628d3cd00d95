"""`rackwright acceptance --bisect` in a lab: a worker with a slow network is named, and a slow path. The lab's fabric is simulated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.command import CommandResult
from support.project import Project

PATH = "inet rackwright_test_path"
"""The table of nftables that limits what worker0 sends to worker2: a slow path between two nodes."""


@pytest.fixture(scope="module")
def three_workers(lab: Project) -> Iterator[Project]:
    """Yield the stack with a third worker: of two, the slow one is undecidable."""

    def resize(count: int) -> Any:
        return lambda cluster: cluster["groups"]["worker"].update(count=count)

    lab.edit(resize(3))
    lab.run_checked("up")
    yield lab
    lab.edit(resize(2))
    lab.run_checked("up")


def bisect(lab: Project) -> tuple[CommandResult, dict[str, Any]]:
    """Run a search; return its output and its report."""
    said = lab.rackwright("acceptance", lab.stack, "--bisect")
    return said, json.loads((lab.home / lab.stack / "acceptance.partial.json").read_text())


@pytest.fixture
def slow_worker(three_workers: Project) -> Iterator[Project]:
    """Yield a stack in which worker2 sends at a quarter of the rate that the search expects."""
    device = '"$(ip -o -4 route show default | cut -d" " -f5)"'
    said = three_workers.ssh("worker2", f"tc qdisc replace dev {device} root tbf rate 10mbit burst 32kbit latency 800ms")
    assert said.ok, said.end
    yield three_workers
    assert three_workers.ssh("worker2", f"tc qdisc del dev {device} root").ok


@pytest.fixture
def slow_path(three_workers: Project) -> Iterator[Project]:
    """Yield a stack in which worker0 loses most of what it sends to worker2."""
    address = three_workers.ssh("worker0", "getent hosts worker2 | cut -d' ' -f1").output.strip()
    rule = f"ip daddr {address} tcp dport 20000-30000 limit rate over 500 kbytes/second burst 100 kbytes drop"
    chain = "{ type filter hook output priority 0; }"
    said = three_workers.ssh("worker0", f"nft 'add table {PATH}; add chain {PATH} out {chain}; add rule {PATH} out {rule}'")
    assert said.ok, said.end
    yield three_workers
    assert three_workers.ssh("worker0", f"nft delete table {PATH}").ok


def test_bisection_of_healthy_lab_finds_nothing(three_workers: Project) -> None:
    said, report = bisect(three_workers)
    assert said.ok, said.end
    assert "nothing found: all nodes together are as planned" in said.output
    assert (report["bisection"]["outcome"], report["bisection"]["culprits"]) == ("as-planned", [])
    assert {check["evidence"] for check in report["checks"]} == {"simulated"}


def test_bisection_names_slow_worker(slow_worker: Project) -> None:
    said, report = bisect(slow_worker)
    assert (said.status, report["verdict"]) == (1, "failed"), said.output
    assert "node worker2" in said.output and "simulated" in said.output
    (culprit,) = report["bisection"]["culprits"]
    assert (culprit["kind"], culprit["names"]) == ("node", ["worker2"])
    assert culprit["measured"] < report["bisection"]["least"] < culprit["expected"]
    assert [check["node"] for check in report["checks"] if check["verdict"] == "failed"] == ["worker2"]
    (phase,) = report["phases"]
    ids = ",".join(job["id"] for job in phase["jobs"])
    assert set(slow_worker.ssh("login0", f"sacct -nXP -j {ids} -o User,State").output.split()) == {"alice|COMPLETED"}


def test_bisection_names_slow_path(slow_path: Project) -> None:
    said, report = bisect(slow_path)
    assert said.status == 1, said.output
    (culprit,) = report["bisection"]["culprits"]
    assert (culprit["kind"], culprit["names"]) == ("pair", ["worker0", "worker2"])
