"""`rackwright validate`, `plan`, `cost` and `schema`, as a person and as a program meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli
from support.rows import each_row

from rackwright.cli import main
from rackwright.cli.commands import COMMANDS
from rackwright.inventory import paths
from rackwright.model import Severity
from rackwright.rules import RULES
from rackwright.stackfile import schema

BAD = """\
config:
  rackwright:cluster:
    target: {kind: lab}
    verify_level: smok
    network: {cidr: 10.77.0.0/24}
    access: {port: 22}
    groups:
      login: {count: 1, roles: [login, controller, accounting], memory: 2GiB}
      worker: {count: 70, memry: 2GiB}
    users:
      alice: {uid: 2001}
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, *arguments)

    return once


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A stack file with a misspelt word, a misspelt key, too many nodes and a port that is not ours."""
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(BAD)
    return file


def test_a_good_stack_is_valid(run: Run) -> None:
    """By name."""
    assert run("validate", "lab") == CliResult(0, "stack lab: valid, 4 nodes\n", "")


@pytest.mark.parametrize("file", sorted(paths.stacks().glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_committed_stacks_are_valid_beside_each_other(run: Run, file: Path) -> None:
    """By path; not even a warning, but for what only the user can fill in and `up` asks for. So all can be up at once."""
    ended = run("validate", str(file), "--json")
    said = json.loads(ended.out)
    assert (ended.code, said["ok"]) == (0, True)
    assert all(RULES[finding["rule"]].level_on_deploy is Severity.ERROR for finding in said["findings"]), said


def test_everything_that_is_wrong_comes_at_once(run: Run, bad: Path) -> None:
    """Fields and rules, each as `path (line): cause` with its hint below; exit code 2."""
    ended = run("validate", str(bad))
    assert ended.code == 2
    assert ended.err == ""
    assert ended.out == (
        "verify_level (line 4): `smok` is not one of checks, smoke, full\n  did you mean `smoke`?\n"
        "groups.worker.memry (line 9): unknown key `memry`\n  did you mean `memory`?\n"
        "groups.worker.count (line 9): 70 nodes, but the group has 64 addresses\n"
        "  add `reserved_addresses: 70`, which renumbers the groups after worker\n"
        "groups (line 7, warning): 71 containers on one machine\n"
        "  reduce a count: with more than 48 containers, daemons may time out\n"
        "access.port (line 6): 22 is a privileged port\n  use a port like 2222\n"
        "stack mine: 4 errors, 1 warning\n"
    )


def test_the_same_for_programs(run: Run, bad: Path) -> None:
    """The contract of `validate --json`."""
    ended = run("validate", str(bad), "--json")
    told = json.loads(ended.out)
    assert ended.code == 2
    assert set(told) == {"findings", "ok"}
    assert told["ok"] is False
    assert all(set(finding) == {"level", "rule", "path", "cause", "hint"} for finding in told["findings"])
    assert [finding["rule"] for finding in told["findings"]] == ["choice", "unknown-key", "group-capacity", "lab-size", "port-privileged"]


def test_warnings_are_shown_and_refuse_nothing(run: Run, tmp_path: Path) -> None:
    """A lab open to the whole office is the user's business."""
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(paths.stack_file("lab").read_text().replace("127.0.0.1", "0.0.0.0"))
    ended = run("validate", str(file))
    assert ended.code == 0
    assert ended.out.startswith("access.bind_address (line 9, warning): 0.0.0.0 publishes the login node")
    assert ended.out.endswith("stack lab: valid, 4 nodes, 1 warning\n")


def test_a_stack_beside_it_is_compared(run: Run, tmp_path: Path) -> None:
    """A copy that kept its network and port cannot be up together with the original; a broken neighbour does not concern it."""
    for name in ("one", "two"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text(paths.stack_file("lab").read_text())
    (tmp_path / "Pulumi.three.yaml").write_text("a: [")
    found = json.loads(run("validate", str(tmp_path / "Pulumi.one.yaml"), "--json").out)["findings"]
    assert [finding["rule"] for finding in found] == ["stacks-overlap", "stacks-port"]


@pytest.mark.parametrize("command", ["validate", "plan", "cost"])
@pytest.mark.parametrize(("asked", "words"), [("labb", "did you mean `lab`?"), ("nowhere/x.yaml", "file does not exist")])
def test_a_stack_that_is_not_there(run: Run, command: str, asked: str, words: str) -> None:
    """With the nearest name."""
    ended = run(command, asked)
    assert ended.code == 2
    assert words in ended.out + ended.err


def test_a_missing_file_is_a_finding_for_programs(run: Run) -> None:
    """`--json` always prints findings."""
    told = json.loads(run("validate", "labb", "--json").out)
    assert (told["ok"], told["findings"][0]["rule"]) == (False, "stack-file")


@pytest.mark.parametrize(
    "text", ["", "a: [", "\t", "config:\n", "config:\n  rackwright:cluster:\n", "- 1\n", "\x00", "config: {rackwright:cluster: 3}\n"]
)
@pytest.mark.parametrize("command", ["validate", "plan", "cost"])
def test_no_file_makes_a_traceback(run: Run, tmp_path: Path, command: str, text: str) -> None:
    """A user's mistake is bad input, whatever it is."""
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text)
    ended = run(command, str(file))
    assert ended.code == 2
    assert "this is a bug" not in ended.err
    assert "Pulumi.x.yaml" in ended.out + ended.err or "rackwright:cluster" in ended.out + ended.err


