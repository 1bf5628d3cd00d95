"""Modules that ran on a node run there again, in a bare Python, and answer as under Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.hang import HANG_SECONDS, try_with_longer_limits

from rackwright import layout
from rackwright.inventory import paths
from rackwright.operations.check_mode import replay as answers
from rackwright.remote.command import encode_request, python_arguments
from rackwright.remote.programs import module_replay

LIMIT = 1.0
"""Seconds of a replay with a limit."""


def call(**more: Any) -> dict[str, Any]:
    """A note of one call."""
    told = {"node": "worker0", "task": "Look at worker0", "module": "ansible.modules.command", "user": "root"}
    return {**told, "arguments": {"_raw_params": "true"}, "environment": {}, "answer": "a", **more}


def ask(*calls: dict[str, Any], root: Path | None = None) -> list[str]:
    """The answer of each call, whatever the others are."""
    return [answer for one in calls for answer in replay(one, root=root)["answers"]]


def replay(*calls: dict[str, Any], root: Path | None = None, seconds: float | None = None) -> dict[str, Any]:
    """The whole way: packed, sent by stdin, run by a bare Python."""
    modules = {one["module"] for one in calls}
    request = encode_request(answers.requests(root or paths.project_root(), {"here": calls}, modules, seconds)["here"])
    program = python_arguments("module_replay", None)[1:]
    ended = subprocess.run([sys.executable, *program], input=request, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_first_other_answer_ends_the_replay(tmp_path):
    """The phases run then, and a later module may wait for the daemon that caused the difference."""
    touch = call(arguments={"_raw_params": f"touch {tmp_path}/ran"})
    assert replay(call(answer="another"), touch)["late"] is False and not (tmp_path / "ran").exists()
    (same,) = ask(call())
    assert replay(call(answer=same), touch)["answers"][0] == same and (tmp_path / "ran").exists()


def test_module_that_waits_ends_the_replay_at_its_limit(tmp_path):
    os.mkfifo(tmp_path / "never")
    (same,) = ask(call())
    wait = call(arguments={"_raw_params": f"cat {tmp_path}/never"})

    def within(factor: int) -> None:
        started = time.monotonic()
        assert replay(call(answer=same), wait, seconds=factor * LIMIT) == {"answers": [same], "late": True}
        assert factor * LIMIT <= time.monotonic() - started < HANG_SECONDS

    try_with_longer_limits(within)


def test_a_module_answers_what_it_answers_under_ansible(tmp_path):
    (tmp_path / "file").write_text("x")
    look = call(module="ansible.modules.slurp", arguments={"src": str(tmp_path / "file")})
    first, again = ask(look, look)
    assert first == again == module_replay.digest({"content": "eA==", "source": str(tmp_path / "file"), "encoding": "base64"})
    (tmp_path / "file").write_text("y")
    assert ask(look) != [first]


def test_commands_that_ran_at_another_time_answered_the_same():
    run = call(arguments={"_raw_params": "echo $WORD", "_uses_shell": True}, environment={"WORD": "here"})
    assert len(set(ask(run, run))) == 1
    assert ask(run) != ask({**run, "environment": {"WORD": "there"}})


def test_the_projects_own_modules_go_along(tmp_path):
    write = call(
        module="ansible_collections.rackwright.cluster.plugins.modules.files",
        arguments={"files": [{"path": str(tmp_path / "x"), "content": "x"}], "_ansible_check_mode": True},
    )
    assert ask(write)[0] and not (tmp_path / "x").exists()


def test_a_module_finds_the_packages_of_its_python(tmp_path):
    """As under Ansible: python3-apt and dnf lie in site-packages, which a bare Python leaves out."""
    library = tmp_path / layout.MODULES
    library.mkdir(parents=True)
    (library / "packages.py").write_text('import json, yaml\nprint(json.dumps({"package": yaml.__name__}))\n')
    found = ask(call(module="ansible_collections.rackwright.cluster.plugins.modules.packages"), root=tmp_path)
    assert found == [module_replay.digest({"package": "yaml"})]


def test_a_module_that_breaks_has_no_answer():
    assert ask(call(module="ansible.modules.slurp", arguments={"_ansible_check_mode": "what"}), call())[1]
    assert module_replay.read("") == module_replay.read("Traceback\n  here") == module_replay.read("{half") == ""
