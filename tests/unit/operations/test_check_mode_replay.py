"""What nodes answered is kept, asked again, and never takes another answer for the same."""

from __future__ import annotations

import importlib.util
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright import layout
from rackwright.inventory import paths
from rackwright.operations.check_mode import recording
from rackwright.operations.check_mode import replay as answers
from rackwright.remote.programs import module_replay
from rackwright.yaml_loader import load_yaml

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
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
        checks = load_yaml((root / "roles/slurm_worker/tasks/health.yml").read_text())[0]["vars"]["_modules"]
        found |= {f"infra/rackwright/{name}.py" for name in checks}
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
