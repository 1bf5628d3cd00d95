"""Who is asked what would change: nodes while they answer as they did when all was well, otherwise the phases."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rackwright.drift.difference import ScanMethod
from rackwright.drivers import ansible
from rackwright.inventory import paths
from rackwright.operations.check_mode import runner as looking
from rackwright.operations.check_mode import secret_placeholders, suspended_daemons
from rackwright.yaml_loader import load_yaml

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


SECRET = "a-secret-in-one-file-alone"


class Stack:
    """A stack that is up: what its nodes answer, what its phases would change, and how often they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        monkeypatch.setenv("RACKWRIGHT_HOME", str(home))
        monkeypatch.setattr(looking.ansible, "play", self.play)
        monkeypatch.setattr(looking.remote_exec, "run_on_nodes", self.ask)
        paths.prepare("lab")
        paths.inventory("lab").write_text(INVENTORY.read_text(encoding="utf-8"))
        for file in (paths.secrets("lab"), paths.ssh_config("lab"), paths.applied("lab")):
            file.write_text("x")
        paths.secrets("lab").write_text(f"secrets: {{munge_key: {SECRET}, host_keys: {{}}}}\n")
        self.phases = looking.PlaybookRun("lab", paths.inventory("lab"), paths.secrets("lab"))
        self.plays, self.answer, self.unreachable, self.other = 0, "a", "", ""
        self.limits: list[list[str]] = []
        self.suspended: dict[str, dict[str, str]] = {}
        self.late = ""
        self.applied, self.limited = ansible.PlaybookResult(), ansible.PlaybookResult()

    async def play(self, *_: Any, answers: Path | None, limit: list[str], limit_s: float | None, **__: Any) -> ansible.PlaybookResult:
        self.plays, self.limit, self.limit_s = self.plays + 1, limit, limit_s
        self.limits.append([*limit])
        if answers is None:
            return self.limited
        for node in self.phases.root:
            call = {"node": node, "task": "Look", "module": "ansible.modules.stat", "user": "root"}
            call["arguments"] = {"files": [{"content": f"key={SECRET}\n"}]}
            with answers.open("a", encoding="utf-8") as notes:
                notes.write(json.dumps({**call, "environment": {}, "answer": self.answer}) + "\n")
        return self.applied

    async def ask(
        self, _stack: str, program: str, requests: dict[str, Any], _root: Any, *, target: str, limit: float = 40
    ) -> tuple[dict[str, Any], dict[str, str]]:
        if program == "daemon_states":
            return {node: {"suspended": self.suspended.get(node, {})} for node in requests if node != self.unreachable}, {}
        assert program == "module_replay"
        self.requests, self.target, self.replay_limit = requests, target, limit
        told = {
            node: {"answers": [] if node == self.late else [self.answer if node != self.other else "b"], "late": node == self.late}
            for node in requests
            if node != self.unreachable
        }
        return told, {self.unreachable: "no route"} if self.unreachable else {}

    def look(self, **lost: str) -> looking.CheckModeResult:
        async def quiet(_: str) -> None:
            pass

        return asyncio.run(looking.run(self.phases, lost, quiet))


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stack:
    return Stack(monkeypatch, tmp_path)


def test_the_phases_look_once_and_then_the_nodes_are_asked(stack: Stack) -> None:
    ways = [stack.look() for _ in range(3)]
    assert stack.plays == 1 and ways[0].message == "check mode ran" and "nodes answer as on" in ways[2].message
    assert [one.method for one in ways] == [ScanMethod.CHECK_MODE, ScanMethod.CACHED, ScanMethod.CACHED]
    assert stack.target == "lab"  # whose nodes share this machine
    assert paths.check_mode_cache("lab").stat().st_mode & 0o777 == 0o600


def test_one_other_answer_and_the_phases_look(stack: Stack) -> None:
    stack.look()
    stack.answer = "b"
    assert "return a different result for `Look`" in stack.look().message and stack.plays == 2


def test_a_silent_node_is_no_answer(stack: Stack) -> None:
    stack.look()
    stack.unreachable = next(iter(stack.phases.root))
    assert stack.unreachable in stack.look().message and stack.limits[-1] == []


CHANGED = ansible.PlaybookResult(changed=[ansible.TaskResult("worker1", "base", "Write")])


