"""What Converge asks of its drivers, and what it records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackwright.drift.difference import ScanMethod
from rackwright.drivers import ansible, rolling_update
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.operations import stack_files
from rackwright.operations.check_mode.runner import CheckModeResult
from rackwright.operations.run_records import list_runs
from rackwright.provider.protocol.property_values import UNKNOWN
from rackwright.provider.protocol.resource import RecordedState, RequestContext
from rackwright.provider.stack import converge
from rackwright.provider.stack.converge import Converge, _power_saving_nodes
from rackwright.report.run_record import RunState


async def said(_: str) -> None:
    """Progress that is discarded."""


OPERATION = RequestContext("urn", "lab", "converge", preview=False, status=said, info=said, warn=said)


def inputs(*names: str, drain_timeout_s: int) -> dict[str, Any]:
    """Converge's inputs, as far as leaving looks at them."""
    return {"plan": json.dumps({"scheduler": {"drain_timeout_s": drain_timeout_s}}), "hosts": {name: {} for name in names}}


def saving(idle_s: int, **lives: str) -> dict[str, Any]:
    """Inputs of a stack that saves power where `idle_s` is not 0; every worker may sleep."""
    power = {"idle_s": idle_s, "suspend_timeout_s": 30, "resume_timeout_s": 60, "nodes": [name for name in lives if name != "login0"]}
    plan = {"scheduler": {"controllers": ["login0"], "power_saving": power if idle_s else None}}
    return {"plan": json.dumps(plan), "hosts": {name: {"instance_uid": life} for name, life in lives.items()}}


def test_nodes_that_sleep_by_the_old_plan_are_woken_for_the_new_one() -> None:
    """After power saving is switched off, or a sleeping worker gets another role, nodes still sleep."""
    old = saving(60, login0="a", worker0="b", worker1="c")
    assert _power_saving_nodes(saving(0, login0="a", worker0="b", worker1="c"), old).nodes == ("worker0", "worker1")  # type: ignore[union-attr]
    assert _power_saving_nodes(saving(300, login0="a", worker0="b"), old).nodes == ("worker0",)  # type: ignore[union-attr]
    assert _power_saving_nodes(saving(300, login0="a", worker0="b"), old).idle_s == 300  # type: ignore[union-attr]


def test_a_node_made_anew_is_not_waited_for() -> None:
    """It is awake, and cannot tell Slurm so before it is converged."""
    old = saving(60, login0="a", worker0="b", worker1="c")
    news = saving(60, login0="a", worker0="b2", worker1="c", worker2="d")
    assert _power_saving_nodes(news, old).nodes == ("worker1",)  # type: ignore[union-attr]


def test_a_stack_that_never_saved_power_has_nobody_to_wake() -> None:
    assert _power_saving_nodes(saving(0, login0="a", worker0="b"), saving(0, login0="a", worker0="b")) is None


@pytest.fixture
def applying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ansible.PlaybookResult:
    """A run of the phases on files that no process writes; how it ends can be set."""
    ended = ansible.PlaybookResult()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    async def play(self: Converge, *_: object, **__: object) -> tuple[list[str], ansible.PlaybookResult]:
        return ended.reasons, ended

    async def close(*_: object) -> None:
        """No connection is open."""

    monkeypatch.setattr(Converge, "_play", play)
    monkeypatch.setattr(converge.ssh_connections, "close", close)
    monkeypatch.setattr(converge.stack_files, "write", lambda *_: None)
    return ended


@pytest.mark.parametrize(("status", "settled"), [(0, True), (2, False)])
def test_what_is_applied_is_on_record_and_so_is_how_it_ended(
    applying: ansible.PlaybookResult, monkeypatch: pytest.MonkeyPatch, status: int, settled: bool
) -> None:
    """The next edit of the stack file is previewed."""
    applying.status, applying.message = status, "worker0: slurmd does not start"
    news = {**inputs("worker0", drain_timeout_s=2), "cluster_spec": '{"level": "smoke"}'}
    asyncio.run(Converge().create(OPERATION, news))
    said = json.loads(paths.applied("lab").read_text())
    assert (said["converged"], said["cluster"], said["plan"]) == (settled, {"level": "smoke"}, json.loads(news["plan"]))


