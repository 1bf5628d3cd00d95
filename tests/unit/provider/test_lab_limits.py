"""What the machine must allow is raised for as long as a stack needs it, and then what was there before is back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import inotify_limits
from rackwright.drivers.inotify_limits import forget
from rackwright.provider.lab.inotify_limits import InotifyLimits
from rackwright.provider.protocol.resource import RecordedState, RequestContext


async def _say(_: str) -> None:
    pass


@pytest.fixture(autouse=True)
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's setting, played by a file; 128 is what distributions have."""
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    monkeypatch.setattr(inotify_limits, "SETTING", file)
    monkeypatch.setattr(inotify_limits, "LEDGER", tmp_path / "run" / "inotify.json")
    return file


def operation(stack: str) -> RequestContext:
    return RequestContext(urn="", stack=stack, name="limits", preview=False, status=_say, info=_say, warn=_say)


def inputs(stack: str, wanted: int = 1024) -> dict[str, Any]:
    return {"stack": stack, "inotify_instances": wanted}


def make(stack: str, wanted: int = 1024) -> RecordedState:
    asyncio.run(InotifyLimits().create(operation(stack), inputs(stack, wanted)))
    return RecordedState("limits", inputs(stack, wanted), inputs(stack, wanted))


def end(state: RecordedState) -> None:
    asyncio.run(InotifyLimits().delete(operation(state.inputs["stack"]), state))


def test_it_is_raised_and_given_back(setting: Path) -> None:
    made = make("a")
    assert setting.read_text() == "1024\n"
    end(made)
    assert setting.read_text() == "128\n"


def test_the_last_stack_that_needs_it_gives_it_back(setting: Path) -> None:
    first, second = make("a"), make("b")
    end(first)
    assert setting.read_text() == "1024\n"
    end(second)
    assert setting.read_text() == "128\n"


def test_a_machine_that_allows_more_is_left_alone(setting: Path) -> None:
    setting.write_text("8192\n")
    end(make("a"))
    assert setting.read_text() == "8192\n"


def test_an_up_that_is_done_again_still_knows_what_was_there_before(setting: Path) -> None:
    make("a")
    end(make("a"))
    assert setting.read_text() == "128\n"


def test_what_somebody_has_lowered_is_seen_and_raised_again(setting: Path) -> None:
    made = make("a")
    setting.write_text("64\n")
    found = asyncio.run(InotifyLimits().read(operation("a"), made))
    assert found is not None and found.inputs is not None and found.inputs["inotify_instances"] == 64
    asyncio.run(InotifyLimits().update(operation("a"), made, inputs("a")))
    assert setting.read_text() == "1024\n"


def test_a_stack_that_never_asked_changes_nothing(setting: Path) -> None:
    made = make("a")
    forget("b")
    assert setting.read_text() == "1024\n"
    end(made)


def test_up_raises_setting_that_reboot_reset(setting: Path) -> None:
    made = make("a")
    unchanged = InotifyLimits().diff(made, made.inputs)
    assert asyncio.run(InotifyLimits().add_live_changes("a", made, unchanged)).changes == {}
    setting.write_text("128\n")
    assert [*asyncio.run(InotifyLimits().add_live_changes("a", made, unchanged)).changes] == ["inotify_instances"]
