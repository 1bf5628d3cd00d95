"""A machine that is out is left alone; one that does not answer is a difference, not a loss."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.ssh_login import HostUnreachableError
from rackwright.provider.hosts import host
from rackwright.provider.hosts.host import Host
from rackwright.provider.protocol.resource import RecordedState, RequestContext

_INPUTS: dict[str, Any] = {"stack": "rack", "name": "worker0", "out": False, "status": "usable"}
_KNOWN = {"public_key": "ssh-ed25519 AAAA", "instance_uid": "m1"}


async def _quiet(text: str) -> None:
    """Nobody watches."""


@pytest.fixture
def operation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RequestContext:
    """A call on worker0, in a home of its own; whoever looks at the machine gets no answer."""

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
