"""Parser of nvidia-smi's CSV and long form, row by row, with the GPUs that do not respond. No other module parses these outputs.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from rackwright.checks.cluster.harness.tool_output import Row, UnreadableValue, is_absent, is_cut, lines_of, quoted

T = TypeVar("T")
NONE_FOUND: Final = "No devices were found"
ENDS: Final = frozenset({0, 6, 8, 9, 10, 12, 14, 15, 18, 255})
"""Exit statuses with which nvidia-smi may have listed GPUs or reported why it cannot: 6 no device, 8 power cable, 9 driver not loaded,
10 interrupt, 12 no NVML library, 14 infoROM, 15 a GPU fell off the bus, 18 driver and library differ, 255 other (nvidia-smi(1), RETURN
VALUE; nvml.h, nvmlReturn_t)."""
_HANDLE: Final = re.compile(r"unable to (?:determine|detect) the device handle for\s+(?:gpu)?\s*(.*)$", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?", re.IGNORECASE)
_IS_LOST: Final = re.compile(r"\[?gpu is lost", re.IGNORECASE)
_NO_DRIVER: Final = re.compile(
    r"failed to initialize nvml: (?!insufficient perm)|couldn't (communicate with the nvidia driver|find libnvidia-ml)"
    r"|gpu access blocked by the operating system",
    re.IGNORECASE,
)
"""Messages with which nvidia-smi reports that no program can use a GPU of this node."""
_INFOROM: Final = re.compile(r"infoROM is corrupted(?: at gpu)?\s*(.*)$", re.IGNORECASE)
_RENAMED: Final = {
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "kmd_version": "driver_version",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
}
"""Fields by their other names: before driver 535, and those that replace fields which driver 610 calls deprecated (--help-query-gpu)."""
_NEEDS_RESET: Final = re.compile(r"\[?gpu requires reset", re.IGNORECASE)


@dataclass(frozen=True)
class GpuList(Generic[T]):
    """GPUs of an output of nvidia-smi: those with a row, those that do not respond, and lines that are neither."""

    gpus: tuple[T, ...] = ()
    lost: tuple[str, ...] = ()
    """Location of each GPU that does not respond: its PCI address, or `GPU 2` where the driver prints no address."""
    others: tuple[str, ...] = field(default=(), compare=False)
    """Lines that are not rows: warnings of the driver, or damaged rows."""
    unsure: tuple[UnreadableValue, ...] = ()
    """Indices of rows that were not read, so that another row may be a duplicate."""
    cut: UnreadableValue | None = None
    """Set if the output ends without a line end, so that rows may be missing."""
    failure: str = ""
    """The line in which nvidia-smi reports that it cannot use the driver."""
    corrupted: tuple[str, ...] = ()
    """Location of each GPU whose infoROM is corrupted."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.gpus)

    def __len__(self) -> int:
        return len(self.gpus)

    def __getitem__(self, position: int) -> T:
        return self.gpus[position]

    def responding(self, planned: int) -> object:
        """Return the number of GPUs that respond, with the addresses of those that do not."""
        count = len(self.gpus)
        if not self.lost and not self.failure:
            doubt = self.cut if count < planned else next(iter(self.unsure), None)
            return count if doubt is None else doubt
        verb = "does not" if len(self.lost) == 1 else "do not"
        if self.failure and not count:
            return f'no GPU listed; "{quoted(self.failure)}"'
        if not count:
            return f"no GPU listed; {', '.join(self.lost)} {verb} respond"
        return f"{count} of {max(planned, count + len(self.lost))} GPUs respond; {', '.join(self.lost)} {verb}"


def read_table(text: str, fields: Sequence[str], make: Callable[[Row], T]) -> GpuList[T]:
    """Return the GPUs of `--query-gpu=… --format=csv`, with titles or without, in the order in which they are listed.

    Without titles, the cells are those of `fields`, in their order. Raise ValueError where no line describes a GPU.
    """
    rows, lost, others = _rows(text, fields)
    kept, unresponsive = [], list(lost)
    for row in _uneven(_merged(rows), "name"):
        if _is_lost(row):
            unresponsive.append(_where(row))
        else:
            kept.append(row)
    failure = next((line for line in others if _NO_DRIVER.search(line)), "")
    if not kept and not unresponsive and not failure and not any(NONE_FOUND.lower() in line.lower() for line in others):
        raise ValueError(f'no GPU is listed: "{quoted(others[0])}"' if others else "no GPU is listed")
    unsure = tuple(row.unread("index") for row in kept if not row.cells.get("index", "").isdigit())
    made, dead = tuple(make(row) for row in kept), tuple(dict.fromkeys(unresponsive))
    return GpuList(made, dead, tuple(others), unsure, _end(text), failure, _corrupted(others))