def test_run_is_recorded_as_spans(applying: ansible.PlaybookResult) -> None:
    applying.times = [["storage", "nfs_client", "worker0", "2026-11-27T16:00:00+00:00", "2026-11-27T16:00:02+00:00", 3, 0]]
    asyncio.run(Converge().create(OPERATION, {**inputs("worker0", drain_timeout_s=2), "cluster_spec": "{}"}))
    (document,) = [json.loads(line) for line in paths.traces("lab").read_text().splitlines()]
    names = [span["name"] for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert names == ["converge", "phase storage", "role nfs_client", "nfs_client worker0"]


def test_failure_names_the_command_that_prints_the_record(applying: ansible.PlaybookResult) -> None:
    applying.failed = [ansible.TaskResult("worker0", "scheduler", "Start slurmd", "no controller")]
    applying.status = 2
    made = asyncio.run(Converge().create(OPERATION, inputs("worker0", drain_timeout_s=2)))
    assert made.init_errors[0] == "worker0: scheduler: Start slurmd: no controller"
    assert made.init_errors[-1] == "complete record of this run: `rackwright runs lab 1 --failed`"
    (run,) = list_runs("lab")
    assert (run.what, run.nodes, run.state, run.reasons) == ("up", ("worker0",), RunState.FAILED, made.init_errors[:-1])


def test_record_that_cannot_be_written_is_a_warning(applying: ansible.PlaybookResult) -> None:
    paths.prepare("lab")
    paths.runs("lab").touch()
    warnings: list[str] = []

    async def warn(text: str) -> None:
        warnings.append(text)

    made = asyncio.run(Converge().create(replace(OPERATION, warn=warn), inputs("worker0", drain_timeout_s=2)))
    assert made.outputs["converged"] and len(warnings) == 1 and warnings[0].startswith("the run's record was not written completely")


def test_spans_that_cannot_be_recorded_are_a_warning(applying: ansible.PlaybookResult) -> None:
    applying.times = [["storage"]]
    warnings: list[str] = []

    async def warn(text: str) -> None:
        warnings.append(text)

    made = asyncio.run(Converge().create(replace(OPERATION, warn=warn), {**inputs("worker0", drain_timeout_s=2), "cluster_spec": "{}"}))
    assert made.outputs["converged"] and len(warnings) == 1 and warnings[0].startswith("spans were not recorded")


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedState:
    """A stack that another version applied: its plan has neither the fields nor the words of this one."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    olds = inputs("worker0", "worker2", drain_timeout_s=2)
    return RecordedState("converge", olds, {**olds, "members": ["worker0", "worker2"], "converged": True})


def test_what_another_version_applied_is_found_not_converged(older: RecordedState) -> None:
    made = asyncio.run(Converge().read(OPERATION, older))
    assert made.outputs["converged"] is False
    assert "by another version of rackwright" in made.init_errors[0] and "`rackwright up` to write a new plan" in made.init_errors[0]


def test_nodes_cannot_leave_while_another_version_s_plan_is_on_record(older: RecordedState) -> None:
    with pytest.raises(RackwrightError, match="worker2 cannot be removed yet: the recorded plan was written by another version") as refused:
        asyncio.run(Converge().update(OPERATION, older, inputs("worker0", drain_timeout_s=2)))
    assert "declare them again and run `up`" in str(refused.value)


def test_a_description_that_says_the_same_in_other_words_changes_nothing() -> None:
    olds = {**inputs("worker0", drain_timeout_s=2), "cluster_spec": '{"a": null}'}
    state = RecordedState("converge", olds, {"converged": True})
    assert not Converge().diff(state, {**olds, "cluster_spec": "{}"}).changes


class TestSettled:
    """Lives of nodes that were given their own host key: from then on the one they were born with is accepted no more."""

    @pytest.fixture
    def written(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
        """What was settled each time the stack's files were written; every node answers."""
        monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        found: list[tuple[str, ...]] = []
        files = stack_files.StackFiles(root=None, inventory=None, secrets=None, hosts=("login0", "worker0"), skip_tags=())  # type: ignore[arg-type]

        def write(_stack: str, _inputs: object, settled: Sequence[str] = ()) -> stack_files.StackFiles:
            found.append(tuple(settled))
            return files

        async def reach(*_: object, **__: object) -> dict[str, str]:
            return {}

        async def close(*_: object) -> None:
            pass

        monkeypatch.setattr(converge.stack_files, "write", write)
        monkeypatch.setattr(converge.stack_files, "invalidate_report", lambda _stack: None)
        monkeypatch.setattr(converge.stack_files, "record", lambda *_, **__: None)
        monkeypatch.setattr(converge.ssh_connections, "connect_all", reach)
        monkeypatch.setattr(converge.ssh_connections, "close", close)
        return found

    @pytest.fixture
    def ends(self, monkeypatch: pytest.MonkeyPatch) -> list[ansible.PlaybookResult]:
        """How the next plays end, in order; then well."""
        found: list[ansible.PlaybookResult] = []

        async def play(*_: object, **__: object) -> ansible.PlaybookResult:
            return found.pop(0) if found else ansible.PlaybookResult()

        async def look(*_: object) -> CheckModeResult:
            return CheckModeResult(await play(), ScanMethod.CHECK_MODE, "check mode ran")

        monkeypatch.setattr(converge.ansible, "play", play)
        monkeypatch.setattr(converge, "run", look)
        return found

    def test_refresh_that_a_suspended_daemon_cut_is_not_converged(
        self, written: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = (("worker0", "not compared completely, because munge.service is frozen on worker0"),)

        async def look(*_: object) -> CheckModeResult:
            return CheckModeResult(ansible.PlaybookResult(), ScanMethod.CHECK_MODE, "check mode ran", held)

        monkeypatch.setattr(converge, "run", look)
        olds = saving(0, login0="a", worker0="b")
        state = RecordedState("converge", olds, {**olds, "members": ["login0", "worker0"], "settled": ["a", "b"]})
        assert asyncio.run(Converge().read(OPERATION, state)).init_errors == (": ".join(held[0]),)

    def test_a_run_that_ends_well_settles_every_life(self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult]) -> None:
        made = asyncio.run(Converge().create(OPERATION, saving(0, login0="a", worker0="b")))
        assert made.outputs["host_key_rotated"] == ["a", "b"]
        assert written == [(), ("a", "b")], "the files that are left accept no key of birth"

    def test_playbooks_append_to_the_record(self, written: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
        files: list[Path | None] = []

        async def play(*_: object, record: Path | None, **__: object) -> ansible.PlaybookResult:
            files.append(record)
            return ansible.PlaybookResult()

        monkeypatch.setattr(converge.ansible, "play", play)
        asyncio.run(Converge().create(OPERATION, saving(0, login0="a", worker0="b")))
        assert files == [paths.runs("lab") / "1.jsonl"]

    def test_a_run_that_fails_settles_nobody(self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult]) -> None:
        ends.append(ansible.PlaybookResult(status=2, message="worker0: no space left"))
        made = asyncio.run(Converge().create(OPERATION, saving(0, login0="a", worker0="b")))
        assert (made.outputs["converged"], made.outputs["host_key_rotated"], written) == (False, [], [()])

    def test_who_was_settled_stays_so_when_another_fails(self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult]) -> None:
        ends.append(ansible.PlaybookResult(status=2, message="worker1: no space left"))
        olds = saving(0, login0="a", worker0="b")
        state = RecordedState("converge", olds, {**olds, "members": ["login0", "worker0"], "host_key_rotated": ["a", "b"]})
        made = asyncio.run(Converge().update(OPERATION, state, saving(0, login0="a", worker0="b2", worker1="c")))
        assert (made.outputs["host_key_rotated"], written) == (["a", "b"], [("a", "b")]), "worker0's new life is not among them"

    def test_a_node_that_was_out_from_the_start_is_not_settled(
        self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult]
    ) -> None:
        """It still shows the key it was born with when it comes in."""
        news = saving(0, login0="a", worker0="b")
        nodes = [{"name": "login0", "state": "in"}, {"name": "worker0", "state": "out"}]
        news["plan"] = json.dumps({**json.loads(news["plan"]), "nodes": nodes})
        assert asyncio.run(Converge().create(OPERATION, news)).outputs["host_key_rotated"] == ["a"]

    def test_who_is_just_being_born_may_take_as_long_as_its_target_says(
        self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine that exists and does not respond does not delay the others for a quarter of an hour."""
        waited: dict[str, float] = {}

        async def reach(_stack: str, names: Sequence[str], *, within: float, cause: object) -> dict[str, str]:
            waited.update(dict.fromkeys(names, within))
            return {}

        files = replace(converge.stack_files.write("lab", {}), boot_timeout=900.0)
        monkeypatch.setattr(converge.stack_files, "write", lambda *_: files)
        monkeypatch.setattr(converge.ssh_connections, "connect_all", reach)
        olds = saving(0, login0="a", worker0="b")
        state = RecordedState("converge", olds, {**olds, "members": ["login0", "worker0"], "host_key_rotated": ["a", "b"]})
        asyncio.run(Converge().update(OPERATION, state, saving(0, login0="a", worker0="b2")))
        assert waited == {"worker0": 900.0, "login0": 45.0}

    def test_a_look_accepts_what_the_record_says(self, written: list[tuple[str, ...]], ends: list[ansible.PlaybookResult]) -> None:
        olds = saving(0, login0="a", worker0="b")
        made = asyncio.run(
            Converge().read(OPERATION, RecordedState("converge", olds, {**olds, "converged": True, "host_key_rotated": ["a"]}))
        )
        assert (made.outputs["host_key_rotated"], written) == (["a"], [("a",)])


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A stack whose phases leave something undone on two nodes; `rolls` holds what is then rolled, `reasons` how that ends."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    found: dict[str, Any] = {"rolls": [], "reasons": [], "failed": []}
    files = stack_files.StackFiles(
        root=tmp_path, inventory=tmp_path, secrets=tmp_path, hosts=("login0", "worker0", "worker1"), skip_tags=()
    )
    waits = [
        ansible.TaskResult(name, "gpu", "Leave another driver", "driver 550 serves, 580 is declared") for name in ("worker1", "worker0")
    ]

    async def site(*_: object, **__: object) -> ansible.PlaybookResult:
        return ansible.PlaybookResult(requires_drain=list(waits), failed=list(found["failed"]), status=2 if found["failed"] else 0)

    async def look(*_: object) -> CheckModeResult:
        return CheckModeResult(await site(), ScanMethod.CHECK_MODE, "check mode ran")

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return {}

    async def run(self: rolling_update.RollingUpdate, nodes: Sequence[str], *_: object) -> rolling_update.RollingUpdateResult:
        found["rolls"].append((self.batch, list(nodes)))
        return rolling_update.RollingUpdateResult(
            nodes=list(nodes), changed=[ansible.TaskResult("worker0", "gpu", "driver")], reasons=found["reasons"]
        )

    monkeypatch.setattr(converge.stack_files, "write", lambda *_: files)
    monkeypatch.setattr(converge.ssh_connections, "connect_all", reach)
    monkeypatch.setattr(Converge, "_site", site)
    monkeypatch.setattr(converge, "run", look)
    monkeypatch.setattr(converge, "load", lambda _: None)
    monkeypatch.setattr(rolling_update.RollingUpdate, "run", run)
    found["inputs"] = {"plan": json.dumps({"scheduler": {}, "rolling": {"batch": 3}}), "hosts": {name: {} for name in files.hosts}}
    return found


def played(waiting: dict[str, Any], *, check: bool) -> ansible.PlaybookResult:
    """The phases, and what follows."""
    return asyncio.run(Converge()._play(OPERATION, waiting["inputs"], (), None, within=1, check=check))[1]


def test_what_the_phases_left_undone_is_rolled_in_the_plan_s_order(waiting: dict[str, Any]) -> None:
    applied = played(waiting, check=False)
    assert waiting["rolls"] == [(3, ["worker0", "worker1"])]
    assert not applied.reasons and len(applied.changed) == 1


def test_a_roll_that_stopped_is_a_failed_converge(waiting: dict[str, Any]) -> None:
    waiting["reasons"] = ["worker0: the rolling update stopped here"]
    assert played(waiting, check=False).reasons == ["worker0: the rolling update stopped here"]


def test_nothing_is_rolled_after_a_failure_or_by_a_look(waiting: dict[str, Any]) -> None:
    assert played(waiting, check=True).requires_drain
    waiting["failed"] = [ansible.TaskResult("login0", "storage", "mount")]
    played(waiting, check=False)
    assert waiting["rolls"] == []


def test_a_look_tells_who_waits_to_be_rolled(waiting: dict[str, Any]) -> None:
    state = RecordedState("converge", waiting["inputs"], {**waiting["inputs"], "converged": True})
    made = asyncio.run(Converge().read(OPERATION, state))
    assert made.init_errors[0] == "worker1: waits for a rolling update: driver 550 serves, 580 is declared"
    assert not made.outputs["converged"]


def test_preview_leaves_the_result_of_converge_unknown() -> None:
    """A preview of a stack that was never up has applied nothing."""
    foreseen = Converge().preview_outputs({"hosts": {"worker1": {}, "worker0": {}}})
    assert foreseen["members"] == ["worker0", "worker1"]
    assert {key for key, value in foreseen.items() if value == UNKNOWN} == {
        "converged",
        "reasons",
        "changes",
        "host_key_rotated",
        "generation",
    }
