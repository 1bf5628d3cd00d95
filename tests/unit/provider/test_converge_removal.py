"""Nodes that are removed: drained for the time of the new plan, silenced until the phases have run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import ansible
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.operations import stack_files
from rackwright.operations.run_records import list_runs
from rackwright.provider.protocol.resource import RecordedState, RequestContext
from rackwright.provider.stack import converge
from rackwright.provider.stack.converge import Converge


async def said(_: str) -> None:
    """Progress that is discarded."""


OPERATION = RequestContext("urn", "lab", "converge", preview=False, status=said, info=said, warn=said)


def inputs(*names: str, drain_timeout_s: int) -> dict[str, Any]:
    """Converge's inputs, as far as leaving looks at them."""
    return {"plan": json.dumps({"scheduler": {"drain_timeout_s": drain_timeout_s}}), "hosts": {name: {} for name in names}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """How the leave playbook was started; its jobs do not end."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found: dict[str, Any] = {"order": []}

    async def play(root: object, playbook: str, **options: Any) -> ansible.PlaybookResult:
        found.update(options, playbook=playbook)
        found["order"].append(playbook)
        return ansible.PlaybookResult(status=2, message="worker2: still occupied by job 13")

    @asynccontextmanager
    async def silenced(_declared: object, nodes: Sequence[str], drain_s: float, _say: object) -> AsyncIterator[None]:
        found["order"].append(f"silenced: {', '.join(nodes)}, {drain_s} s")
        try:
            yield
        finally:
            found["order"].append("heard again")

    async def reach(*_: object, **__: object) -> dict[str, str]:
        return {}

    files = stack_files.StackFiles(root=None, inventory=None, secrets=None, hosts=("worker0", "worker2"), skip_tags=())  # type: ignore[arg-type]
    monkeypatch.setattr(converge.stack_files, "write_removal_inventory", lambda *_: files)
    monkeypatch.setattr(converge, "load", lambda _: None)
    monkeypatch.setattr(converge.silences, "of_removal", silenced)
    monkeypatch.setattr(converge.ssh_connections, "connect_all", reach)
    monkeypatch.setattr(converge.ansible, "play", play)
    return found


def leave(olds: dict[str, Any], news: dict[str, Any]) -> None:
    """An update from one set of hosts to another."""
    state = RecordedState("converge", olds, {**olds, "members": sorted(olds["hosts"]), "converged": True})
    asyncio.run(Converge().update(OPERATION, state, news))


def test_a_node_that_cannot_leave_stops_the_run_and_names_the_job(asked: dict[str, Any]) -> None:
    with pytest.raises(RackwrightError, match="worker2 cannot be removed yet:\nworker2: still occupied by job 13"):
        leave(inputs("worker0", "worker2", drain_timeout_s=300), inputs("worker0", drain_timeout_s=300))
    assert (asked["playbook"], asked["values"]["nodes_to_remove"]) == ("remove-nodes.yml", ["worker2"])
    (run,) = list_runs("lab")
    assert run.reasons == ("worker2: still occupied by job 13",) and asked["record"] == paths.runs("lab") / "1.jsonl"


def test_failed_removal_ends_the_silence(asked: dict[str, Any]) -> None:
    with pytest.raises(RackwrightError):
        leave(inputs("worker0", "worker2", drain_timeout_s=300), inputs("worker0", drain_timeout_s=2))
    assert asked["order"] == ["silenced: worker2, 2 s", "remove-nodes.yml", "heard again"]


def test_removed_node_is_silenced_until_the_phases_have_run(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus reads the node until the phase monitoring has run, and its slurmd stops before."""

    async def play(*_: object, **__: object) -> ansible.PlaybookResult:
        return ansible.PlaybookResult(status=0, message="")

    async def apply(*_: object) -> None:
        asked["order"].append("phases")

    monkeypatch.setattr(converge.ansible, "play", play)
    monkeypatch.setattr(Converge, "_apply", apply)
    leave(inputs("worker0", "worker2", drain_timeout_s=300), inputs("worker0", drain_timeout_s=300))
    assert asked["order"] == ["silenced: worker2, 300 s", "phases", "heard again"]


def test_update_without_removal_silences_nothing(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def apply(*_: object) -> None:
        asked["order"].append("phases")

    monkeypatch.setattr(Converge, "_apply", apply)
    leave(inputs("worker0", drain_timeout_s=300), inputs("worker0", "worker2", drain_timeout_s=300))
    assert asked["order"] == ["phases"]


def test_the_time_a_leaving_node_is_given_is_the_new_plan_s(asked: dict[str, Any]) -> None:
    """A changed drain_timeout applies to the run that follows."""
    with pytest.raises(RackwrightError):
        leave(inputs("worker0", "worker2", drain_timeout_s=300), inputs("worker0", drain_timeout_s=2))
    assert asked["values"]["drain_timeout_s"] == 2


def test_who_sleeps_is_not_waited_for_when_others_leave(asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    mark = paths.suspended_file("lab", "worker2")
    mark.parent.mkdir(parents=True)
    mark.touch()
    with pytest.raises(RackwrightError):
        leave(inputs("worker0", "worker2", drain_timeout_s=300), inputs("worker0", drain_timeout_s=2))
    assert asked["limit"] == ["worker0"]


def test_a_node_that_cannot_leave_leaves_the_record_as_it_is(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    news = {**inputs("worker0", drain_timeout_s=2), "cluster_spec": "{}"}
    with pytest.raises(RackwrightError):
        leave(inputs("worker0", "worker2", drain_timeout_s=2), news)
    assert not paths.applied("lab").exists()