def query(fields: Sequence[str], *, titles: bool = False) -> str:
    """Return the shell command that lists fields of all GPUs, with or without a line of titles.

    A driver that does not know a field rejects all of them with status 2 and names it. The command then continues without that field, or
    with its other name, and lists the titles.
    """
    first = f"nvidia-smi --query-gpu={','.join(fields)} --format=csv,{'' if titles else 'noheader,'}nounits 2>&1"
    rejected = "sed -n 's/.*Field \"\\([a-z0-9_.]*\\)\" is not a valid field.*/\\1/p' | head -n 1"
    other = "".join(f"{name}) n={alias};; " for alias, name in _RENAMED.items())
    again = "nvidia-smi --query-gpu=$f --format=csv,nounits 2>&1"
    return (
        f"{first}; s=$?; [ $s = 2 ] || exit $s; f={','.join(fields)}; while :; do o=$({again}); s=$?; [ $s = 2 ] || break; "
        f'b=$(echo "$o" | {rejected}); [ -n "$b" ] || break; case $b in {other}*) n=;; esac; '
        'g=$(echo "$f" | tr , "\\n" | sed "s/^$b\\$/$n/" | sed "/^\\$/d" | paste -s -d , -); [ "$g" != "$f" ] || break; f=$g; done; '
        'echo "$o"; exit $s'
    )


