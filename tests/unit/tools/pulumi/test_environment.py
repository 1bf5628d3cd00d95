"""The shim's defaults: each yields to the environment and to a login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.operations.state.directory import StateDirectory
from shim import environment, login

HOME = StateDirectory("/home/a/state/rackwright")


def defaults(environ: dict[str, str]) -> dict[str, str]:
    """What the shim adds for our project."""
    return environment.for_our_project(environ, HOME, login.chosen_backend(environ))


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """An environment without any login."""
    return {"PULUMI_HOME": str(tmp_path), "PATH": "/usr/bin"}


def log_in(folder: Path, content: object) -> None:
    """Writes the engine's credentials file."""
    (folder / "credentials.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_without_login_state_and_passphrase_are_the_homes(nobody: dict[str, str]) -> None:
    added = defaults(nobody)
    assert added["PULUMI_BACKEND_URL"] == "file:///home/a/state/rackwright/.engine/state"
    assert added["PULUMI_CONFIG_PASSPHRASE_FILE"] == "/home/a/state/rackwright/.engine/passphrase"
    assert added["PULUMI_SKIP_UPDATE_CHECK"] == "true"
    assert added["RACKWRIGHT_HOME"] == HOME.root


@pytest.mark.parametrize(
    ("said", "passphrase"),
    [
        ({"PULUMI_BACKEND_URL": "s3://states"}, False),
        ({"PULUMI_BACKEND_URL": "file:///states"}, True),
        ({"PULUMI_ACCESS_TOKEN": "t"}, False),
    ],
)
def test_the_environments_backend_wins(nobody: dict[str, str], said: dict[str, str], passphrase: bool) -> None:
    added = defaults(nobody | said)
    assert "PULUMI_BACKEND_URL" not in added
    assert ("PULUMI_CONFIG_PASSPHRASE_FILE" in added) is passphrase


@pytest.mark.parametrize(
    ("credentials", "backend"),
    [
        ({"current": "https://api.example.org", "accounts": {}}, "https://api.example.org"),
        ({"current": "file://~"}, "file://~"),
        ({"accounts": {}}, None),
        ({}, None),
        ("", None),
        ({"envelope": "v1", "ciphertext": "…"}, login.ELSEWHERE),
        ("not json", login.ELSEWHERE),
    ],
)
def test_a_login_wins(nobody: dict[str, str], tmp_path: Path, credentials: object, backend: str | None) -> None:
    log_in(tmp_path, credentials)
    assert login.chosen_backend(nobody) == backend
    assert ("PULUMI_BACKEND_URL" in defaults(nobody)) is (backend is None)


@pytest.mark.parametrize("said", [{"PULUMI_CONFIG_PASSPHRASE": ""}, {"PULUMI_CONFIG_PASSPHRASE_FILE": "/f"}])
def test_the_environments_passphrase_wins(nobody: dict[str, str], said: dict[str, str]) -> None:
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in defaults(nobody | said)


def test_a_quiet_default_can_be_turned_off(nobody: dict[str, str]) -> None:
    assert "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" not in defaults(nobody | {"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "false"})


def test_the_environments_programs_come_first() -> None:
    added = environment.for_every_project({"PATH": "/usr/bin"}, "/c/.venv", "/c/tools/pulumi")
    assert added["PATH"] == "/c/.venv/bin:/usr/bin"
    assert added["PULUMI_PYTHON_CMD"] == "/c/.venv/bin/python"
    assert (
        environment.for_every_project({"PATH": "/c/.venv/bin:/usr/bin"}, "/c/.venv", "/c/tools/pulumi")["PATH"] == "/c/.venv/bin:/usr/bin"
    )
    assert environment.for_every_project({"PULUMI_PYTHON_CMD": "/p"}, "/c/.venv", "/c/tools/pulumi")["PULUMI_PYTHON_CMD"] == "/p"
