"""Catalogue and checks contain the same checks, and each check matches its row."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from support.rows import each_row

from rackwright.catalog.checks import Kind, Level, checks
from rackwright.checks import cluster
from rackwright.checks.cluster import probes
from rackwright.checks.cluster.harness.external_probes import EXTERNAL_PROBES
from rackwright.checks.cluster.harness.probe import PROBES
from rackwright.model.cluster import Level as StackLevel

probes.load()
ROOT = Path(cluster.__file__).parent


@cache
def functions():
    """Return every check function by key, with its syntax tree; parsed once for all tests."""
    found = {}
    for file in sorted(ROOT.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[f"{file.stem.removeprefix('test_')}.{node.name.removeprefix('test_')}"] = node
    return found


def test_every_row_has_one_function():
    assert sorted(functions()) == sorted(checks())


def test_catalogue_has_at_least_forty_checks():
    assert len(checks()) >= 40


@each_row("key", checks())
def test_every_check_states_its_purpose(key):
    assert ast.get_docstring(functions()[key])


@each_row("key", checks())
def test_every_check_compares_something(key):
    names = {node.func.id for node in ast.walk(functions()[key]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "expect" in names


@each_row("key", checks())
def test_checks_use_limits_of_catalogue(key):
    takes = "limit" in [argument.arg for argument in functions()[key].args.args]
    assert takes == (checks()[key].limit is not None)


@each_row("key", [key for key, spec in checks().items() if spec.kind is Kind.JOB])
def test_job_checks_need_level_above_checks(key):
    assert checks()[key].level is not Level.CHECKS


def test_levels_match_stack_files():
    assert [level.value for level in Level] == [level.value for level in StackLevel]


def test_every_question_is_used_by_a_check():
    text = "".join(file.read_text(encoding="utf-8") for file in [*ROOT.glob("*.py"), *ROOT.glob("probes/*.py")])
    module = {probe.name: constant for constant, probe in _constants(PROBES)}
    assert {name for name in PROBES if text.count(module[name]) < 2} == set()


def test_outlooks_name_existing_checks():
    assert {key for outlook in EXTERNAL_PROBES.values() for key in outlook.needed_by} <= set(checks())


def _constants(registered):
    """Return the names of the constants that hold the registered questions."""
    import importlib

    for file in ROOT.glob("probes/[a-z]*.py"):
        module = importlib.import_module(f"rackwright.checks.cluster.probes.{file.stem}")
        for name, value in vars(module).items():
            if any(value is probe for probe in registered.values()):
                yield name, value
