"""docs/reference/compatibility.md: the rows of compatibility.yml, with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from rackwright.yaml_loader import load_yaml
from reference.markdown import cell, head, table

_TEXT: Final = """The catalogue of versions that fit each other. `rackwright validate` refuses a combination that the catalogue
excludes; each row has its source and the date on which the source was read. [Software](../software.md) explains
profiles and pins.
"""
_TITLES: Final = {
    "profiles": ("Profiles", "profile"),
    "systems": ("Operating systems", "system"),
    "architectures": ("GPU architectures", "architecture"),
    "compute_capabilities": ("Compute capabilities", "capability"),
    "driver_branches": ("Driver branches", "branch"),
    "cuda": ("CUDA", "CUDA major"),
    "efa_installers": ("Installers of EFA that do not work with something else", "conflict"),
    "requirements": ("Requirements between components", "component"),
    "outdated": ("Outdated components", "component"),
    "nccl_variables": ("NCCL variables", "variable"),
}
"""Table of the catalogue -> title of its section, first column."""


def page() -> str:
    """Return the whole page. Raises ValueError if the catalogue has a table without a title."""
    if unknown := _catalogue().keys() - _TITLES.keys():
        raise ValueError(f"compatibility.yml: no title for {', '.join(sorted(unknown))}")
    return "\n".join([head("Compatibility", "`catalog/compatibility.yml`", _TEXT), *(line for name in _TITLES for line in _section(name))])


@cache
def _catalogue() -> Mapping[str, Mapping[Any, Mapping[str, Any]]]:
    text = files("rackwright.catalog").joinpath("compatibility.yml").read_text(encoding="utf-8")
    loaded: dict[str, dict[Any, dict[str, Any]]] = load_yaml(text)
    return loaded


def _section(name: str) -> Iterator[str]:
    title, first = _TITLES[name]
    rows = {key: _flat(row) for key, row in _catalogue()[name].items()}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    yield from (f"## {title}", "")
    if name == "profiles":  # Few and wide: one column for each profile.
        yield from table(
            ("", *(f"`{key}`" for key in rows)),
            ((_label(column), *(_value(row.get(column)) for row in rows.values())) for column in columns),
        )
    else:
        yield from table(
            (first, *map(_label, columns)), ((f"`{key}`", *(_value(row.get(column)) for column in columns)) for key, row in rows.items())
        )


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the versions of a profile as columns, and source and date last."""
    last = ("source", "date")
    flat = {key: value for key, value in row.items() if key not in ("versions", *last)} | dict(row.get("versions", {}))
    return flat | {key: row[key] for key in last if key in row}


def _label(column: str) -> str:
    return column.replace("_", " ")


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else cell(str(value))