def test_a_folder_is_no_stack_file(run: Run, tmp_path: Path) -> None:
    """Completion often stops one step too early."""
    assert run("validate", f"{tmp_path}/").code == 2


@pytest.mark.parametrize("command", ["plan", "cost"])
def test_no_plan_and_no_price_for_a_wrong_stack(run: Run, bad: Path, command: str) -> None:
    """The findings instead."""
    ended = run(command, str(bad), "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "access.port (line 6): 22 is a privileged port\n" in ended.err


def test_the_plan_for_people(run: Run) -> None:
    """Nodes, storage and queues, and what is simulated."""
    ended = run("plan", "lab")
    assert ended.code == 0
    assert ended.out.splitlines()[:6] == [
        "stack lab on lab: 4 nodes, 16 GPUs, level smoke, 10.77.0.0/24; simulated: gpu, fabric",
        "access: login0 on 127.0.0.1:2222",
        "",
        "node      address     roles                          cpus  memory    gpus      rack  state",
        "login0    10.77.0.16  login, controller, accounting  4     2048 MiB  -         -     in",
        "worker0   10.77.0.24  worker                         8     2048 MiB  8 x h100  -     in",
    ]
    assert "sharedfs  moosefs  /mnt/sharedfs  storage0  all nodes" in ended.out
    assert "gpu        worker[0-1]  yes" in ended.out
    assert "fabric: infiniband NDR, rail-optimised, 8 rails, 10 switches, 81 cables" in ended.out


def test_plan_writes_many_nodes_as_host_list(run: Run) -> None:
    """64 names in one cell made every line of the table a screen wide."""
    lines = run("plan", "rack-h100").out.splitlines()
    assert "gpu        worker[0-63]  yes      7d" in lines
    assert "scratch  moosefs  /mnt/scratch  storage[0-3]  all nodes" in lines
    assert max(map(len, lines)) < 130


def test_plan_of_one_machine_has_singulars_and_no_empty_table(run: Run) -> None:
    """A runner has neither storage nor partitions."""
    out = run("plan", "runner-gb10").out
    assert out.startswith("stack runner-gb10 on hosts: 1 node, 1 GPU, level checks")
    assert "storage" not in out and "partition" not in out
    assert run("validate", "runner-gb10").out.splitlines()[-1].startswith("stack runner-gb10: valid, 1 node,")


def test_the_plan_of_machines_names_the_one_that_all_others_are_reached_through(run: Run) -> None:
    """There is no published port."""
    assert run("plan", "budget-vms").out.splitlines()[1] == "access: login0"


def test_a_node_that_is_out_is_shown_with_its_reason(run: Run, tmp_path: Path) -> None:
    """And counted apart."""
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(paths.stack_file("lab").read_text() + "    nodes: {worker1: {state: out, reason: bad DIMM}}\n")
    out = run("plan", str(file)).out
    assert "3 of 4 nodes in, 8 GPUs" in out
    assert "out: bad DIMM" in out


def test_the_plan_for_programs(run: Run) -> None:
    """The whole of it."""
    told = json.loads(run("plan", "lab", "--json").out)
    assert told["schema"] == "rackwright.plan/2"
    assert told == json.loads((Path(__file__).parents[2] / "golden" / "plan" / "lab.json").read_text())


def test_the_price(run: Run) -> None:
    """Containers on this machine cost nothing."""
    assert run("cost", "lab").out.endswith("stack lab: 0.00 USD per hour, 0.00 USD per day\n")
    told = json.loads(run("cost", "lab", "--json").out)
    assert told["schema"] == "rackwright.cost/2"
    assert (told["usd_per_hour"], told["usd_per_day"], told["complete"]) == (0, 0, True)


@pytest.mark.parametrize("stack", ["aws-budget", "aws-cpu", "aws-p5", "budget-vms", "lab"])
def test_the_bill_fits_a_terminal(run: Run, stack: str) -> None:
    """80 columns, sources and remarks included; the last line is the sum."""
    ended = run("cost", stack)
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 80
    assert ended.out.splitlines()[-1].startswith(f"stack {stack}: ")


def test_the_bill_names_its_lines_and_the_sum_of_the_stack_s_life(run: Run) -> None:
    """Two spot workers at what they are expected to cost, for eight hours."""
    out = run("cost", "aws-budget").out
    assert ["worker", "2", "g5.xlarge", "1.0000"] in [row.split()[:4] for row in out.splitlines()]
    assert "total for its TTL of 8h: 10.87 USD" in out
    told = json.loads(run("cost", "aws-budget", "--json").out)
    assert told["usd_for_ttl"] == pytest.approx(8 * told["usd_per_hour"], abs=1e-4)
    assert {"item", "source", "date", "region", "remark", "usd_per_hour", "usd_up_front", "count", "group"} == set(told["lines"][0])


def test_a_missing_price_is_a_question_mark_and_a_least_sum(run: Run) -> None:
    """Never a zero."""
    out = run("cost", "aws-cpu").out
    assert "?" in out
    assert "at least 0.55 USD per hour" in out
    assert json.loads(run("cost", "aws-cpu", "--json").out)["complete"] is False


def test_cost_without_any_price_has_no_sum(run: Run) -> None:
    """`at least 0.00 USD` reads like a price."""
    out = run("cost", "rack-h100").out
    assert out.splitlines()[-1] == "stack rack-h100: cost unknown, no price is known"
    assert "0.00 USD" not in out


def test_machines_of_one_s_own_are_compared_with_rented_ones(run: Run, tmp_path: Path) -> None:
    """With the same GPUs in EC2, or with another stack."""
    file = tmp_path / "Pulumi.budget-vms.yaml"
    economics = "      ownership_cost: {machines: {login: {price_usd: 300, watts: 30}, worker: {price_usd: 3000, watts: 400},"
    economics += " storage: {price_usd: 500, watts: 50}}, electricity_usd_per_kwh: 0.1, years: 4}\n"
    text = paths.stack_file("budget-vms").read_text().replace("    verify_level: smoke", economics + "    verify_level: smoke")
    file.write_text(text.replace("worker:  {count: 2,", "worker:  {count: 2, gpus: {model: l4, count: 1},"))
    ended = run("cost", str(file))
    assert ended.code == 0, ended.err
    assert "no rack: 0.88 kW" in ended.out
    assert "compared with 2 x g6.xlarge at 1.61 USD per hour" in ended.out
    told = json.loads(run("cost", str(file), "--json", "--against", "aws-budget").out)["ownership_cost"]
    assert told["against"]["name"] == "stack aws-budget"
    assert told["against"]["break_even_months"] == pytest.approx(6800 / ((told["against"]["usd_per_hour"] - 0.088) * 730))


def test_the_schema(run: Run) -> None:
    """As committed."""
    assert run("schema").out == schema.COMMITTED.read_text()


def test_usage_errors_are_bad_input(run: Run) -> None:
    """Exit code 2, like everywhere."""
    for arguments in (["nope"], ["plan"], ["validate", "--online"], ["validate", "lab", "--jsn"]):
        ended = run(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err


def test_help_names_every_command(run: Run) -> None:
    """With one line each."""
    ended = run("--help")
    assert ended.code == 0
    assert all(f"  {name} " in ended.out for name in COMMANDS)


@each_row("name", list(COMMANDS))
def test_every_command_of_the_table_exists(name: str) -> None:
    """A wrong entry would show only when a command needs it."""
    module, function = COMMANDS[name][0].split(":")
    assert callable(getattr(import_module(module), function))


def test_a_defect_is_confessed_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3: undetermined. The traceback is printed on request."""

    def broken(asked: str) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("rackwright.operations.validation.load_and_validate", broken)
    ended = run("validate", "lab")
    assert ended.code == 3
    assert ended.err.startswith("ZeroDivisionError: oops\n  this is a bug in rackwright")
    monkeypatch.setenv("RACKWRIGHT_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["rackwright", "validate", "lab"])
    with pytest.raises(ZeroDivisionError):
        main.app()


def test_validation_works_offline(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one socket is opened."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("socket.socket", refused)
    assert run("validate", "lab").code == 0


def python(*arguments: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(paths.project_root() / "infra")}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment).stdout


def test_rooms_left_of_targets_stay_light() -> None:
    """The provider and the tests import them, and `validate` starts with them."""
    loaded = python("-c", "import sys, rackwright.inventory, rackwright.rules; print(*sys.modules)").split()
    assert not {"pulumi", "typer", "rich", "grpc", "ansible", "paramiko", "jsonschema", "boto3"} & set(loaded)


def test_the_command_line_imports_a_command_when_it_runs() -> None:
    """Starting costs what the command needs, and help needs nothing."""
    loaded = python("-c", "import sys, rackwright.cli.main as m; m._program(); print(*sys.modules)").split()
    assert not {"pydantic", "yaml", "pulumi", "rich", "grpc", "rackwright.cli.validate"} & set(loaded)
