"""The documentation of the project's modules: the options that a module accepts, examples that it accepts, why no other module serves."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from support.rows import each_row

from rackwright import layout
from rackwright.yaml_loader import load_yaml

LIBRARY = layout.product_root() / layout.MODULES
NAMES = sorted(file.stem for file in LIBRARY.glob("*.py"))
ACTIONS = sorted(file.stem for file in (layout.product_root() / layout.ACTION_PLUGINS).glob("*.py"))
"""Actions run on the control machine. The module of the same name holds the documentation, as those of ansible.builtin do."""
MODULES = [name for name in NAMES if name not in ACTIONS]
IMPORTED: dict[str, Any] = {name: importlib.import_module(f"{layout.MODULES.replace('/', '.')}.{name}") for name in NAMES}
"""Imported before any test runs: after Ansible's init_plugin_loader(), which other tests call, its import hook replaces Python's."""
CALLED_BY_ACTIONS = ("busy_facts", "dpkg_facts")
STAND_INS: dict[str, Any] = {"dict": {"key": "value"}, "list": ["item"], "bool": True, "int": 1}
"""Values by type, in place of a template."""


class Started(Exception):
    """A module has declared its arguments."""


@pytest.fixture
def module(request: pytest.FixtureRequest) -> Any:
    """The module as Python imports it."""
    return IMPORTED[request.param]


def name_of(module: Any) -> str:
    """Return the name of a module in the collection."""
    return str(module.__name__).rpartition(".")[2]


def arguments_of(module: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments with which the module creates its AnsibleModule."""
    declared: dict[str, Any] = {}

    def start(argument_spec: dict[str, Any], **words: Any) -> None:
        declared.update(words, argument_spec=argument_spec)
        raise Started

    monkeypatch.setattr(module, "AnsibleModule", start)
    with pytest.raises(Started):
        module.main()
    return declared


def options_of(name: str) -> set[str]:
    """Return the options that a module's documentation lists."""
    text = (LIBRARY / f"{name}.py").read_text(encoding="utf-8").partition('DOCUMENTATION = r"""')[2].partition('"""')[0]
    return set(load_yaml(text)["options"])


def described(option: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an option accepts."""
    return {key: option.get(key) or default for key, default in (("type", "str"), ("required", False), ("default", None), ("choices", []))}


def filled(value: Any, kind: str) -> Any:
    """Return a value of an example, with a stand-in of the option's type for a template."""
    return STAND_INS.get(kind, "text") if isinstance(value, str) and "{{" in value else value


@pytest.mark.parametrize("module", MODULES, indirect=True)
def test_documented_options_are_those_of_the_module(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = load_yaml(module.DOCUMENTATION)
    assert documented["module"] == name_of(module)
    spec = arguments_of(module, monkeypatch)["argument_spec"]
    named = re.findall(r"M\(rackwright\.cluster\.(\w+)\)", str(documented.get("description")))
    elsewhere = set().union(*map(options_of, named))
    assert set(documented["options"]) <= set(spec) <= set(documented["options"]) | elsewhere
    declared = {name: described(option) for name, option in spec.items() if name in documented["options"]}
    assert {name: described(option) for name, option in documented["options"].items()} == declared


@pytest.mark.parametrize("module", MODULES, indirect=True)
def test_examples_are_accepted_by_the_module(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = arguments_of(module, monkeypatch)
    spec = declared["argument_spec"]
    limits = {
        key: declared[key] for key in ("mutually_exclusive", "required_together", "required_one_of", "required_if") if key in declared
    }
    validator = ArgumentSpecValidator(spec, **limits)
    tasks = load_yaml(module.EXAMPLES)
    assert tasks
    for task in tasks:
        given = task[f"{layout.COLLECTION_NAME}.{name_of(module)}"]
        result = validator.validate({key: filled(value, spec.get(key, {}).get("type", "str")) for key, value in given.items()})
        assert result.error_messages == [], task["name"]


@functools.cache
def all_tasks() -> list[Mapping[str, Any]]:
    """Return every task of the playbooks and roles."""
    root = layout.product_root()
    files = [*(root / layout.PLAYBOOKS).glob("*.yml"), *(root / layout.ROLES).glob("*/tasks/*.yml")]
    listed = [entry for file in files for entry in load_yaml(file.read_text(encoding="utf-8")) or []]
    return [task for entry in listed for task in (*_tasks(entry), entry)]


def uses_of(name: str) -> list[Mapping[str, Any]]:
    """Return the arguments of every task that calls a module."""
    tasks = all_tasks()
    return [task[f"{layout.COLLECTION_NAME}.{name}"] for task in tasks if f"{layout.COLLECTION_NAME}.{name}" in task]


def _tasks(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tasks inside a play or a block."""
    inner = [task for key in ("tasks", "pre_tasks", "block", "rescue", "always") for task in entry.get(key) or []]
    return [*inner, *(deeper for task in inner for deeper in _tasks(task))]


@pytest.mark.parametrize("name", ACTIONS)
def test_every_option_that_tasks_give_an_action_is_documented(name: str) -> None:
    documented = set(options_of(name))
    uses = uses_of(name)
    assert uses
    assert set().union(*uses) <= documented
    module = IMPORTED[name]
    assert load_yaml(module.DOCUMENTATION)["module"] == name
    (example,) = load_yaml(module.EXAMPLES)
    assert set(example[f"{layout.COLLECTION_NAME}.{name}"]) <= documented


@each_row("name", [name for name in NAMES if name not in CALLED_BY_ACTIONS])
def test_every_module_is_called_by_a_task(name: str) -> None:
    assert uses_of(name)


@pytest.mark.parametrize("module", NAMES, indirect=True)
def test_documentation_says_why_no_other_module_serves(module: Any) -> None:
    assert load_yaml(module.DOCUMENTATION)["notes"]
    assert load_yaml(module.RETURN)
