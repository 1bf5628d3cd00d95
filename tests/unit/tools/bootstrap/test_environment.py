"""Which set of packages .venv holds, and when the bootstrap installs again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bootstrap import environment
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stages

CHECKOUT = Path(__file__).resolve().parents[4]
BOTH = ["requirements.lock", "requirements-dev.lock"]


class Played:
    """A checkout whose interpreter and uv are scripts; uv records what it is called with."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self._calls = folder / "calls"
        self._uv = folder / "bin" / "uv"
        for name in (*BOTH, "pyproject.toml", "tools/pulumi/shim.sh"):
            self.write(name, name)
        self.script(self.checkout / ".venv" / "bin" / "python", "exit 0")
        self.let_uv("exit 0")
        self._machine = Machine("Linux", "x86_64", folder, {"PATH": f"{self._uv.parent}:/usr/bin:/bin"}, 1000, (3, 12))

    def write(self, name: str, text: str) -> None:
        """Write a file of the checkout."""
        (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (self.checkout / name).write_text(text)

    def script(self, path: Path, line: str) -> None:
        """Write an executable."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def let_uv(self, line: str) -> None:
        """Set how uv ends."""
        self.script(self._uv, f'echo "$@" >> {self._calls}\n{line}')

    def create(self, dev: bool = False) -> None:
        """Create the environment as the bootstrap does."""
        environment.create(self._machine, Stages(), self.checkout, dev)

    def installed(self) -> list[list[str]]:
        """Return the lock files of every installation so far."""
        calls = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [[Path(word).name for word in call.split() if word.endswith(".lock")] for call in calls]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """A checkout with an empty environment."""
    return Played(tmp_path)


def test_runtime_request_installs_runtime_lock(played: Played) -> None:
    played.create()
    played.create()
    assert played.installed() == [BOTH[:1]]
    assert environment.is_current(played.checkout)
    assert not environment.is_current(played.checkout, dev=True)


def test_dev_environment_satisfies_runtime_request(played: Played) -> None:
    played.create(dev=True)
    played.create()
    played.create(dev=True)
    assert played.installed() == [BOTH]


def test_dev_request_extends_runtime_environment(played: Played) -> None:
    played.create()
    played.create(dev=True)
    assert played.installed() == [BOTH[:1], BOTH]


def test_changed_runtime_lock_is_installed_again(played: Played) -> None:
    """The stamp then names the runtime set alone: the tools may no longer fit."""
    played.create(dev=True)
    played.write("requirements.lock", "raised")
    played.create()
    played.create(dev=True)
    assert played.installed() == [BOTH, BOTH[:1], BOTH]


def test_changed_dev_lock_leaves_runtime_alone(played: Played) -> None:
    played.create(dev=True)
    played.write("requirements-dev.lock", "raised")
    played.create()
    assert played.installed() == [BOTH]
    played.create(dev=True)
    assert played.installed() == [BOTH, BOTH]


def test_failed_installation_is_repeated(played: Played) -> None:
    """Even when the locks are again those that were installed before."""
    played.create()
    played.write("requirements.lock", "raised")
    played.let_uv("exit 1")
    with pytest.raises(Failure):
        played.create()
    played.write("requirements.lock", "requirements.lock")
    played.let_uv("exit 0")
    played.create()
    assert len(played.installed()) == 3


@pytest.mark.parametrize("target", ["venv", "setup", "up", "down"])
def test_operators_targets_request_runtime_set(target: str) -> None:
    assert "--dev" not in commands_of(target)


@pytest.mark.parametrize(
    "target", ["check", "test", "faults", "soak", "newcomer", "bench", "bench-scale", "bench-hosts", "docs", "update-catalog"]
)
def test_developers_targets_request_dev_set(target: str) -> None:
    assert "--dev" in commands_of(target)


def commands_of(target: str) -> str:
    """Return what make would run."""
    told = subprocess.run(["make", "-n", target], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert "tools/bootstrap/run" in told
    return told
