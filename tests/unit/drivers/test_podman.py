"""Removing what carries a stack's label: nothing stays, and what cannot be removed is reported in podman's own words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rackwright.checks.cluster.harness import probe_container
from rackwright.drivers import podman
from rackwright.drivers.process import CompletedProcess
from rackwright.errors import RackwrightError


class Store:
    """A podman that holds one container, and refuses to remove it a given number of times."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.containers, self.vanishing = refusals, ["lab-worker0"], 0

    async def run(self, *arguments: str, **_: object) -> CompletedProcess:
        """Answer `ps`, `rm` and the listings of what is not there."""
        if arguments[0] == "ps":
            return CompletedProcess(arguments, 0, "\n".join(self.containers), "")
        if arguments[0] == "volume" and self.vanishing > 0:
            self.vanishing -= 1
            return CompletedProcess(arguments, 125, "", "Error: no volume with name lab-x found in database: no such volume")
        if arguments[0] == "rm":
            self.refusals -= 1
            if self.refusals >= 0:
                return CompletedProcess(arguments, 2, "", "Error: container state improper")
            self.containers.clear()
        return CompletedProcess(arguments, 0, "", "")


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store, with no pauses between looks."""
    made = Store(request.param)
    monkeypatch.setattr(podman, "podman", made.run)
    monkeypatch.setattr(podman, "_PAUSES", (0.0, 0.0, 0.0))
    return made


@pytest.mark.parametrize("store", [0, 1], indirect=True)
def test_a_container_that_is_still_dying_is_removed_at_the_next_look(store: Store) -> None:
    assert asyncio.run(podman.sweep("lab")) == ["container lab-worker0"]
    assert store.containers == []


@pytest.mark.parametrize("store", [99], indirect=True)
def test_what_stays_is_named_with_podmans_words(store: Store) -> None:
    with pytest.raises(RackwrightError, match="still there after removal: container lab-worker0; podman rm: container state improper"):
        asyncio.run(podman.sweep("lab"))
    assert store.containers == ["lab-worker0"]


@pytest.mark.parametrize("store", [0], indirect=True)
def test_a_volume_that_goes_while_podman_lists_is_no_failure(store: Store) -> None:
    store.vanishing = 1
    asyncio.run(podman.sweep("lab"))
    assert store.containers == []


@pytest.mark.parametrize("store", [0], indirect=True)
def test_a_listing_that_keeps_failing_is_told(store: Store) -> None:
    store.vanishing = 99
    with pytest.raises(RackwrightError, match="podman volume ls: no volume with name lab-x"):
        asyncio.run(podman.sweep("lab"))


def test_a_container_of_a_check_is_the_stacks_and_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(*words: str, **_: object) -> CompletedProcess:
        rows = "lab-worker0 map[rackwright.stack:lab]\nodd_name map[rackwright.ephemeral:check rackwright.stack:lab]\n"
        return CompletedProcess(words, 0, rows if words[0] == "ps" else "", "")

    monkeypatch.setattr(podman, "podman", listed)
    assert asyncio.run(podman.stack_leftovers("lab")) == ["container lab-worker0", "container odd_name"]
    assert asyncio.run(podman.stack_leftovers("lab", ephemeral=False)) == ["container lab-worker0"]


def test_checks_mark_their_containers_as_drift_knows_them() -> None:
    assert probe_container.EPHEMERAL == podman.EPHEMERAL_LABEL


def test_command_without_end_is_named_with_what_may_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of another process holds podman's storage for minutes on a busy machine."""
    waits = tmp_path / "podman"
    waits.write_text("#!/bin/sh\nexec sleep 600\n")
    waits.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(podman, "_runtime", lambda: ["--runtime", "runc"])
    with pytest.raises(RackwrightError, match=r"^podman pause: no end after \d+ s") as raised:
        asyncio.run(podman.podman("pause", "lab-worker0", timeout=0.2))
    assert "another podman command" in raised.value.hint


@pytest.fixture
def replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a program that is used as podman, with a state directory of its own."""
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(podman, "_runtime", list)
    return tmp_path / "podman"


def test_limit_grows_with_slowness_of_the_machine(replaced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced.write_text("#!/bin/sh\nexec sleep 600\n")
    replaced.chmod(0o755)
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "5")
    podman._slowness_in_minute.cache_clear()
    with pytest.raises(RackwrightError, match=r"^podman run: no end after 1 s"):
        asyncio.run(podman.podman("run", timeout=0.2))
    podman._slowness_in_minute.cache_clear()


def test_podman_runs_in_the_state_directory(replaced: Path) -> None:
    """Its monitor of a container writes files to the folder that it was started in."""
    replaced.write_text("#!/bin/sh\npwd -P\n")
    replaced.chmod(0o755)
    assert asyncio.run(podman.run_checked("run")) == str((replaced.parent / "state").resolve())