def _corrupted(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the location of each GPU whose infoROM is corrupted, according to warnings."""
    found = [match[1] for line in lines if (match := _INFOROM.search(line))]
    return tuple(dict.fromkeys(address[0].lower() if (address := _ADDRESS.search(text)) else "unknown" for text in found))


def _end(text: str) -> UnreadableValue | None:
    return UnreadableValue("the end of the list", None, lines_of(text)[-1]) if is_cut(text) else None


def _is_lost(row: Row) -> bool:
    """Return whether the driver reports that a GPU is lost, in place of a value."""
    return any(_IS_LOST.match(cell) for cell in row.cells.values())


def needs_reset(row: Row) -> bool:
    """Return whether the driver reports that a GPU requires a reset, in place of a value."""
    return any(_NEEDS_RESET.match(cell) for cell in row.cells.values())


def lost_gpu(line: str) -> str | None:
    """Return the location of a GPU that does not respond according to a line; None for any other line.

    >>> lost_gpu("Unable to determine the device handle for GPU0000:25:00.0: Unknown Error")
    '0000:25:00.0'
    >>> lost_gpu("Unable to determine the device handle for GPU2: Unknown Error")
    'GPU 2'
    """
    found = _HANDLE.search(line)
    if not found:
        return None
    address = _ADDRESS.search(found[1])
    number = re.match(r"(\d{1,3})(?::|\s|$)", found[1])
    return address[0].lower() if address else f"GPU {number[1]}" if number else "a GPU that is not named"


def _rows(text: str, fields: Sequence[str]) -> tuple[list[Row], list[str], list[str]]:
    """Return rows, GPUs that do not respond, and other lines."""
    names, rows, lost, others = list(fields), list[Row](), list[str](), list[str]()
    lines = lines_of(text)
    for number, line in enumerate(lines):
        cells = _cells(line, len(names))
        location = lost_gpu(line)
        if location:
            lost.append(location)
        elif cells[0].split(" ")[0] == "index" or (len(cells) > 1 and "index" in cells):
            titles = [re.sub(r"\s*\[.*\]$", "", cell) for cell in cells]
            names = [_RENAMED.get(title, title) for title in titles]
        elif cells[0].isdigit() or len(cells) >= max(3, len(names) - 1):
            rows.append(_row(line, cells, names, cut=is_cut(text) and number == len(lines) - 1))
        else:
            others.append(line)
    return rows, lost, others


def _cells(line: str, expected: int) -> list[str]:
    """Return the cells of a line. nvidia-smi prints a blank after each comma. A comma without one may belong to a localised number."""
    plain = [cell.strip() for cell in line.split(",")]
    spaced = [cell.strip() for cell in re.split(r",(?:\s+|$)", line.strip("\r\n"))]
    return plain if len(plain) == expected or len(spaced) == 1 else spaced


def _row(line: str, cells: list[str], names: Sequence[str], *, cut: bool) -> Row:
    plain = (re.sub(r"(?<=\d) (MiB|MHz|W|%)$", "", cell) for cell in cells)  # some releases print units all the same
    found = dict(zip(names, plain))  # noqa: B905 - a row may have fewer cells than names, or more
    index = found.get("index", "")
    subject = f"GPU {index}" if index.isdigit() else "GPU of unknown index"
    last = names[min(len(cells), len(names)) - 1]
    return Row(subject, found, line, cut=last if cut else None)


def _merged(rows: list[Row]) -> list[Row]:
    """Return one row per index. Cells that differ between two rows of one index are unreliable."""
    found: dict[str, Row] = {}
    for number, row in enumerate(rows):
        index = row.cells.get("index", "")
        key = index if index.isdigit() else f"row {number}"
        before = found.get(key)
        if before:
            names = {*before.cells, *row.cells}
            differing = {name for name in names if before.cells.get(name) != row.cells.get(name)}
            row = replace(before, unreliable=before.unreliable | differing)
        found[key] = row
    return list(found.values())


def _uneven(rows: list[Row], model: str) -> list[Row]:
    """Return the rows. A cell that one GPU lacks and another GPU of the same model has is marked as unreliable."""
    have: dict[str, set[str]] = {}
    for row in rows:
        have.setdefault(row.cells.get(model, ""), set()).update(name for name, cell in row.cells.items() if not is_absent(cell))
    return [
        replace(row, unreliable=row.unreliable | {name for name in have[row.cells.get(model, "")] if is_absent(row.cells.get(name, ""))})
        for row in rows
    ]


def _where(row: Row) -> str:
    bus = row.cells.get("pci.bus_id", "")
    return bus.lower() if _ADDRESS.fullmatch(bus) else row.subject


def read_long(text: str, make: Callable[[Row], T]) -> GpuList[T]:
    """Return the GPUs of `nvidia-smi -q`. Cells are named by their path, as in `Fabric/Health/Summary`.

    Raise ValueError where no line describes a GPU.
    """
    blocks, lost, others = list[tuple[str, list[str]]](), list[str](), list[str]()
    for line in lines_of(text):
        title = re.match(rf"GPU\s+({_ADDRESS.pattern})\s*$", line, re.IGNORECASE)
        location = lost_gpu(line)
        if location:
            lost.append(location)
        elif title:
            blocks.append((title[1].lower(), []))
        elif blocks and line.startswith(" "):
            blocks[-1][1].append(line)
        else:
            others.append(line)
    if not blocks and not lost:
        raise ValueError(f'no GPU is described: "{quoted(others[0])}"' if others else "no GPU is described")
    described = [_block(address, lines, cut=is_cut(text) and number == len(blocks) - 1) for number, (address, lines) in enumerate(blocks)]
    lost += [row.subject.removeprefix("GPU ") for row in described if _is_lost(row)]
    rows = [row for row in described if not _is_lost(row)]
    unsure = [row.unread("block") for number, row in enumerate(rows) if row.subject in [one.subject for one in rows[:number]]]
    attached = [line for line in others if line.startswith("Attached GPUs")]
    named = {address for address, _ in blocks} | set(lost)
    if attached and attached[0].rpartition(":")[2].strip() not in (str(len(blocks)), str(len(named))):
        unsure.append(UnreadableValue("the number of GPUs described", str(len(blocks)), attached[0]))
    made = tuple(make(row) for row in _uneven(rows, "Product Name"))
    return GpuList(made, tuple(dict.fromkeys(lost)), tuple(others), tuple(unsure), _end(text))


def _block(address: str, lines: list[str], *, cut: bool) -> Row:
    """Return the cells of one GPU by path. A path that occurs twice with different values is unreliable."""
    cells, unreliable, above, last = dict[str, str](), set[str](), list[tuple[int, str]](), None
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        above = [(level, name) for level, name in above if level < depth]
        name, colon, value = (part.strip() for part in line.partition(" : "))
        path = "/".join([*(name for _, name in above), name])
        if not colon:
            above.append((depth, name))
        elif cells.setdefault(path, value) != value:
            unreliable.add(path)
        last = path
    return Row(f"GPU {address}", cells, "", frozenset(unreliable), cut=last if cut else None)


HEALTHY: Final[Mapping[str, frozenset[str]]] = {
    "Summary": frozenset({"healthy"}),
    "Bandwidth": frozenset({"full"}),
    "Route Recovery in progress": frozenset({"false", "no"}),
    "Route Unhealthy": frozenset({"false", "no"}),
    "Access Timeout Recovery": frozenset({"false", "no"}),
    "Incorrect Configuration": frozenset({"none", "false", "no"}),
}
"""Words for a healthy fabric, by row of the section Fabric/Health of `nvidia-smi -q` (nvml.h, NVML_GPU_FABRIC_HEALTH…).
`Partition Assigned` is left out: both of its words are healthy."""


def unhealthy(row: Row, section: str = "Fabric/Health") -> dict[str, str | UnreadableValue]:
    """Return the unhealthy rows of a section by name. A driver without such rows reports none.

    A row that the driver could not read is `UnreadableValue`.
    """
    found: dict[str, str | UnreadableValue] = {}
    for path, cell in row.cells.items():
        name = path.rpartition("/")[2]
        if path.rpartition("/")[0] != section or name == "Partition Assigned" or (is_absent(cell) and path not in row.unreliable):
            continue
        value = row.read(path, _words_of_health)
        if isinstance(value, UnreadableValue) or value.lower() not in HEALTHY.get(name, ("none", "false", "no", "healthy", "full")):
            found[name] = value
    return found


def _words_of_health(cell: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z ,/_-]*", cell) or "error" in cell.lower():
        raise ValueError(cell)
    return cell
