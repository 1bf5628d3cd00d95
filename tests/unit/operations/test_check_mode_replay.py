"""What nodes answered is kept, asked again, and never takes another answer for the same."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hang import HANG_SECONDS, try_with_longer_limits

from rackwright import layout
from rackwright.inventory import paths
from rackwright.operations.check_mode import recording
from rackwright.operations.check_mode import replay as answers
from rackwright.remote.command import encode_request, python_arguments
from rackwright.remote.programs import module_replay

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
LIMIT = 1.0
"""Seconds of a replay with a limit."""
ROOT = {"worker0": False, "worker1": True}


def line(node: str = "worker0", **more: Any) -> dict[str, Any]:
    """A note of one call."""
    told = {"node": node, "task": f"Look at {node}", "module": "ansible.modules.command", "user": "root"}
    return {**told, "arguments": {"_raw_params": "true"}, "environment": {}, "answer": "a", **more}


def kept(*lines: dict[str, Any]) -> recording.Record | None:
    return recording.from_recorder_lines(map(json.dumps, lines), "inputs", NOW, ROOT)


def both() -> recording.Record:
    found = kept(line(), line("worker1"), line(answer="b", task="Look again"))
    assert found is not None
    return found


class TestTheRecord:
    def test_it_is_read_as_it_was_written_and_is_its_owners_alone(self, tmp_path):
        recording.write(both(), tmp_path / "check-mode-cache.json")
        assert recording.read(tmp_path / "check-mode-cache.json") == both()
        assert (tmp_path / "check-mode-cache.json").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("text", ["", "{", '{"schema": "rackwright.check-mode-cache/0"}'])
    def test_what_another_version_or_nobody_wrote_is_no_record(self, tmp_path, text):
        (tmp_path / "check-mode-cache.json").write_text(text)
        assert recording.read(tmp_path / "check-mode-cache.json") is None and recording.read(tmp_path / "none") is None

    @pytest.mark.parametrize(
        "odd",
        [
            {"other": "exec_command"},
            line(module=""),
            line("elsewhere"),
            line(user="slurm"),
            line("worker1", user=""),
        ],
        ids=["asked past the modules", "no module of ours", "not a node", "as somebody else", "not as root where that is another"],
    )
    def test_notes_that_are_not_all_that_decided_are_none(self, odd):
        assert kept(line(), line("worker1"), odd) is None

    def test_who_logs_in_as_root_need_not_become_it(self):
        assert kept(line(user=""), line("worker1")) is not None

    def test_a_node_that_was_asked_nothing_is_not_known(self):
        assert kept(line()) is None

    @pytest.mark.parametrize(
        ("inputs", "later", "usable"),
        [
            ("inputs", timedelta(days=1), True),
            ("others", timedelta(days=1), False),
            ("inputs", recording.MAX_AGE + timedelta(seconds=1), False),
            ("inputs", timedelta(seconds=-1), False),
        ],
        ids=["tomorrow", "other inputs", "too old", "a clock that was set back"],
    )
    def test_it_counts_for_the_same_inputs_and_a_week(self, inputs, later, usable):
        assert both().is_valid_for(inputs, NOW + later) is usable

    @pytest.mark.parametrize(
        ("answers", "others"),
        [
            ({"worker0": ["a", "b"], "worker1": ["a"]}, ()),
            ({"worker0": ["a", "c"], "worker1": ["a"]}, (("worker0", "Look again"),)),
            ({"worker0": ["a", ""], "worker1": ["a"]}, (("worker0", "Look again"),)),
            ({"worker0": ["a"], "worker1": ["a"]}, (("worker0", "Look again"),)),
            ({"worker0": ["a", "b"]}, (("worker1", "Look at worker1"),)),
        ],
        ids=["alike", "another", "none that can be read", "too few", "a silent node"],
    )
    def test_the_first_answer_that_is_another_is_named(self, answers, others):
        assert both().mismatches(answers) == others


def test_nodes_that_were_not_waited_for_differ_only_by_what_they_answered():
    assert both().mismatches({"worker0": ["a"]}, late={"worker0", "worker1"}) == ()
    assert both().mismatches({"worker0": ["b"]}, late={"worker0", "worker1"}) == (("worker0", "Look at worker0"),)
    assert both().only(["worker1"]).calls.keys() == {"worker1"}


DECIDING = (
    "ansible.cfg",
    "playbooks/site.yml",
    f"{layout.ROLES}/base/main.yml",
    f"{layout.MODULES}/files.py",
    f"{layout.COLLECTION_META}/runtime.yml",
    "infra/rackwright/checks/cluster/test_gpu.py",
    "infra/rackwright/errors.py",
    "infra/rackwright/os_release.py",
    "infra/rackwright/remote/programs/commands.py",
    "inventory.yml",
)


class TestOnTheNode:
    def ask(self, *calls: dict[str, Any], root: Path | None = None) -> list[str]:
        """The answer of each call, whatever the others are."""
        return [answer for call in calls for answer in self.replay(call, root=root)["answers"]]

    def replay(self, *calls: dict[str, Any], root: Path | None = None, seconds: float | None = None) -> dict[str, Any]:
        """The whole way: packed, sent by stdin, run by a bare Python."""
        modules = {call["module"] for call in calls}
        request = encode_request(answers.requests(root or paths.project_root(), {"here": calls}, modules, seconds)["here"])
        program = python_arguments("module_replay", None)[1:]
        ended = subprocess.run([sys.executable, *program], input=request, capture_output=True, check=True)
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def test_first_other_answer_ends_the_replay(self, tmp_path):
        """The phases run then, and a later module may wait for the daemon that caused the difference."""
        touch = line(arguments={"_raw_params": f"touch {tmp_path}/ran"})
        assert self.replay(line(answer="another"), touch)["late"] is False and not (tmp_path / "ran").exists()
        (same,) = self.ask(line())
        assert self.replay(line(answer=same), touch)["answers"][0] == same and (tmp_path / "ran").exists()

    def test_module_that_waits_ends_the_replay_at_its_limit(self, tmp_path):
        os.mkfifo(tmp_path / "never")
        (same,) = self.ask(line())
        wait = line(arguments={"_raw_params": f"cat {tmp_path}/never"})

        def within(factor: int) -> None:
            started = time.monotonic()
            assert self.replay(line(answer=same), wait, seconds=factor * LIMIT) == {"answers": [same], "late": True}
            assert factor * LIMIT <= time.monotonic() - started < HANG_SECONDS

        try_with_longer_limits(within)

    def test_a_module_answers_what_it_answers_under_ansible(self, tmp_path):
        (tmp_path / "file").write_text("x")
        look = line(module="ansible.modules.slurp", arguments={"src": str(tmp_path / "file")})
        first, again = self.ask(look, look)
        assert first == again == module_replay.digest({"content": "eA==", "source": str(tmp_path / "file"), "encoding": "base64"})
        (tmp_path / "file").write_text("y")
        assert self.ask(look) != [first]

    def test_commands_that_ran_at_another_time_answered_the_same(self):
        run = line(arguments={"_raw_params": "echo $WORD", "_uses_shell": True}, environment={"WORD": "here"})
        assert len(set(self.ask(run, run))) == 1
        assert self.ask(run) != self.ask({**run, "environment": {"WORD": "there"}})

    def test_the_projects_own_modules_go_along(self, tmp_path):
        call = line(
            module="ansible_collections.rackwright.cluster.plugins.modules.files",
            arguments={"files": [{"path": str(tmp_path / "x"), "content": "x"}], "_ansible_check_mode": True},
        )
        assert self.ask(call)[0] and not (tmp_path / "x").exists()

    def test_a_module_finds_the_packages_of_its_python(self, tmp_path):
        """As under Ansible: python3-apt and dnf lie in site-packages, which a bare Python leaves out."""
        library = tmp_path / layout.MODULES
        library.mkdir(parents=True)
        (library / "packages.py").write_text('import json, yaml\nprint(json.dumps({"package": yaml.__name__}))\n')
        found = self.ask(line(module="ansible_collections.rackwright.cluster.plugins.modules.packages"), root=tmp_path)
        assert found == [module_replay.digest({"package": "yaml"})]

    def test_a_module_that_breaks_has_no_answer(self):
        assert self.ask(line(module="ansible.modules.slurp", arguments={"_ansible_check_mode": "what"}), line())[1]
        assert module_replay.read("") == module_replay.read("Traceback\n  here") == module_replay.read("{half") == ""


class TestInputs:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        for name in DECIDING:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        return tmp_path

    def test_what_roles_look_up_elsewhere_in_the_project_counts(self):
        root = paths.project_root()
        texts = [file.read_text() for file in root.glob("roles/*/tasks/*.yml")]
        found = {f"infra/rackwright/{name}" for text in texts for name in re.findall(r"_package ~ '/([^']+)'", text)}
        found |= {name for text in texts for name in re.findall(r"_role ~ '/\.\./\.\./([^']+)'", text) if not name.startswith("../")}
        counted = {str(file.relative_to(root)) for file in answers._texts(root)}
        assert "infra/rackwright/checks/cluster/test_gpu.py" in found <= counted

    @pytest.mark.parametrize("name", DECIDING)
    def test_every_file_that_decides_counts(self, project, name):
        before = answers.inputs(project, [project / "inventory.yml"], ["word"])
        assert before == answers.inputs(project, [project / "inventory.yml"], ["word"])
        (project / name).write_text("y")
        assert answers.inputs(project, [project / "inventory.yml"], ["word"]) != before

    def test_words_count(self, project):
        assert answers.inputs(project, [], ["install"]) != answers.inputs(project, [], [])


class TestNotes:
    @pytest.fixture
    def plugin(self) -> Any:
        file = paths.project_root() / layout.CALLBACK_PLUGINS / "module_recorder.py"
        spec = importlib.util.spec_from_file_location("module_recorder", file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def call(self, **more: Any) -> Any:
        play = SimpleNamespace(become=True, become_user=None)
        connection = SimpleNamespace(delegate_to_hostname=None, transport="mitogen_ssh", _play_context=play)
        action = SimpleNamespace(_task=SimpleNamespace(get_name=lambda include_role_fqcn: "base : Look"))
        told = {"connection": connection, "action": action, "task_vars": {"inventory_hostname": "worker0"}, "wrap_async": False, "env": {}}
        return SimpleNamespace(
            **{**told, "module_path": "/x/ansible/modules/stat.py", "module_args": {"_ansible_tmpdir": "/t", "path": "/"}, **more}
        )

    def test_each_module_of_the_project_is_noted_by_its_name(self, plugin):
        modules = sorted((paths.project_root() / layout.MODULES).glob("*.py"))
        assert modules
        assert [plugin.module_name(str(module)) for module in modules] == [
            f"ansible_collections.rackwright.cluster.plugins.modules.{module.stem}" for module in modules
        ]

    def test_a_call_is_noted_with_what_is_asked_again(self, plugin):
        noted = plugin.called(self.call(), {"stat": {}})
        assert (noted["node"], noted["module"], noted["user"], noted["arguments"]) == (
            "worker0",
            "ansible.modules.stat",
            "root",
            {"path": "/"},
        )
        assert noted["answer"] == module_replay.digest({"stat": {}, "delta": "0:00:01", "_ansible_parsed": True})

    @pytest.mark.parametrize("odd", [{"wrap_async": True}, {"module_path": "/x/ansible_collections/a/b/plugins/modules/stat.py"}])
    def test_what_cannot_be_asked_again_has_no_module(self, plugin, odd):
        assert plugin.called(self.call(**odd), {})["module"] == ""

    def test_many_write_at_the_same_time(self, plugin, tmp_path):
        for number in range(3):
            plugin.note(str(tmp_path / "notes"), {"number": number})
        assert [json.loads(one)["number"] for one in (tmp_path / "notes").read_text().splitlines()] == [0, 1, 2]
