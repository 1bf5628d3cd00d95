"""Connections are opened in an order that a login node survives, and what hangs on it is said of each node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rackwright.drivers import ssh_connections
from rackwright.inventory import paths

CONFIG = "# Stack rack\nHost login0\n  HostName 10.0.0.1\n\n" + "".join(
    f"Host worker{index}\n  HostName 10.0.0.{index + 2}\n  ProxyJump login0\n\n" for index in range(200)
)
NAMES = ["login0", *(f"worker{index}" for index in range(200))]


class Nodes:
    """Answers attempts; those in `dead` never."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.asked: list[str] = []
        self.under_way = self.most = 0

    async def attempt(self, _: str, name: str, __: float) -> str | None:
        """One attempt."""
        self.asked.append(name)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        return "no response over SSH" if name in self.dead else None


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """A login node with two hundred workers behind it."""
    nodes = Nodes()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(ssh_connections, "_attempt", nodes.attempt)
    monkeypatch.setattr(ssh_connections, "slowness", lambda: 1)
    paths.ssh_config("rack").parent.mkdir()
    paths.ssh_config("rack").write_text(CONFIG)
    return nodes


def reach(*names: str) -> dict[str, str]:
    """Try to reach these."""
    return asyncio.run(ssh_connections.connect_all("rack", names, within=0.1))


def test_the_login_node_is_reached_before_anybody_behind_it(nodes: Nodes) -> None:
    """Also where it was not asked for."""
    assert reach(*reversed(NAMES)) == {} and nodes.asked[0] == "login0" and len(nodes.asked) == 201
    nodes.asked.clear()
    assert reach("worker7") == {} and nodes.asked == ["login0", "worker7"]


def test_a_rack_is_not_reached_all_at_once(nodes: Nodes) -> None:
    reach(*NAMES)
    assert nodes.most == 64


def test_who_does_not_answer_is_told_alone(nodes: Nodes) -> None:
    nodes.dead = {"worker3"}
    (told,) = reach(*NAMES).items()
    assert told[0] == "worker3" and told[1].startswith("no response over SSH; tried for")


def test_behind_a_dead_login_node_everybody_says_so_at_once(nodes: Nodes) -> None:
    nodes.dead = {"login0"}
    found = reach("worker0", "login0", "worker1")
    assert list(found) == ["worker0", "login0", "worker1"] and set(nodes.asked) == {"login0"}
    assert found["login0"].startswith("no response over SSH")
    assert found["worker0"].startswith("is reached through login0, which does not respond: no response over SSH")


def test_without_a_configuration_everybody_is_asked_directly(nodes: Nodes) -> None:
    paths.ssh_config("rack").unlink()
    assert reach("worker0") == {} and nodes.asked == ["worker0"]


@pytest.mark.usefixtures("sleeps_skipped")
def test_slow_machine_waits_longer(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.dead = {"login0"}
    monkeypatch.setattr(ssh_connections, "slowness", lambda: 20)
    assert asyncio.run(ssh_connections.connect_all("rack", ["login0"], within=0.05)) == {"login0": "no response over SSH; tried for 1 s"}


class TestCause:
    """What is known of a node that does not answer ends the wait for it."""

    def test_node_that_cannot_answer_is_not_waited_for(self, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ssh_connections, "_BETWEEN_CAUSES", 0.0)
        nodes.dead = {"login0"}

        async def cause(name: str, last: bool) -> str | None:
            return None if last else f"container {name} exited with status 255"

        found = asyncio.run(ssh_connections.connect_all("rack", ["login0"], within=60, cause=cause))
        assert found == {"login0": "container login0 exited with status 255"}

    @pytest.mark.usefixtures("sleeps_skipped")
    def test_refusal_is_asked_for_at_the_end_only(self, nodes: Nodes) -> None:
        nodes.dead = {"login0"}
        calls: list[bool] = []

        async def cause(_: str, last: bool) -> str | None:
            calls.append(last)
            return "sshd refused the session" if last else None

        assert asyncio.run(ssh_connections.connect_all("rack", ["login0"], within=0.2, cause=cause)) == {
            "login0": "sshd refused the session"
        }
        assert calls == [True]


@pytest.mark.parametrize(("status", "closed"), [(0, False), (254, True), (255, True)])
def test_failed_login_closes_its_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, closed: bool) -> None:
    """Over the master of a login that PAM refused, every later session is refused, too."""
    ended: list[str] = []

    async def run(argv: list[str], **_: object) -> ssh_connections.CompletedProcess:
        return ssh_connections.CompletedProcess(tuple(argv), status, "", "")

    async def close(_: str, name: str) -> None:
        ended.append(name)

    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(ssh_connections, "run", run)
    monkeypatch.setattr(ssh_connections, "close", close)
    asyncio.run(ssh_connections._attempt("rack", "login0", 1.0))
    assert ended == (["login0"] if closed else [])
