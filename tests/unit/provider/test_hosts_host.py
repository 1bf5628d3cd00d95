"""A machine that is out is left alone; one that does not answer is a difference, not a loss."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.power import PowerSavingNodes
from rackwright.drivers.ssh_login import ConnectBudget, HostUnreachableError
from rackwright.inventory import paths
from rackwright.provider.hosts import host
from rackwright.provider.hosts.host import Host
from rackwright.provider.protocol.resource import RecordedState, RequestContext

_INPUTS: dict[str, Any] = {"stack": "rack", "name": "worker0", "out": False, "status": "usable"}
_KNOWN = {"public_key": "ssh-ed25519 AAAA", "instance_uid": "m1"}


async def _quiet(text: str) -> None:
    """Progress that is discarded."""


@pytest.fixture
def operation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RequestContext:
    """A call on worker0, in a home of its own; queries of the machine get no answer."""

    def nobody(*_: object, **__: object) -> None:
        raise HostUnreachableError("worker0: no SSH server answers")

    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(host, "_look", nobody)
    return RequestContext("urn", "rack", "worker0", False, _quiet, _quiet, _quiet)


def test_a_machine_that_is_out_from_the_start_is_not_looked_at(operation: RequestContext) -> None:
    made = asyncio.run(Host().create(operation, {**_INPUTS, "out": True}))
    assert (made.outputs["public_key"], made.outputs["instance_uid"]) == ("", "")


def test_a_machine_that_goes_out_keeps_what_is_known_of_it(operation: RequestContext) -> None:
    state = RecordedState("worker0", _INPUTS, {**_INPUTS, **_KNOWN})
    made = asyncio.run(Host().update(operation, state, {**_INPUTS, "out": True}))
    assert {name: made.outputs[name] for name in _KNOWN} == _KNOWN
    gone = dataclasses.replace(state, inputs={**_INPUTS, "out": True})
    seen = asyncio.run(Host().read(operation, gone))
    assert seen is not None and seen.inputs is None


def test_one_that_does_not_answer_differs_and_stays(operation: RequestContext) -> None:
    seen = asyncio.run(Host().read(operation, RecordedState("worker0", _INPUTS, {**_INPUTS, **_KNOWN})))
    assert seen is not None and seen.inputs is not None
    assert seen.inputs["status"] == "worker0: no SSH server answers" and seen.outputs["instance_uid"] == "m1"


def test_one_that_cannot_be_adopted_fails_the_run(operation: RequestContext) -> None:
    with pytest.raises(HostUnreachableError):
        asyncio.run(Host().create(operation, _INPUTS))


@pytest.mark.parametrize(("declared", "seconds"), [({"connect_timeout_s": 90.0}, 90.0), ({}, 60.0)], ids=["declared", "older-record"])
def test_adoption_repeats_login_and_says_so(
    operation: RequestContext, monkeypatch: pytest.MonkeyPatch, declared: dict[str, float], seconds: float
) -> None:
    budgets, said = list[ConnectBudget](), list[str]()

    def look(stack: str, inputs: dict[str, Any], *, adopted: bool, budget: ConnectBudget) -> dict[str, str]:
        budgets.append(budget)
        assert budget.say("worker0: Timeout opening channel.; attempt 2, for at most 54 s").result(10) is None  # type: ignore[attr-defined]
        return _KNOWN

    async def status(text: str) -> None:
        said.append(text)

    monkeypatch.setattr(host, "_look", look)
    asyncio.run(Host().create(dataclasses.replace(operation, status=status), {**_INPUTS, **declared}))
    assert [budget.seconds for budget in budgets] == [seconds]
    assert said[-1] == "worker0: Timeout opening channel.; attempt 2, for at most 54 s"


def test_machine_that_is_only_read_has_a_third_of_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = list[ConnectBudget]()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(host, "login", lambda *_, budget, **__: given.append(budget))
    way = {"address": "192.0.2.1", "port": 22, "user": "root", "host_key": "SHA256:x"}
    host._session("rack", {**_INPUTS, **way, "connect_timeout_s": 90})
    assert [budget.seconds for budget in given] == [30]


@pytest.mark.parametrize(
    ("answers", "status"),
    [([True], "usable"), ([False, True], "usable"), ([False, False], "worker0: no SSH server answers")],
    ids=["asleep", "suspended-meanwhile", "lost"],
)
def test_machine_that_slurm_powered_down_does_not_differ(
    operation: RequestContext, monkeypatch: pytest.MonkeyPatch, answers: list[bool], status: str
) -> None:
    async def answer(stack: str, saving: PowerSavingNodes, node: str) -> bool:
        assert (saving.controller, saving.nodes, node) == ("login0", ("worker0",), "worker0")
        return asked.pop(0)

    asked = list(answers)

    saving = {"idle_s": 300, "suspend_timeout_s": 30, "resume_timeout_s": 60, "nodes": ["worker0", "worker1"]}
    cluster = {"scheduler": {"controllers": ["login0"], "power_saving": saving}}
    paths.prepare("rack")
    paths.inventory("rack").write_text(json.dumps({"all": {"vars": {"handover": {}, "cluster": cluster}, "hosts": {}, "children": {}}}))
    monkeypatch.setattr(host, "is_suspended", answer)
    seen = asyncio.run(Host().read(operation, RecordedState("worker0", _INPUTS, {**_INPUTS, **_KNOWN})))
    assert seen is not None and seen.inputs is not None and (seen.inputs["status"], asked) == (status, [])