def test_where_one_node_answers_otherwise_the_phases_look_at_that_and_at_the_controller(stack: Stack) -> None:
    stack.look()
    stack.other, stack.limited = "worker1", CHANGED
    found = stack.look()
    assert found.applied is CHANGED and stack.limits == [[], ["login0", "worker1"]]
    assert found.message == "check mode ran on login0,worker1: worker1 returns a different result for `Look`"
    assert found.method is ScanMethod.CHECK_MODE
    stack.other = ""
    assert "nodes answer as on" in stack.look().message, "what was kept holds still"


@pytest.mark.parametrize(
    "limited",
    [ansible.PlaybookResult(), ansible.PlaybookResult(failed=[ansible.TaskResult("worker1", "base", "Look")], changed=CHANGED.changed)],
    ids=["they would change nothing there", "they could not look there alone"],
)
def test_they_look_at_all_nodes_where_some_do_not_tell(stack: Stack, limited: ansible.PlaybookResult) -> None:
    stack.look()
    stack.other, stack.limited, stack.applied = "worker1", limited, CHANGED
    found = stack.look()
    assert found.applied is CHANGED and stack.limits[1:] == [["login0", "worker1"], []]
    assert found.message == "check mode ran: worker1 returns a different result for `Look`"


def test_a_node_that_is_lost_leaves_the_others_to_the_phases_and_nothing_is_kept(stack: Stack) -> None:
    lost = next(iter(stack.phases.root))
    stack.look(**{lost: "no route"})
    assert stack.plays == 1 and lost not in stack.limit and not paths.check_mode_cache("lab").exists()


@pytest.mark.parametrize(
    "applied",
    [
        ansible.PlaybookResult(changed=[ansible.TaskResult("worker0", "base", "Write")]),
        ansible.PlaybookResult(requires_drain=[ansible.TaskResult("worker0", "gpu", "Leave")]),
        ansible.PlaybookResult(failed=[ansible.TaskResult("worker0", "base", "Look")]),
        ansible.PlaybookResult(status=4),
    ],
    ids=["would change", "waits for a rolling update", "could not look", "ended badly"],
)
def test_only_what_was_well_is_kept(stack: Stack, applied: ansible.PlaybookResult) -> None:
    stack.applied = applied
    assert stack.look().applied is applied and not paths.check_mode_cache("lab").exists()


@pytest.mark.parametrize("file", [paths.inventory, paths.secrets, paths.ssh_config])
def test_another_hand_over_is_another_question(stack: Stack, file: Any) -> None:
    stack.look()
    file("lab").write_text(file("lab").read_text() + "\n# more\n")
    assert stack.look().message == "check mode ran" and stack.plays == 2


def test_an_up_that_applied_something_asks_anew(stack: Stack) -> None:
    stack.look()
    os.utime(paths.applied("lab"), (1, 1))
    assert stack.look().message == "check mode ran" and stack.plays == 2


def test_playbooks_of_the_users_own_are_always_asked(stack: Stack) -> None:
    stack.phases = looking.PlaybookRun("lab", paths.inventory("lab"), paths.secrets("lab"), site=str(paths.site("lab")))
    assert {stack.look().message for _ in range(2)} == {"check mode ran"} and stack.plays == 2


def test_secrets_stay_in_their_file_and_are_asked_with_all_the_same(stack: Stack) -> None:
    stack.look()
    assert SECRET not in paths.check_mode_cache("lab").read_text(encoding="utf-8")
    assert "nodes answer as on" in stack.look().message
    assert all(SECRET in json.dumps(request) for request in stack.requests.values())


