"""`rackwright impact` and what a preview says: the record of what was applied last, against what is described now."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from jsonschema import Draft202012Validator

from rackwright.cli import main
from rackwright.errors import UndeterminedError
from rackwright.impact import Action, planned_change
from rackwright.inventory import applied, paths
from rackwright.operations import stack_files
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_stack
from rackwright.targets import program

Run = Callable[..., tuple[object, str, str]]
Edit = Callable[..., str]
SCHEMA = Draft202012Validator(json.loads(Path(planned_change.__file__).with_name("impact.schema.json").read_text()))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: exit code, output, errors."""

    def once(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["rackwright", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *capsys.readouterr())

    return once


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stack file of a lab that is up: its home has on record what was applied."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(paths.stack_file("lab").read_text())
    record(file)
    return file


def record(file: Path, *, settled: bool = True) -> None:
    """Put on record what a stack file says, as Converge does."""
    cluster = load_stack(file).cluster
    assert cluster is not None
    inputs = {"cluster_spec": applied.serialize_cluster(cluster), "plan": json.dumps(expand(cluster, "lab").to_data())}
    stack_files.record("lab", inputs, converged=settled)


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """Edit the file as a person would; its path."""
    data, _ = yaml_reader.read(file)
    change(data["config"]["rackwright:cluster"])
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(file)


def grown(said: dict[str, Any]) -> None:
    said["groups"]["worker"]["count"] = 3


def moved(said: dict[str, Any]) -> None:
    said["access"]["port"] = 2300


def renumbered(said: dict[str, Any]) -> None:
    said["groups"]["worker"]["reserved_addresses"] = 65


def test_what_is_described_as_it_was_applied_is_nothing_to_do(up: Path, run: Run) -> None:
    assert run("impact", str(up)) == (0, "no changes: stack lab was last applied with this description\n", "")


def test_a_worker_more_ends_nobody_s_work(up: Path, run: Run) -> None:
    code, said, _ = run("impact", edit(up, grown))
    assert code == 0
    assert "adds worker2, joins it to Slurm and verifies it (groups.worker.count)\n" in said


def test_an_edit_that_ends_sessions_shows_in_the_exit_code(up: Path, run: Run) -> None:
    code, said, _ = run("impact", edit(up, moved))
    assert code == 1
    assert said.startswith("replaces login0: sessions there end; Slurm unavailable meanwhile (access.port)\n")


def test_a_refused_edit_says_what_now(up: Path, run: Run) -> None:
    code, said, _ = run("impact", edit(up, renumbered))
    assert code == 2
    assert said == (
        "renumbers group storage: refused (groups.worker.reserved_addresses)\n"
        "  keep the groups and their `reserved_addresses`, and add new groups at the end: "
        "addresses follow groups and `reserved_addresses` in order\n"
    )


@pytest.mark.parametrize("change", [grown, moved, renumbered])
def test_the_same_for_programs(up: Path, run: Run, change: Any) -> None:
    code, said, _ = run("impact", edit(up, change), "--json")
    told = json.loads(said)
    assert not list(SCHEMA.iter_errors(told))
    assert (code, told["disruptive"], [finding["path"] for finding in told["findings"]]) == {
        grown: (0, False, []),
        moved: (1, True, []),
        renumbered: (2, False, ["groups.worker.reserved_addresses"]),
    }[change]


def test_the_contract_names_every_action() -> None:
    assert SCHEMA.schema["properties"]["consequences"]["items"]["properties"]["action"]["enum"] == [action.value for action in Action]


def test_a_stack_that_was_never_applied_is_made(up: Path, run: Run) -> None:
    paths.applied("lab").unlink()
    assert run("impact", str(up))[:2] == (0, "creates 4 nodes: login0, worker0, worker1, storage0\n")


def test_a_run_that_did_not_end_well_is_done_again(up: Path, run: Run) -> None:
    record(up, settled=False)
    assert run("impact", str(up))[:2] == (0, "applies all phases again: the last run did not succeed\n")


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"schema": "rackwright.applied/9"}', '{"schema": "rackwright.applied/2", "cluster": {"x": 1}}']
)
def test_a_record_that_cannot_be_read_is_no_record_of_nothing(up: Path, run: Run, text: str) -> None:
    paths.applied("lab").write_text(text)
    code, said, complaint = run("impact", str(up))
    assert (code, said) == (3, "")
    assert "not a valid record of the last `up`" in complaint
    with pytest.raises(UndeterminedError):
        applied.read(paths.applied("lab"))


@pytest.mark.parametrize("stack", sorted(file.name.split(".")[1] for file in paths.stacks().glob("Pulumi.*.yaml")))
def test_the_record_gives_back_what_was_applied(tmp_path: Path, stack: str) -> None:
    cluster = load_stack(paths.stack_file(stack)).cluster
    assert cluster is not None
    plan = expand(cluster, stack)
    said = applied.document(applied.serialize_cluster(cluster), json.dumps(plan.to_data(), sort_keys=True), converged=True)
    (tmp_path / "applied.json").write_text(json.dumps(said))
    found = applied.read(tmp_path / "applied.json")
    assert found is not None
    assert (found.cluster, found.plan, found.converged) == (cluster, plan, True)
    assert list(found.cluster.groups) == list(cluster.groups), "addresses follow their order"


def test_the_record_is_its_owner_s_and_goes_with_the_stack(up: Path) -> None:
    assert paths.applied("lab").stat().st_mode & 0o777 == 0o600
    stack_files.remove("lab")
    assert not paths.applied("lab").exists()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program says while it previews."""
    lines: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(pulumi.log, level, lines.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("rackwright.drivers.cgroups.is_cgroup_v2", lambda: True)  # whatever this machine has
    return lines


def load(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack as the program loads it."""
    monkeypatch.setattr(paths, "stack_file", lambda _: file)
    data, _ = yaml_reader.read(file)
    program.load(data["config"]["rackwright:cluster"], "lab")


def test_a_preview_tells_the_same(up: Path, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    edit(up, grown)
    load(up, monkeypatch)
    assert "adds worker2, joins it to Slurm and verifies it (groups.worker.count)" in "\n".join(logged)


def test_an_up_says_nothing_twice(up: Path, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    edit(up, grown)
    load(up, monkeypatch)
    assert logged == []


@pytest.mark.parametrize("dry", [True, False])
def test_neither_a_preview_nor_an_up_goes_on_where_it_is_refused(
    up: Path, logged: list[str], monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: dry)
    edit(up, renumbered)
    with pytest.raises(pulumi.RunError, match="renumbers group storage: refused"):
        load(up, monkeypatch)


def test_a_record_that_cannot_be_read_stops_no_run(up: Path, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    paths.applied("lab").write_text("{")
    load(up, monkeypatch)
    assert "not a valid record of the last `up`" in "\n".join(logged)
