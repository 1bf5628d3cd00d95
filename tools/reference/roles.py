"""docs/reference/roles.md: the Ansible roles and their variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.yaml_loader import load_yaml
from reference.markdown import cell, code, head, table

_FOLDER: Final = "roles"
"""The folder that readers of the repository browse; that of the collection is a link to it."""
_ROLES: Final = Path(__file__).parents[2] / _FOLDER
_TEXT: Final = """
The playbooks apply these roles. The defaults read the inventory, which rackwright writes from the stack file.
"""


def page() -> str:
    """Return the whole page."""
    specs = {path.parents[1].name: load_yaml(path.read_text(encoding="utf-8")) for path in sorted(_ROLES.glob("*/meta/argument_specs.yml"))}
    contents = table(
        ("role", "purpose"),
        ((f"[{name}](#{name})", cell(spec["argument_specs"]["main"]["short_description"])) for name, spec in specs.items()),
    )
    sections = (line for name, spec in specs.items() for line in _section(name, spec["argument_specs"]["main"]))
    return "\n".join([head("Roles", "`meta/argument_specs.yml` of each role", _TEXT), *contents, *sections])


def _section(name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {name}", "")
    more = f" [More](../../{_FOLDER}/{name}/README.md)." if (_ROLES / name / "README.md").exists() else ""
    yield from (f"{_ansible(spec['short_description'])}.{more}", "")
    options: Mapping[str, Mapping[str, Any]] = spec.get("options", {})
    yield from table(
        ("variable", "type", "default", "meaning"),
        ((code(key), _type(option), _default(option), _described(option)) for key, option in options.items()),
    )


def _type(option: Mapping[str, Any]) -> str:
    elements = f" of {option['elements']}" if "elements" in option else ""
    choices = f": {', '.join(code(str(choice)) for choice in option['choices'])}" if "choices" in option else ""
    return f"{option.get('type', 'str')}{elements}{choices}"


def _default(option: Mapping[str, Any]) -> str:
    """Return the default: text as it is, other values as YAML on one line."""
    if "default" not in option:
        return "required" if option.get("required") else "none"
    value = option["default"]
    if isinstance(value, str):
        return code(value) if value else "empty"
    return code(yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n"))


def _described(option: Mapping[str, Any]) -> str:
    description = option["description"]
    return _ansible(description if isinstance(description, str) else " ".join(description))


def _ansible(text: str) -> str:
    """Return text with Ansible's `C(code)` as Markdown's code."""
    return cell(re.sub(r"C\(([^)]*)\)", r"`\1`", text))
