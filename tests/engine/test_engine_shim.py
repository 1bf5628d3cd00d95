"""The shim in front of the real engine: first use, clean stack files, and what a killed run leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Project, wait_until
from .test_engine_language_host import THING

pytestmark = pytest.mark.engine


def bare_engine() -> str:
    """The engine itself, as the bootstrap recorded it."""
    return (Path(sys.prefix) / "rackwright-engine").read_text().splitlines()[0]


def shim_environment(project: Project) -> dict[str, str]:
    """What the shim would add for a bare engine to see the same stacks."""
    return {
        **project.environ,
        "PULUMI_BACKEND_URL": f"file://{project.home}/.engine/state",
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{project.home}/.engine/passphrase",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "RACKWRIGHT_PYTHON": sys.executable,
        "RACKWRIGHT_LANGUAGE_HOST": str(Path(__file__).resolve().parents[2] / "tools" / "pulumi" / "language_host" / "start.py"),
    }


def bare(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command without the shim."""
    command = [bare_engine(), *arguments, "--color", "never", "--non-interactive"]
    return subprocess.run(
        command, cwd=project.root, env=shim_environment(project), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def test_first_use_makes_home_stack_and_link(fresh: Project) -> None:
    told = fresh.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    assert f"its state is kept in {fresh.home}" in told
    assert 'kind: "lab"' in told
    assert fresh.home.stat().st_mode & 0o777 == 0o700
    assert (fresh.home / ".engine" / "passphrase").stat().st_mode & 0o777 == 0o600
    assert (fresh.root / ".rackwright").readlink() == fresh.home
    assert "its state is kept" not in fresh.pulumi("stack", "-s", "lab")


def test_no_command_leaves_a_trace_in_the_checkout(fresh: Project) -> None:
    ways = [
        ["preview", "-s", "lab"],
        ["up", "-s", "lab", "--yes", "--skip-preview"],
        ["refresh", "-s", "lab", "--yes", "--skip-preview"],
        ["stack", "select", "lab"],
        ["up", "--yes", "--skip-preview"],
        ["stack", "history", "--show-secrets"],
        ["stack", "export", "--show-secrets"],
        ["config", "-s", "lab"],
        ["destroy", "-s", "lab", "--yes", "--skip-preview"],
        ["up", "-s", "lab", "--yes", "--skip-preview"],
        ["destroy", "-s", "lab", "--yes", "--skip-preview"],
        ["stack", "rm", "lab", "--yes"],
    ]
    fresh.stack_file.write_text(fresh.stack_file.read_text().replace("{count: 1}", "{count: 1}   # the engine would write one blank"))
    fresh.commit()
    for arguments in ways:
        told = fresh.pulumi(*arguments)
        assert "warning" not in told.lower(), f"{arguments}: {told}"
        assert fresh.changes() == "", arguments


def test_config_set_changes_the_committed_file_and_adds_no_salt(project: Project) -> None:
    before = project.stack_file.read_text()
    project.pulumi("config", "set", "-s", "lab", "size", "3")
    assert project.stack_file.read_text() == before + '  rackwright:size: "3"\n'
    project.pulumi("config", "set", "-s", "lab", "--secret", "token", "hush")
    text = project.stack_file.read_text()
    assert "secure: v1:" in text
    assert "hush" not in text
    assert "encryptionsalt" not in text
    assert project.pulumi("config", "get", "-s", "lab", "token").strip() == "hush"
    project.pulumi("config", "rm", "-s", "lab", "token")
    project.pulumi("up", "-s", "lab", "--yes", "--skip-preview", "-c", "size=4")
    assert project.stack_file.read_text() == before + '  rackwright:size: "4"\n'


def test_stack_init_leaves_no_salt(fresh: Project) -> None:
    fresh.pulumi("stack", "init", "other")
    assert fresh.changes() == ""
    fresh.pulumi("stack", "init", "lab")
    assert fresh.changes() == ""


def test_a_salt_left_by_a_bare_engine_is_taken_out_by_the_next_command(project: Project) -> None:
    told = bare(project, "up", "-s", "lab", "--yes", "--skip-preview")
    assert told.returncode == 0, told.stdout + told.stderr
    state = json.loads((project.home / ".engine/state/.pulumi/stacks/rackwright/lab.json").read_text())
    salt = state["checkpoint"]["latest"]["secrets_providers"]["state"]["salt"]
    project.stack_file.write_text(project.stack_file.read_text().partition("encryptionsalt")[0] + f"encryptionsalt: {salt}\n")
    assert project.changes() != ""
    project.pulumi("preview", "-s", "lab")
    assert project.changes() == ""


def test_another_backend_is_left_alone(fresh: Project) -> None:
    elsewhere = fresh.root.parent / "elsewhere"
    elsewhere.mkdir()
    fresh.pulumi("up", "-s", "lab", "--yes", "--skip-preview", PULUMI_BACKEND_URL=f"file://{elsewhere}")
    assert (elsewhere / ".pulumi/stacks/rackwright/lab.json").exists()
    assert not (fresh.home / ".engine/state/.pulumi").exists()
    assert fresh.changes() == ""


def run_until_killed(project: Project, signal_number: int = signal.SIGKILL) -> None:
    """Starts an `up` whose resource never gets made, and kills it meanwhile."""
    waits = project.root.parent / "waits"
    project.program(THING + f"Thing('slow', waits={str(waits)!r})\n")
    project.commit()
    process = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    project.reach("waits")
    os.killpg(process.pid, signal_number)
    process.communicate()
    waits.unlink()
    project.program(THING + "Thing('slow')\n")
    project.commit()


def test_the_lock_of_a_killed_command_is_removed_and_said(project: Project) -> None:
    run_until_killed(project)
    assert "the stack is currently locked by 1 lock" in bare(project, "up", "-s", "lab", "--yes").stderr
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    assert "was locked by process" in told
    assert "1 created" in told


def test_a_killed_create_leaves_no_warning(project: Project) -> None:
    run_until_killed(project)
    first = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    assert "a killed run left slow unfinished" in first
    second = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    for told in (first, second):
        assert "pending operations" not in told
    assert "rackwright: " not in second
    project.pulumi("destroy", "-s", "lab", "--yes", "--skip-preview")
    assert project.changes() == ""


def test_a_living_lock_holds(project: Project) -> None:
    waits = project.root.parent / "waits"
    project.program(THING + f"Thing('slow', waits={str(waits)!r})\n")
    first = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    project.reach("waits")
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview", code=None)
    assert "the stack is currently locked by 1 lock" in told
    assert "rackwright: " not in told
    waits.unlink()
    assert "2 created" in first.communicate()[0]
    assert first.returncode == 0


@pytest.mark.parametrize("victim", ["the shim", "its process group"])
def test_a_killed_config_command_leaves_no_salt(project: Project, victim: str) -> None:
    """The shim stays while `config` runs; killed at whatever moment, the committed file is the old one or the new one."""
    before = project.stack_file.read_text()
    for milliseconds in range(200, 1400, 400):
        process = project.start("config", "set", "-s", "lab", "size", "3")
        try:
            process.wait(milliseconds / 1000)
        except subprocess.TimeoutExpired:
            (os.kill if victim == "the shim" else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate()
        wait_until(lambda: not project.processes(), "still running")
        assert project.stack_file.read_text() in (before, before + '  rackwright:size: "3"\n')


def test_the_shim_leaves_as_its_child_left(project: Project) -> None:
    assert "not found" in project.pulumi("config", "get", "-s", "lab", "nothing", code=1)


def test_a_foreign_language_host_on_path_is_neither_used_nor_warned_of(project: Project) -> None:
    folder = project.root.parent / "foreign"
    folder.mkdir()
    (folder / "pulumi-language-python").write_text("#!/bin/sh\nexit 3\n")
    (folder / "pulumi-language-python").chmod(0o755)
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview", PATH=f"{folder}:{project.environ['PATH']}")
    assert "warning" not in told.lower()
