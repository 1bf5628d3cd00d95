"""Phases, rows and programs match; the command for Slurm is complete; the schema for readers matches the report."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.catalog.checks import Kind, Level, acceptance
from rackwright.checks.acceptance.harness import slurm
from rackwright.checks.acceptance.phase import PROGRAMS, Job, Program
from rackwright.checks.acceptance.phases import phases
from rackwright.errors import InputError
from rackwright.inventory.reader import from_inventory
from rackwright.report.schemas import schema
from rackwright.report.verdict import NotRunReason
from rackwright.yaml_loader import load_yaml

GOLDEN = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


@pytest.fixture
def declared():
    return from_inventory(load_yaml(GOLDEN.read_text()))


def test_every_phase_has_checks():
    """The search is no phase of a complete run: only --bisect runs it."""
    named = {phase.name for in_pods in (False, True) for phase in phases(in_pods=in_pods)}
    assert {spec.subject for spec in acceptance().values()} == named | {"bisection"}


def test_smoke_phases_precede_measurements_in_dependency_order():
    assert [phase.name for phase in phases()][:5] == [
        "slurm_health",
        "shared_file_system",
        "task_placement",
        "gpu_allocation",
        "infiniband",
    ]


def test_every_parser_has_a_caller():
    """In a phase or an evaluator: tests alone are no use of a parser."""
    folder = PROGRAMS.parent
    callers = "".join(file.read_text() for part in ("phases", "evaluators") for file in (folder / part).glob("*.py"))
    parsers = [
        (file.stem, node.name)
        for file in (folder / "parsers").glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("parse")
    ]
    assert len(parsers) > 5
    unused = [f"{module}.{name}" for module, name in parsers if f"{module}.{name}(" not in callers and f" {name}(" not in callers]
    assert unused == []


def test_titles_leave_room_for_figures():
    """80 columns, less 36 for the four counts and 22 for the longest skip reason."""
    assert {phase.title for phase in phases() if len(f"{len(phases())} {phase.title}") > 22} == set()


@each_row("spec", acceptance().values(), ids=acceptance())
def test_every_row_is_a_job_with_remedy(spec):
    assert spec.kind is Kind.JOB and spec.level is not Level.CHECKS
    assert "{node}" in spec.remedy.format(node="{node}", stack="lab") or "`" in spec.remedy
    assert not spec.real_only or spec.hardware


@pytest.mark.parametrize("file", sorted(PROGRAMS.glob("[a-z]*.py")), ids=lambda file: file.name)
def test_programs_run_alone_on_python_3_9(file):
    ast.parse(file.read_text(), feature_version=(3, 9))


def test_sent_text_keeps_docstring_and_future_import_first():
    text = '"""Says so."""\n\nfrom __future__ import annotations\n\nprint("ran")\n'
    lines = slurm.sent(Program("x.py", text))
    compile(lines, "x.py", "exec")
    assert lines.index("__future__") < lines.index("_launched(") < lines.index('print("ran")')


def test_srun_command_sets_every_option(declared):
    job = Job(
        "all",
        ("worker0", "worker1"),
        Program("x.py", "print()\n"),
        ("a b",),
        gpus_per_node=8,
        tasks_per_node=8,
        limit_s=61,
        whole_nodes=True,
    )
    words = slurm.command(job, "label", declared)
    assert words[:4] == ["srun", "--job-name=label", "--partition=gpu", "--nodelist=worker0,worker1"]
    assert {"--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--gres=gpu:8", "--exclusive", "--mem=0", "--time=2"} <= set(words)
    assert words[-4:] == ["python3", "-I", "-", "a b"]
    assert "--mpi=pmix" not in words and "--mpi=pmix" in slurm.command(replace(job, mpi=True), "label", declared)


def test_nodes_without_common_partition_are_refused(declared):
    with pytest.raises(InputError, match="no partition"):
        slurm.partition(declared, ("worker0", "login0"))


def test_lines_cut_by_srun_are_joined():
    head = {"RANK": 1, "node": "n", "host": "n", "uid": 1, "job": "5", "note": "x" * 2000}
    line = slurm.HEAD + json.dumps(head)
    cut = [line[start : start + 1024] for start in range(0, len(line), 1024)]
    assert [len(piece) for piece in cut[:2]] == [1024, 1024]
    text = f"1: {cut[0]}\n0: {slurm.HEAD}torn\n1: {cut[1]}\n0: more\n1: {cut[2]}\n1: more\n"
    assert slurm.heads(text) == [head]


def test_schema_matches_fields_of_checks_and_nodes():
    acceptance_schema, report_schema = schema("acceptance"), schema("report")
    assert {name: acceptance_schema["$defs"][name] for name in ("verdict", "node", "check")} == {
        name: report_schema["$defs"][name] for name in ("verdict", "node", "check")
    }
    assert set(report_schema["required"]) < set(acceptance_schema["required"])
    assert set(acceptance_schema["$defs"]["not_run"]["properties"]["reason"]["enum"]) == {reason.value for reason in NotRunReason}


@pytest.mark.parametrize("name", ["phase", "harness.slurm", "harness.node_scope", "phases.shared_file_system"])
def test_docstring_examples_hold(name):
    assert not doctest.testmod(importlib.import_module(f"rackwright.checks.acceptance.{name}")).failed
