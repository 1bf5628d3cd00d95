"""`rackwright rolling-update`: what it refuses, and what it says of how a roll ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rackwright.cli import main
from rackwright.drivers import power, ssh_connections
from rackwright.drivers.rolling_update import RollingUpdate, RollingUpdateResult
from rackwright.inventory import paths

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


class Stack:
    """A stack that is up, and how its roll ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.lost: dict[str, str] = {}
        self.done = RollingUpdateResult()
        self.asked: list[tuple[RollingUpdate, list[str]]] = []
        self.described = INVENTORY.read_text(encoding="utf-8")

    def roll(self, *words: str) -> tuple[object, str, str]:
        paths.inventory("lab").write_text(self.described)
        self.monkeypatch.setattr(sys, "argv", ["rackwright", "rolling-update", "lab", *words])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *self.capsys.readouterr())


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stack:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.inventory("lab").parent.mkdir(parents=True)
    found = Stack(monkeypatch, capsys)

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return found.lost

    async def run(self: RollingUpdate, nodes: Sequence[str], *_: object) -> RollingUpdateResult:
        found.asked.append((self, list(nodes)))
        return found.done if found.done.reasons else RollingUpdateResult(nodes=list(nodes))

    monkeypatch.setattr(ssh_connections, "connect_all", reach)
    monkeypatch.setattr(RollingUpdate, "run", run)
    monkeypatch.setattr(power, "from_inventory", lambda *_: None)
    return found


def test_all_workers_by_the_declared_batch_where_none_is_named(stack: Stack) -> None:
    code, out, _ = stack.roll()
    roll, nodes = stack.asked[0]
    assert (code, out) == (0, f"rolled {len(nodes)} of {len(nodes)}: {', '.join(nodes)}\n")
    assert all(name.startswith("worker") for name in nodes) and len(nodes) > 1
    assert (roll.batch, roll.reboot) == (1, False)


def test_named_workers_in_their_order(stack: Stack) -> None:
    assert stack.roll("--nodes", "worker1, worker0,worker1")[0] == 0
    assert stack.asked[0][1] == ["worker1", "worker0"]


def test_a_node_that_runs_no_jobs_is_refused(stack: Stack) -> None:
    code, _, err = stack.roll("--nodes", "workr0")
    assert code == 2 and "unknown worker `workr0`" in err and "did you mean `worker0`" in err and not stack.asked


def test_a_container_is_not_rebooted_and_a_machine_is(stack: Stack) -> None:
    assert '"manage_kernel": false' in stack.described or '"manage_kernel": true' in stack.described
    stack.described = stack.described.replace('"manage_kernel": true', '"manage_kernel": false')
    code, _, err = stack.roll("--reboot")
    assert code == 2 and "they have no kernel of their own" in err and not stack.asked
    stack.described = stack.described.replace('"manage_kernel": false', '"manage_kernel": true')
    assert stack.roll("--reboot")[0] == 0
    assert stack.asked[0][0].reboot


def test_nothing_is_begun_where_a_node_does_not_answer(stack: Stack) -> None:
    stack.lost = {"worker1": "Connection timed out"}
    code, _, err = stack.roll()
    assert (
        code == 3
        and "worker1: Connection timed out" in err
        and "aborted before any change: some nodes are unreachable" in err
        and not stack.asked
    )


def test_a_roll_that_stopped_says_where_and_why(stack: Stack) -> None:
    stack.done = RollingUpdateResult(
        nodes=["worker0"],
        reasons=["worker1: roll-in: gpu.count_matches_plan: expected 8, found 7", "worker1: the rolling update stopped here"],
    )
    code, out, err = stack.roll()
    assert (
        code == 1 and out == "" and "gpu.count_matches_plan" in err and "the rolling update stopped here" in err and "Traceback" not in err
    )


@pytest.mark.parametrize("has", [False, True])
def test_the_stack_s_own_table_of_contents_is_played_where_it_has_one(stack: Stack, has: bool) -> None:
    if has:
        paths.site("lab").write_text("[]")
    stack.roll()
    assert stack.asked[0][0].site == (str(paths.site("lab")) if has else "site.yml")


def test_a_hand_over_of_another_version_is_refused(stack: Stack) -> None:
    stack.described = stack.described.replace("rackwright.inventory/", "rackwright.inventory/0")
    code, _, err = stack.roll()
    assert (
        code == 2
        and "found rackwright.inventory/0" in err
        and "run `rackwright up STACK` to write the inventory again" in err
        and not stack.asked
    )


def test_an_interrupted_roll_says_what_is_left_drained(stack: Stack) -> None:
    async def run(*_: object) -> RollingUpdateResult:
        raise KeyboardInterrupt

    stack.monkeypatch.setattr(RollingUpdate, "run", run)
    code, _, err = stack.roll()
    assert code == 3 and "rolling update interrupted" in err and "stay drained" in err and "Traceback" not in err


def test_a_stack_that_is_not_up_is_no_traceback(stack: Stack) -> None:
    stack.monkeypatch.setattr(sys, "argv", ["rackwright", "rolling-update", "other"])
    with pytest.raises(SystemExit) as ended:
        main.app()
    assert ended.value.code == 2
