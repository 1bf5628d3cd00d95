"""Two locks: requirements.lock for `make up`, requirements-dev.lock for `make test` and `make check`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from support.imports import foreign_imports

CHECKOUT = Path(__file__).resolve().parents[4]

RUNTIME = (
    "infra",
    "tools/bootstrap",
    "tools/kubernetes",
    "tools/pulumi",
    "tools/troubleshooting",
    *(f"ansible_collections/rackwright/cluster/plugins/{kind}" for kind in ("action", "callback", "filter", "plugin_utils")),
)
"""Folders whose modules run on the operator's machine in a runtime environment."""

ON_NODES = re.compile(
    r"infra/rackwright/(checks/acceptance/programs/|workloads/training/(checkpoints|compat|finetune|launch|lora|model|train)\.py|workloads/inference/torch_model\.py)"
)
"""Modules that import what the node has: PyTorch, and their neighbours in the folder they are copied to."""


def name_of(requirement: str) -> str:
    """Return the normalised distribution name at the start of a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def pins(lock: str) -> dict[str, set[str]]:
    """Return the versions a lock pins, by distribution."""
    found: dict[str, set[str]] = {}
    for line in (CHECKOUT / lock).read_text(encoding="utf-8").splitlines():
        if line[:1].isalnum():
            requirement, _, version = line.split(" ")[0].partition("==")
            found.setdefault(name_of(requirement), set()).add(version)
    return found


def listed(requirements: str) -> set[str]:
    """Return the distributions that a requirements file names."""
    lines = (CHECKOUT / requirements).read_text(encoding="utf-8").splitlines()
    return {name_of(line) for line in lines if line[:1].isalnum()}


def operator_modules(folder: str) -> list[Path]:
    """Return the modules of a folder that run on the operator's machine."""
    found = sorted((CHECKOUT / folder).rglob("*.py"))
    return [path for path in found if not ON_NODES.search(path.relative_to(CHECKOUT).as_posix())]


@cache
def own_names() -> frozenset[str]:
    """Return the packages of this checkout, as pytest's `pythonpath` makes them importable.

    `home` is loaded by path in the shim, and Ansible makes `ansible_collections` importable.
    """
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = settings["tool"]["pytest"]["ini_options"]["pythonpath"]
    return frozenset({"home", "ansible_collections"}) | {
        path.parent.name for folder in folders for path in (CHECKOUT / folder).glob("*/__init__.py")
    }


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions by package; Python reads the metadata of each."""
    return packages_distributions()


@pytest.mark.parametrize("folder", RUNTIME)
def test_runtime_imports_are_pinned(folder: str) -> None:
    """A user who ran only `make up` meets no ImportError."""
    known, runtime = distributions(), pins("requirements.lock").keys()
    pinned = {name for name, by in known.items() if {name_of(each) for each in by} & runtime}
    modules = operator_modules(folder)
    missing = [
        f"{module.relative_to(CHECKOUT)}: {name}: expected in requirements.lock, found in {known.get(name, 'no distribution')}"
        for module in modules
        for name in sorted(foreign_imports(module, pinned | sys.stdlib_module_names | own_names()))
    ]
    assert modules, f"{folder}: no module"
    assert not missing, "\n".join(missing)


def test_declared_dependencies_are_locked() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {name_of(each) for each in (*project["project"]["dependencies"], *project["build-system"]["requires"])}
    assert needed <= listed("requirements.in") <= pins("requirements.lock").keys()
    assert listed("requirements-dev.in") <= pins("requirements-dev.lock").keys()


def test_locks_agree_on_versions() -> None:
    runtime, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    shared = runtime.keys() & dev.keys()
    assert "pytest" in shared
    assert {name: dev[name] for name in shared} == {name: runtime[name] for name in shared}


def test_runtime_lock_holds_no_tools() -> None:
    tools = listed("requirements-dev.in") | {"sympy", "black", "flask", "cfn-lint"}
    assert {"moto", "mypy", "ansible-lint", "hypothesis", "playwright", "ruff"} <= tools
    assert not tools & pins("requirements.lock").keys()


def test_dev_requirements_start_with_constraint() -> None:
    """Without it `make lock` may resolve another version than `make up` installs."""
    lines = (CHECKOUT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if line and not line.startswith("#")) == "-c requirements.lock"
