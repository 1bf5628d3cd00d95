"""Host lists as Slurm writes them: `node[001-003,007],gpu[1-2]` (slurm.conf(5), NODE CONFIGURATION). Leading zeros are part of a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from math import prod
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from rackwright.model.names import is_label
from rackwright.model.notation import refuse

_ITEM: Final = r"(?:[\w.-]|\[[\d,-]+\])+"
_MOST_HOSTS: Final = 65536
"""Maximum number of names of one range (Slurm, hostlist.c, MAX_RANGE)."""


@lru_cache(maxsize=1024)
def expand_host_list(text: str) -> tuple[str, ...]:
    """Return the names of a host list in their order. A name can have several ranges. Raise ValueError for another text.

    >>> expand_host_list("worker[0-1,07-08],login0"), expand_host_list("r[1-2]n[01-02]")
    (('worker0', 'worker1', 'worker07', 'worker08', 'login0'), ('r1n01', 'r1n02', 'r2n01', 'r2n02'))
    """
    if not re.fullmatch(rf"{_ITEM}(,{_ITEM})*", text):
        raise ValueError(f'"{text}" is not a host list')
    names: list[str] = []
    for item in re.findall(_ITEM, text):
        parts = [_numbers(part[1:-1]) if part.startswith("[") else [part] for part in re.findall(r"\[[^\]]*\]|[^\[]+", item)]
        if prod(map(len, parts)) > _MOST_HOSTS:
            raise ValueError(f'"{item}" has more than {_MOST_HOSTS} names')
        names += map("".join, product(*parts))
    return tuple(names)


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for item in ranges.split(","):
        low, _, high = item.partition("-")
        if not re.fullmatch(r"\d+(-\d+)?", item) or int(high or low) < int(low):
            raise ValueError(f'"{item}" is not a range of a host list')
        if int(high or low) - int(low) >= _MOST_HOSTS:
            raise ValueError(f'"{ranges}" has more than {_MOST_HOSTS} names')
        found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1)]
    return found


def compressed(names: Iterable[str]) -> str:
    """Return node names as a Slurm host list.

    >>> compressed(["worker0", "worker1", "worker2", "worker7", "login"]), compressed(["node099", "node100", "node7"])
    ('worker[0-2,7],login', 'node[099-100],node7')
    """
    return ",".join(host_list_items(names))


def host_list_items(names: Iterable[str]) -> list[str]:
    """Return the items of a host list: names with the same stem and the same leading zeros combined, numbers as ranges."""
    parts = [_parted(name) for name in names]
    padded = {(stem, len(digits)) for stem, digits in parts if len(digits) > 1 and digits.startswith("0")}
    found: dict[tuple[str, int], list[int]] = {}
    for stem, digits in parts:
        width = 0 if not digits else len(digits) if (stem, len(digits)) in padded else 1
        found.setdefault((stem, width), []).extend([int(digits)] if digits else [])
    return [stem + (_ranges(sorted(numbers), width) if numbers else "") for (stem, width), numbers in found.items()]


def _parted(name: str) -> tuple[str, str]:
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def _ranges(numbers: list[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:0{width}d}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]:0{width}d}" if len(run) == 1 else f"{run[0]:0{width}d}-{run[-1]:0{width}d}" for run in runs)
    return f"[{','.join(texts)}]"


HOST_LIST_PATTERN: Final = r"^[a-z]([-a-z0-9]|\[[0-9,-]+\])*(,[a-z]([-a-z0-9]|\[[0-9,-]+\])*)*$"
"""Pattern of host lists of node names, for editors."""
_HINT: Final = "use names like node[001-064], r[1-4]n[01-16] or node[001-003],gpu1"


def require_labels(names: tuple[str, ...], rule: str, hint: str) -> None:
    """Refuse names that are not DNS labels, or that occur twice."""
    if wrong := next((name for name in names if not is_label(name)), None):
        refuse(rule, f"`{wrong}` is not a DNS label: lower-case letters, digits and inner hyphens, a letter first, at most 63", hint)
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        refuse(rule, f"`{twice}` is listed twice", "remove one of them")


def parse_node_names(value: object) -> str:
    """Return a host list whose names are different DNS labels."""
    if not isinstance(value, str):
        refuse("node-names", f"{value!r} is not a host list", _HINT)
    try:
        names = expand_host_list(value)
    except ValueError as error:
        refuse("node-names", str(error), _HINT)
    require_labels(names, "node-names", _HINT)
    return value


NodeNames = Annotated[
    str,
    BeforeValidator(parse_node_names),
    WithJsonSchema({"type": "string", "pattern": HOST_LIST_PATTERN}),
]
"""Host list of node names."""