def test_secret_of_a_file_that_the_inventory_names_is_masked_and_its_change_is_seen(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    document = load_yaml(INVENTORY.read_text(encoding="utf-8"))
    document["all"]["vars"]["cluster"]["scheduler"]["power_saving"] = {"bmcs": {"worker0": {"password_file": str(file), "ca_file": None}}}
    paths.inventory("lab").write_text(json.dumps(document))
    paths.secrets("lab").write_text("secrets: {}\n")
    stack.phases = looking.PlaybookRun("lab", paths.inventory("lab"), paths.secrets("lab"))
    stack.look()
    assert SECRET not in paths.check_mode_cache("lab").read_text(encoding="utf-8")
    assert "nodes answer as on" in stack.look().message and stack.plays == 1
    assert all(SECRET in json.dumps(request) for request in stack.requests.values())
    file.write_text("another-secret\n")
    assert stack.look().message == "check mode ran" and stack.plays == 2


def test_run_with_a_secret_that_cannot_be_masked_is_not_recorded(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("short\n")
    document = load_yaml(INVENTORY.read_text(encoding="utf-8"))
    document["all"]["vars"]["cluster"]["scheduler"]["power_saving"] = {"bmcs": {"worker0": {"password_file": str(tmp_path / "password")}}}
    paths.inventory("lab").write_text(json.dumps(document))
    stack.phases = looking.PlaybookRun("lab", paths.inventory("lab"), paths.secrets("lab"))
    assert {stack.look().message for _ in range(2)} == {"check mode ran"} and not paths.check_mode_cache("lab").exists()


def test_secret_is_masked_in_json(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("secrets: {}\n")
    secret = 'a "quoted" \\ secret'
    placeholders = secret_placeholders.read_secrets(tmp_path / "secrets", [secret])
    asked = {"content": json.dumps({"password": secret})}
    hidden = secret_placeholders.mask(asked, placeholders)
    assert "quoted" not in json.dumps(hidden) and secret_placeholders.unmask(hidden, placeholders) == asked


def test_who_answers_otherwise_is_told_once_for_each_thing_asked() -> None:
    others = [("worker1", "a : Look"), ("worker2", "a : Look"), ("login0", "b : See")]
    assert (
        looking._describe_mismatches(others)
        == "worker[1-2] return a different result for `a : Look`; login0 returns a different result for `b : See`"
    )


class TestSuspendedDaemons:
    """The phases run for a limited time on the node whose daemon is suspended; the other nodes are compared as far as they answer."""

    MUNGE = {"worker1": {"munge.service": "suspended by a signal"}}

    @pytest.fixture
    def held(self, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
        monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
        stack.look()
        stack.suspended, stack.limited, stack.limits = self.MUNGE, CHANGED, []
        return stack

    def test_phases_run_on_the_node_alone(self, held: Stack) -> None:
        found = held.look()
        assert (held.limits, found.incomplete, found.applied.changed) == ([["worker1"]], (), CHANGED.changed)
        assert found.message == "check mode ran on worker1, because munge.service is suspended by a signal on worker1"
        assert set(held.requests) == set(held.phases.root) - {"worker1"}, "its modules would wait for munged"
        assert held.limit_s == suspended_daemons.PHASES_S and held.replay_limit < 15
        assert "nodes answer as on" in self.after(held).message, "the record holds still"

    def after(self, held: Stack) -> looking.CheckModeResult:
        held.suspended = {}
        return held.look()

    def test_limits_grow_with_slowness(self, held: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "3")
        held.look()
        assert held.limit_s == 3 * suspended_daemons.PHASES_S

    def test_other_node_that_differs_is_compared_as_well(self, held: Stack) -> None:
        held.other = "worker0"
        assert held.look().incomplete == () and held.limits == [["worker1"], ["worker0"]]

    def test_node_that_waits_is_not_compared_completely(self, held: Stack) -> None:
        held.late = "worker0"
        found = held.look()
        assert held.limits == [["worker1"]]
        assert found.incomplete == (("worker0", "not compared completely, because munge.service is suspended by a signal on worker1"),)
        assert found.message.endswith("; not compared completely: worker0")

    @pytest.mark.parametrize(
        "limited",
        [
            ansible.PlaybookResult(changed=CHANGED.changed, cut_after=9.0),
            ansible.PlaybookResult(changed=CHANGED.changed, status=2, failed=[ansible.TaskResult("worker1", "scheduler", "Look")]),
            ansible.PlaybookResult(changed=CHANGED.changed, status=4, message="ansible broke"),
        ],
        ids=["cut", "a task without result", "ended badly"],
    )
    def test_incomplete_phases_leave_the_node_held(self, held: Stack, limited: ansible.PlaybookResult) -> None:
        held.limited = limited
        found = held.look()
        assert [node for node, _ in found.incomplete] == ["worker1"] and found.applied.changed == CHANGED.changed
        assert not found.applied.reasons, "the daemon is the cause"

    def test_phases_do_not_run_for_a_static_pod(self, held: Stack) -> None:
        held.suspended = {"login0": {"etcd.pod": "frozen"}}
        found = held.look()
        assert held.limits == [] and found.message == "check mode ran on no node, because static pod etcd is frozen on login0"

    def test_without_record_the_phases_run_everywhere_for_a_limited_time(self, stack: Stack) -> None:
        stack.suspended, stack.limited = self.MUNGE, CHANGED
        stack.look()
        assert stack.limits == [[]] and stack.limit_s is not None and not paths.check_mode_cache("lab").exists()
