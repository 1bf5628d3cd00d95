"""`rackwright validate` without a stack, and the project folder that `rackwright new` creates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rackwright import layout
from rackwright.cli import validate as command
from rackwright.drivers import process
from rackwright.model.finding import Finding
from rackwright.operations import new_project, project_validation
from rackwright.operations.project_validation import ValidationStep, validate_project
from rackwright.yaml_loader import load_yaml

PLAYBOOK = """---
- name: Archive
  hosts: all
  gather_facts: false
  tasks:
    - name: Say it
      ansible.builtin.debug: {msg: archived}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new project folder, which is the working directory; no linter is installed."""
    new_project.create(tmp_path, "mine")
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.delenv(layout.PROJECT_ENV, raising=False)
    monkeypatch.setattr(project_validation, "which", lambda name: None)
    return tmp_path / "mine"


def steps(project: Path, *names: str) -> dict[str, ValidationStep]:
    """Return the steps with these names, run alone."""
    every: dict[str, Callable[[Path], ValidationStep]] = {
        "format": project_validation._format,
        "stacks": project_validation._stacks,
        "playbooks": project_validation._playbooks,
        "tests": project_validation._tests,
    }
    return {name: every[name](project) for name in names}


def places(step: ValidationStep) -> list[tuple[str, str]]:
    return [(finding.path, finding.cause) for finding in step.findings]


def test_new_project_passes_every_step(project: Path) -> None:
    told: list[str] = []
    done = validate_project(project, lambda step: told.append(step.name))
    assert told == ["format", "stacks", "playbooks", "tests"]
    assert [(step.ok, step.skipped) for step in done] == [(True, False), (True, False), (True, True), (True, False)], done
    assert done[1].summary == "lab (valid)" and "1 passed" in done[3].summary


def test_broken_stack_file_fails_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project / "stacks" / "Pulumi.lab.yaml"
    file.write_text(file.read_text().replace("kind: lab,", "kind: labb,"))
    monkeypatch.setattr(project_validation, "_tests", lambda root: ValidationStep("tests", "", skipped=True))
    app = _app()
    ended = CliRunner().invoke(app, [])
    assert ended.exit_code == 2
    assert "stacks     FAILED   lab (invalid)\n  stacks/Pulumi.lab.yaml: target.kind (line " in ended.stdout
    assert ended.stdout.endswith("project mine: 1 error; correct the files above, then run `rackwright validate` again\n")
    document = json.loads(CliRunner().invoke(app, ["--json"]).stdout)
    assert document["ok"] is False and document["findings"][0]["path"] == "stacks/Pulumi.lab.yaml: target.kind"


def _app() -> Any:
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(command.validate)
    return app


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        (b"a: 1", "stacks/x.yaml", "the last line has no line end"),
        (b"a: 1 \n", "stacks/x.yaml:1", "blanks at the end of the line"),
        (b"a:\n\tb: 1\n", "stacks/x.yaml:2", "a tab indents the line"),
        (b"a: 1\r\n", "stacks/x.yaml:1", "the line ends with CR LF"),
        (b"a: \xff\n", "stacks/x.yaml", "is not UTF-8 text"),
    ],
)
def test_format_reports_file_and_line(project: Path, text: bytes, place: str, cause: str) -> None:
    (project / "stacks" / "x.yaml").write_bytes(text)
    assert places(steps(project, "format")["format"]) == [(place, cause)]


def test_playbook_with_wrong_syntax_is_named(project: Path) -> None:
    (project / "site").mkdir()
    (project / "site" / "good.yml").write_text(PLAYBOOK)
    assert steps(project, "playbooks")["playbooks"].ok
    (project / "site" / "bad.yml").write_text(PLAYBOOK.replace("ansible.builtin.debug", "ansible.builtin.debugg"))
    found = steps(project, "playbooks")["playbooks"]
    assert [path for path, _ in places(found)] == ["site/bad.yml"] and "debugg" in found.findings[0].cause


def test_linter_is_used_where_installed(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    linter = tmp_path / "ansible-lint"
    linter.write_text("#!/bin/sh\necho 'site/good.yml:3: name[casing]: All names should start with an uppercase letter.'\nexit 2\n")
    linter.chmod(0o755)
    monkeypatch.setattr(project_validation, "which", lambda name: str(linter))
    (project / "site").mkdir()
    (project / "site" / "good.yml").write_text(PLAYBOOK)
    found = steps(project, "playbooks")["playbooks"]
    assert places(found) == [("site/good.yml:3", "name[casing]: All names should start with an uppercase letter.")]
    assert found.summary == "1 playbook (ansible-lint)"


def test_failed_test_is_named_and_gpu_tests_are_left_out(project: Path) -> None:
    (project / "tests" / "test_stacks.py").write_text(
        "import os\nimport pytest\n\ndef test_hidden():\n    assert os.environ['CUDA_VISIBLE_DEVICES'] == '-1'\n\n"
        "@pytest.mark.gpu\ndef test_gpu():\n    assert False\n\ndef test_count():\n    assert 1 == 2\n"
    )
    found = steps(project, "tests")["tests"]
    assert places(found) == [("tests/test_stacks.py::test_count", "assert 1 == 2")]
    assert "1 failed, 1 passed, 1 deselected" in found.summary


def test_broken_test_file_fails(project: Path) -> None:
    (project / "tests" / "test_stacks.py").write_text("import nothing_of_this_name\n")
    assert not steps(project, "tests")["tests"].ok


def test_run_that_hangs_is_failure(project: Path) -> None:
    ended = project_validation._run(["sleep", "60"], project, 0.2)
    assert ended == process.CompletedProcess(("sleep", "60"), 124, "", "no end after 0 s")


def test_online_needs_stack(project: Path) -> None:
    assert CliRunner().invoke(_app(), ["--online"]).exit_code == 2


def test_workflows_of_project_validate_first(project: Path) -> None:
    """Before anything else: only the files are fetched before."""
    for name in ("validate.yml", "drift-lab.yml"):
        workflow = load_yaml((project / ".github" / "workflows" / name).read_text())
        (job,) = workflow["jobs"].values()
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        assert job["steps"][1]["run"] == "rackwright validate"
        assert "pull_request" not in (project / ".github" / "workflows" / name).read_text()


def test_make_validate_runs_one_documented_command(project: Path) -> None:
    recipe = [line for line in (project / "Makefile").read_text().splitlines() if line.startswith("\t")]
    assert recipe == ["\t@rackwright validate"]
    assert "`make validate` runs `rackwright validate`" in (project / "README.md").read_text()


def test_tests_of_checkout_are_not_run() -> None:
    found = project_validation._tests(layout.product_root())
    assert found.skipped and "make unit" in found.summary


def test_finding_is_hidden_if_it_holds_private_key(project: Path) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----"
    assert "not shown" in str(Finding(project_validation.Severity.ERROR, "tests", "t", key))
