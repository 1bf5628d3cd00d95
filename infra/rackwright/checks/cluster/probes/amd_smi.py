"""Reader of amd-smi's JSON, line by line and cell by cell. No other module reads these outputs.

amd-smi prints one value per line, indented by four spaces for each level. The reader follows the indentation, so that a damaged line
costs its own value alone. Source of keys and forms: amdsmi_cli of ROCm 6.0 to 7.2 (a list of GPUs until 6.3, later an object with
`gpu_data`; quantities are numbers, texts with a unit, or objects with `value` and `unit`).

Where amd-smi is not installed, rocm-smi describes the GPUs (rocm_smi.py of ROCm 5.0 to 6.4): one object with a key `card0` for each GPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from rackwright.checks.cluster.harness.tool_output import Row, UnreadableValue, is_absent, is_cut, json_documents, lines_of, quoted
from rackwright.checks.cluster.probes.nvidia_smi import GpuList

T = TypeVar("T")
ENDS: Final = frozenset(range(256)) - {124, 126, 127, 137, 143}
"""Exit statuses with which amd-smi may have listed GPUs or reported why it cannot: a status of the library (0 to 56, 255; amdsmi.h,
amdsmi_status_t) or of the tool (192 to 253). Not those of the shell for a time-out, a missing tool, or a signal."""
_NO_DRIVER: Final = re.compile(
    r"driver not (initialized|loaded|found)|drivers not loaded|AMDSMI_STATUS_(NOT_INIT|DRIVER_NOT_LOADED|NO_DRV)|unable to detect any gpu",
    re.IGNORECASE,
)
"""Messages with which amd-smi reports that the driver amdgpu is not loaded (amdsmi_init.py of ROCm 6.0 to 7.2)."""
_NONE_FOUND: Final = re.compile(
    r"can ?not find a device|DEVICE_NOT_FOUND|no gpus? (found|detected)|no DRM devices available", re.IGNORECASE
)
_NAMED: Final = re.compile(r'"([^"]*)"\s*:\s*')
_GPU: Final = re.compile(r'[ \t]*"gpu"\s*:')
_CLOSERS: Final = frozenset({"}", "]"})
_OTHER_DEVICES: Final = frozenset({"cpu", "core", "nic", "ainic", "switch"})
"""First keys of objects that describe no GPU: amd-smi lists CPUs where their driver amd_hsmp is loaded."""


def read_gpus(text: str, make: Callable[[Row], T]) -> GpuList[T]:
    """Return the GPUs of `amd-smi … --json`. Cells are named by their path, as in `pcie/speed/value`.

    Raise ValueError where no line describes a GPU and amd-smi does not report that there is none.
    """
    printed = _one_value_per_line(_of_rocm_smi(text))
    blocks, others = _blocks(lines_of(printed))
    failure = next((line for line in others if _NO_DRIVER.search(line)), "")
    if not blocks and not failure and not any(_NONE_FOUND.search(line) for line in others):
        raise ValueError(f'no GPU is described: "{quoted(others[0])}"' if others else "no GPU is described")
    rows = _merged([block.row(cut=is_cut(printed) and block is blocks[-1]) for block in blocks])
    unsure = tuple(row.unread("gpu") for row in rows if row.subject == _UNKNOWN)
    return GpuList(tuple(map(make, rows)), (), tuple(others), unsure, _end(printed, others), failure)


def first_of(row: Row, *names: str) -> str:
    """Return the first path that a release printed, of the names that releases give to one value; the first name if none was."""
    return next((name for name in names if below(row, name)), names[0])


def below(row: Row, name: str) -> dict[str, str]:
    """Return the cells at a path and below it: of a single value, of a list, or of an object."""
    return {path: cell for path, cell in row.cells.items() if path == name or path.startswith(f"{name}/")}


def counter(row: Row, name: str, form: Callable[[str], T]) -> T | UnreadableValue | None:
    """Return a value, why it is unknown, or None where amd-smi has none: `N/A`, also in place of the whole section."""
    section = name.partition("/")[0]
    return None if section not in row.unreliable and is_absent(row.cells.get(section, "")) else row.counter(name, form)


def quantity(row: Row, name: str, form: Callable[[str], T], unit: str) -> T | UnreadableValue | None:
    """Return a quantity in its unit, in each of its forms; None where it is N/A. UnreadableValue in another unit."""
    inside = f"{name}/value"
    if inside not in row.cells:
        return counter(row, name, lambda cell: form(_without(cell, unit)))
    return row.counter(inside, form) if row.cells.get(f"{name}/unit", unit) in (unit, "N/A") else row.unread(f"{name}/unit")


def _without(cell: str, unit: str) -> str:
    """Return a cell without its unit.

    >>> _without("32 GT/s", "GT/s"), _without("32", "GT/s")
    ('32', '32')
    """
    return cell.strip()[: -len(unit)].strip() if unit and cell.strip().endswith(unit) else cell


_CARD: Final = re.compile(r"card(\d+)")
_OF_CARD: Final = {
    "Device ID": "asic/device_id",
    "GPU ID": "asic/device_id",
    "Device Name": "asic/market_name",
    "Card series": "asic/market_name",
    "Card Series": "asic/market_name",
    "PCI Bus": "bus/bdf",
    "VRAM Total Memory (B)": "vram/size",
}
"""Keys of rocm-smi in its releases, and the paths of these values in amd-smi's output. The first key that is printed counts.
`Card model` is left out: until ROCm 6.1 it is the number of the board."""


def _of_rocm_smi(text: str) -> str:
    """Return the JSON of rocm-smi in amd-smi's form, with its warnings; any other text as it is.

    >>> print(_of_rocm_smi('{"card2": {"GPU ID": "0x740f", "PCI Bus": "0000:C1:00.0"}}').replace("\\n", "").replace(" ", ""))
    {"gpu_data":[{"gpu":2,"asic":{"device_id":"0x740f"},"bus":{"bdf":"0000:C1:00.0"}}]}
    """
    start = re.search(r"^\{\s*\"(?:card\d+|system)\"", text, re.MULTILINE)
    if start is None:
        return text
    try:
        document, end = json.JSONDecoder().raw_decode(text, start.start())
    except ValueError:
        return text
    cards = [(int(found[1]), cells) for name, cells in document.items() if (found := _CARD.fullmatch(name))]
    printed = json.dumps({"gpu_data": [_card(number, cells) for number, cells in cards]}, indent=4)
    return f"{text[: start.start()]}{printed}{text[end:]}"


def _card(number: int, cells: Mapping[str, str]) -> dict[str, object]:
    """Return one GPU of rocm-smi in amd-smi's form. The driver has bound it: rocm-smi lists the GPUs of amdgpu alone."""
    gpu: dict[str, object] = {"gpu": number}
    for key, path in _OF_CARD.items():
        section, _, name = path.partition("/")
        value = str(cells.get(key, "")).strip()
        there = gpu.setdefault(section, {})
        if value and not is_absent(value) and isinstance(there, dict):
            there.setdefault(name, _mebibytes(value) if name == "size" else value)
    return {section: value for section, value in gpu.items() if value != {}}


