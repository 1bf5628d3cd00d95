"""Keys for several machines: `worker[0-63]` is worker0 to worker63."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from rackwright.model.groups import MAX_NODES
from rackwright.model.units import is_label, refuse

_NUMBER: Final = "(0|[1-9][0-9]*)"
_STEM: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_RANGE: Final = re.compile(rf"(?P<group>{_STEM})\[(?P<first>{_NUMBER})-(?P<last>{_NUMBER})\]")


def names(key: str) -> tuple[str, ...]:
    """Return the node names of a key: those of a range, else the key itself.

    >>> names("worker[0-2]")
    ('worker0', 'worker1', 'worker2')
    """
    found = _RANGE.fullmatch(key)
    return tuple(f"{found['group']}{index}" for index in range(int(found["first"]), int(found["last"]) + 1)) if found else (key,)


def is_range(key: str) -> bool:
    """Return whether a key is a range, even of a single machine."""
    return _RANGE.fullmatch(key) is not None


def _machine_name(value: object) -> str:
    hint = "use a node name, or a group name with the first and last index, like worker[0-63]"
    if not isinstance(value, str):
        refuse("machine-name", f"{value!r} is not a node name", hint)
    found = _RANGE.fullmatch(value)
    if found and int(found["last"]) < int(found["first"]):
        refuse("machine-name", f"`{value}` ends before its start", hint)
    if found and int(found["last"]) - int(found["first"]) >= MAX_NODES:
        refuse("machine-name", f"`{value}` has too many machines", f"use a range of at most {MAX_NODES} nodes")
    if not found and not is_label(value):
        refuse("machine-name", f"`{value}` is neither a node name nor a range", hint)
    return value


MachineName = Annotated[
    str,
    BeforeValidator(_machine_name),
    WithJsonSchema({"type": "string", "pattern": rf"^{_STEM}(\[{_NUMBER}-{_NUMBER}\])?$"}),
]


def compressed(names: Iterable[str]) -> str:
    """Return node names as a Slurm host list: names with the same stem combined, numbers as ranges.

    >>> compressed(["worker0", "worker1", "worker2", "worker7", "login"])
    'worker[0-2,7],login'
    """
    found: dict[tuple[str, bool], list[int]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        counted = bool(number) and str(int(number)) == number
        found.setdefault((stem if counted else name, counted), []).append(int(number) if counted else 0)
    return ",".join(stem + (_numbers(sorted(numbers)) if counted else "") for (stem, counted), numbers in found.items())


def _numbers(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"[{','.join(str(run[0]) if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]"
