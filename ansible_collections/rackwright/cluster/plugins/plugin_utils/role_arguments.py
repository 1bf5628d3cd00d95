"""Variables of roles that an inventory or a command line sets, compared with the argument specs of the roles.

The defaults follow the specs (tests/roles/test_roles.py), so only a value in place of a default can be wrong. One task compares these
values before any node is changed. `rolespec_validate` would add a task for each role and node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator


def problems(roles: Path, variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the values that a role's argument spec refuses, each with its first host; `variables`: variables by host."""
    specs: dict[str, Mapping[str, Any]] = {}
    found: dict[str, str] = {}
    for host, given in variables.items():
        for name in given:
            role = _role_of(name, roles)
            if role:
                specs.setdefault(role, _options(roles / role))
                for problem in _refusals(name, given, specs[role]):
                    found.setdefault(f"{name}: {problem} - correct the variable, or remove it: role {role} has a default", host)
    return [f"{host}.{problem}" for problem, host in found.items()]


def _role_of(variable: str, roles: Path) -> str:
    """Return the role whose name is the longest prefix of a variable; empty without one."""
    parts = variable.split("_")
    names = ("_".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((name for name in names if name and (roles / name / "meta" / "argument_specs.yml").is_file()), "")


def _options(role: Path) -> Mapping[str, Any]:
    """Return the options of all entry points of a role."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    return {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}


def _refusals(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    option = options.get(name)
    if option is None:
        return
    try:
        value = given[name]
    except AnsibleError:  # A template of facts that a later phase gathers.
        return
    messages = ArgumentSpecValidator({name: option}).validate({name: value}).error_messages
    if messages and option.get("no_log"):
        messages = ["the value does not match the role's argument spec"]
    yield from messages