def _mebibytes(value: str) -> object:
    return {"value": int(value) // 2**20, "unit": "MB"} if value.isdigit() else value


def _one_value_per_line(text: str) -> str:
    """Return JSON that has several values in a line, as programs that pass it on print it, in amd-smi's own form."""
    if '"gpu"' not in text or any(_GPU.match(line) for line in lines_of(text)):
        return text
    try:
        return "".join(f"{json.dumps(one, indent=4)}\n" for one in json_documents(text))
    except ValueError:
        return text


_UNKNOWN: Final = "GPU of unknown index"


@dataclass
class _Block:
    """The lines of one GPU: cells by path, paths that occur twice with different values, and the last path."""

    cells: dict[str, str] = field(default_factory=dict)
    unreliable: set[str] = field(default_factory=set)
    last: str | None = None

    def add(self, path: str, cell: str) -> None:
        """Add a cell."""
        if self.cells.setdefault(path, cell) != cell:
            self.unreliable.add(path)
        self.last = path

    def row(self, *, cut: bool) -> Row:
        """Return the cells as a row. `cut`: the output ends within the last one."""
        index = self.cells.get("gpu", "")
        subject = f"GPU {index}" if index.isdigit() and "gpu" not in self.unreliable else _UNKNOWN
        return Row(subject, self.cells, "", frozenset(self.unreliable), cut=self.last if cut else None)


def _blocks(lines: list[str]) -> tuple[list[_Block], list[str]]:
    """Return the GPUs, and the lines that are not JSON: warnings, errors, or damaged lines without a name."""
    depth = min((_depth(line) for line in lines if _GPU.match(line)), default=None)
    if depth is None:
        return [], lines
    blocks, others, above = [_Block()], list[str](), _Path()
    for line in lines:
        key, value = _parts(line)
        if value in _CLOSERS and key is None:
            above.close(_depth(line))
        elif key is None and not _is_json(value):
            others.append(line)
        elif _depth(line) < depth:  # the beginning of a GPU, or of a list of GPUs
            blocks, above = [*blocks, _Block()], _Path()
        else:
            if key == "gpu" and _depth(line) == depth and blocks[-1].cells.get("gpu", _scalar(value)) != _scalar(value):
                blocks, above = [*blocks, _Block()], _Path()
            path = above.at(_depth(line), key)
            if value in ("{", "["):
                above.open(_depth(line), path)
            else:
                blocks[-1].add(path, _scalar(value))
    return [block for block in blocks if block.cells and not _OTHER_DEVICES.intersection(block.cells)], others


class _Path:
    """The objects and lists that enclose a line, by its indentation. Entries of a list are named by their number."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._numbers: dict[str, int] = {}

    def at(self, indent: int, key: str | None) -> str:
        """Return the path of a value."""
        self._open = [(level, path) for level, path in self._open if level < indent]
        above = self._open[-1][1] if self._open else ""
        if key is None:
            self._numbers[above] = self._numbers.get(above, -1) + 1
            key = str(self._numbers[above])
        return f"{above}/{key}" if above else key

    def open(self, indent: int, path: str) -> None:
        """Begin an object or a list."""
        self._open.append((indent, path))

    def close(self, indent: int) -> None:
        """End the object or list that began with this indentation."""
        self._open = [(level, path) for level, path in self._open if level < indent]


def _parts(line: str) -> tuple[str | None, str]:
    """Return name and value of a line.

    >>> _parts('    "width": 16,'), _parts('  "N/A",'), _parts("},")
    (('width', '16'), (None, '"N/A"'), (None, '}'))
    """
    text = line.strip().removesuffix(",").rstrip()
    found = _NAMED.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_json(value: str) -> bool:
    """Return whether this is a value of JSON, or the beginning of an object or a list."""
    if value in ("{", "["):
        return True
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _scalar(value: str) -> str:
    """Return a value as text: a string without its quotes, all else as it is printed."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, str) else value


def _merged(rows: list[Row]) -> list[Row]:
    """Return one row per index: commands that print two tables list each GPU twice. Cells that differ are unreliable."""
    found: dict[str, Row] = {}
    for number, row in enumerate(rows):
        key = f"row {number}" if row.subject == _UNKNOWN else row.subject
        before = found.get(key)
        if before:
            differing = {name for name, cell in row.cells.items() if before.cells.get(name, cell) != cell}
            unreliable = before.unreliable | row.unreliable | differing
            row = replace(before, cells={**row.cells, **before.cells}, unreliable=unreliable, cut=row.cut)
        found[key] = row
    return list(found.values())


def _end(text: str, others: Collection[str]) -> UnreadableValue | None:
    """Return why the list may lack GPUs: the output does not end with the end of a list or of an object."""
    last = next((line for line in reversed(lines_of(text)) if line not in others), None)
    if last is None or (_depth(last) == 0 and last.strip() in _CLOSERS and not is_cut(text)):
        return None
    return UnreadableValue("the end of the list", None, last)
