"""The language host and its runner: what a program gets, what the user sees when it fails, and that both end at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from .conftest import Project, seconds_to_end, wait_until

pytestmark = pytest.mark.engine

_SLEEP = 300
"""Seconds a program would go on."""
THING = """\
import pulumi

class Thing(pulumi.CustomResource):
    def __init__(self, name, **inputs):
        super().__init__("rackwright:test:Thing", name, {"fails": False, "waits": "", **inputs})

"""


def test_a_program_gets_config_secrets_stack_and_arguments(project: Project) -> None:
    project.program(
        "import os, sys, pulumi\n"
        "config = pulumi.Config()\n"
        "pulumi.export('told', [pulumi.get_stack(), pulumi.get_project(), pulumi.runtime.is_dry_run(), os.path.basename(os.getcwd())])\n"
        "pulumi.export('secret', config.require_secret('token'))\n"
        "pulumi.export('prefix', sys.prefix)\n"
    )
    project.pulumi("config", "set", "-s", "lab", "--secret", "token", "hush")
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview")
    assert "hush" not in told
    assert project.pulumi("stack", "output", "-s", "lab", "--show-secrets", "secret").strip() == "hush"
    assert '["lab","rackwright",false,"infra"]' in project.pulumi("stack", "output", "-s", "lab", "--json", "told").replace(
        " ", ""
    ).replace("\n", "")


def test_a_run_error_is_one_message_without_traceback(project: Project) -> None:
    project.program("import pulumi\nraise pulumi.RunError('groups.worker.count: 0 is too few')\n")
    told = project.pulumi("up", "-s", "lab", "--yes", "--skip-preview", code=1)
    diagnostics = told.partition("Diagnostics:")[2]
    assert diagnostics.count("groups.worker.count: 0 is too few") == 1
    assert diagnostics.count("error:") == 1, diagnostics
    assert "Traceback" not in told


def test_an_exception_is_told_from_the_program_on(project: Project) -> None:
    project.program("def inner():\n    return {}['missing']\n\ninner()\n")
    told = project.pulumi("preview", "-s", "lab", code=1)
    assert "KeyError: 'missing'" in told
    assert 'infra/__main__.py", line 2, in inner' in told
    assert "language_host" not in told
    assert "runpy" not in told


def test_a_program_may_leave_by_itself(project: Project) -> None:
    project.program("import sys\nsys.exit('no cluster today')\n")
    told = project.pulumi("preview", "-s", "lab", code=1)
    assert told.partition("Diagnostics:")[2].count("no cluster today") == 1
    assert "Traceback" not in told


def test_preview_and_update_of_one_command_are_two_fresh_runs(project: Project) -> None:
    project.program(
        "import builtins, pulumi\n"
        "assert not hasattr(builtins, 'seen')\n"
        "builtins.seen = True\n"
        "pulumi.export('dry', pulumi.runtime.is_dry_run())\n"
    )
    assert "dry: false" in project.pulumi("up", "-s", "lab", "--yes")


def test_a_failed_resource_ends_the_command_at_once_without_traceback(project: Project) -> None:
    calm = seconds_to_end(project)
    waits = []
    while len(waits) < 3 and (not waits or min(waits) >= calm + 4):  # Other work on the machine only ever adds time.
        waits.append(_seconds_after_failure(project))
    assert min(waits) < calm + 4, "the engine waited for its plugins (it gives them 5 s)"


def _seconds_after_failure(project: Project) -> float:
    """Return how long a command goes on after its resource has failed."""
    project.program(THING + "Thing('bad', fails=True)\nimport asyncio\nasync def wait():\n    await asyncio.sleep(60)\npulumi.run(wait)\n")
    process = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    lines, failed = [], 0.0
    for line in process.stdout or ():
        lines.append(line)
        if "would not be made" in line and not failed:
            failed = time.monotonic()
    told = "".join(lines)
    assert process.wait() != 0
    assert failed, told
    seconds = time.monotonic() - failed
    assert "Traceback" not in told
    assert not project.processes()
    return seconds


def test_ctrl_c_ends_a_program_at_once_without_traceback(project: Project) -> None:
    calm = seconds_to_end(project)
    marker = project.root.parent / "running"
    project.program(f"import time, pathlib\npathlib.Path({str(marker)!r}).touch()\ntime.sleep({_SLEEP})\n")
    process = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    project.reach("running")
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    told, _ = process.communicate()
    assert time.monotonic() - begun < calm + _SLEEP / 2, told
    assert process.returncode != 0
    assert "Traceback" not in told
    assert "KeyboardInterrupt" not in told
    assert not project.processes()


@pytest.mark.parametrize("victim", ["the command", "its process group"])
def test_host_and_runner_die_with_a_killed_engine(project: Project, victim: str) -> None:
    marker = project.root.parent / "running"
    project.program(f"import time, pathlib\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)\n")
    process = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    project.reach("running")
    assert any("language_host" in line for line in project.processes().values())
    (os.kill if victim == "the command" else os.killpg)(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not project.processes(), f"still there: {project.processes()}")
