"""A list of machines as CSV, from a vendor, an asset register or a spreadsheet. All errors are reported at once."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from pydantic import ValidationError

from rackwright.model import host_keys
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity, did_you_mean
from rackwright.model.groups import MAX_NODES, node_names_of
from rackwright.model.targets.hosts import HostsTarget, Machine
from rackwright.stackfile.field_errors import explain

COLUMNS: Final = ("name", "address", "ssh_address", "port", "user", "host_key", "serial", "rack", "os", "label")
_OTHER_WORDS: Final = {"fingerprint": "host_key", "ip": "address", "hostname": "name"}
_NEEDED: Final = ("name", "address")
_OF_ONE: Final = ("ssh_address", "host_key", "serial", "label")
_RANGE: Final = re.compile(r"(?P<stem>[^\[\]]+)\[(?P<first>[0-9]+)-(?P<last>[0-9]+)\]")

Fields = dict[str, str | int]


@dataclass(frozen=True)
class Row:
    """One machine of the list."""

    line: int
    name: str
    fields: Fields


def read(text: str, file: str) -> tuple[list[Row], list[Finding]]:
    """Return the machines of a list and its findings, whose paths start with `file` and the line number."""
    lines = text.removeprefix("\ufeff").splitlines()
    head = lines[0] if lines else ""
    table = csv.reader(lines, delimiter=max(",;\t", key=head.count))
    columns = [_OTHER_WORDS.get(word.strip().lower(), word.strip().lower()) for word in _filled(next(table, []))]
    if wrong := list(_wrong_columns(columns, file)):
        return [], wrong
    rows: list[Row] = []
    findings: list[Finding] = []
    for cells in table:
        if any(cell.strip() for cell in cells):
            found, wrong = _machines(table.line_num, columns, _filled(cells), file)
            rows += found
            findings += wrong
    return rows, [*findings, *_duplicates(rows, file)]


def _filled(cells: Sequence[str]) -> list[str]:
    """Return the cells without the empty ones at the end, which spreadsheets write for each column that was ever used."""
    count = max((number for number, cell in enumerate(cells, 1) if cell.strip()), default=0)
    return list(cells[:count])


def _wrong_columns(columns: Sequence[str], file: str) -> Iterator[Finding]:
    for name in dict.fromkeys(columns):
        if name not in COLUMNS:
            yield _finding("csv-column", f"{file}:1", f"unknown column `{name}`", did_you_mean(name, COLUMNS))
        elif columns.count(name) > 1:
            yield _finding(
                "csv-column", f"{file}:1", f"duplicate column `{name}`", "remove one of them; fingerprint is an alias of host_key"
            )
    for name in _NEEDED:
        if name not in columns:
            yield _finding(
                "csv-column", f"{file}:1", f"column `{name}` is missing", f"name the columns in the first line: {', '.join(COLUMNS)}"
            )


def _machines(line: int, columns: Sequence[str], cells: Sequence[str], file: str) -> tuple[list[Row], list[Finding]]:
    """Return the machines of one line: one, or all machines of a range."""
    where = f"{file}:{line}"
    if len(cells) > len(columns):
        return [], [_finding("csv-row", where, f"expected {len(columns)} cells, found {len(cells)}", "quote cells that contain a comma")]
    given = {column: cell.strip() for column, cell in zip(columns, cells, strict=False) if cell.strip()}
    missing = [_finding("csv-row", f"{where}: {name}", "is missing", "add a value") for name in _NEEDED if name not in given]
    if missing:
        return [], missing
    name = given.pop("name")
    fields, wrong = _fields(given, where)
    if wrong or not _RANGE.fullmatch(name):
        return [Row(line, name, fields)], wrong
    return _expanded(line, name, fields, where)


def _fields(given: Mapping[str, str], where: str) -> tuple[Fields, list[Finding]]:
    """Return the cells as a machine's fields, validated like those of a stack file."""
    fields: Fields = {name: int(value) if name == "port" and value.isdecimal() else value for name, value in given.items()}
    if "host_key" in fields:
        fields["host_key"] = host_keys.parse(str(fields["host_key"])).value or fields["host_key"]
    try:
        Machine.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        found = [problem.finding for problem in explain(error, Machine)]
        return fields, [_finding(one.rule, f"{where}: {one.path}", one.cause, one.hint) for one in found]
    return fields, []


def _expanded(line: int, name: str, fields: Fields, where: str) -> tuple[list[Row], list[Finding]]:
    """Expand node[001-064] with its first address to 64 machines."""
    found = _RANGE.fullmatch(name)
    assert found is not None
    first, last, width = int(found["first"]), int(found["last"]), len(found["first"])
    own = [
        _finding("csv-range", f"{where}: {key}", "cannot be the same for several machines", "write one line for each machine")
        for key in _OF_ONE
        if key in fields
    ]
    if not 0 <= last - first < MAX_NODES:
        own.append(
            _finding(
                "csv-range",
                f"{where}: name",
                f"`{name}` is not a range",
                "write the first and the last number in ascending order, like node[001-064]",
            )
        )
    if own:
        return [], own
    try:
        start = IPv4Address(str(fields["address"]))
        addresses = [str(start + offset) for offset in range(last - first + 1)]
    except AddressValueError:
        return [], [
            _finding(
                "csv-range",
                f"{where}: address",
                "the addresses of the range exceed 255.255.255.255",
                "check the address, which is the first machine's",
            )
        ]
    return [
        Row(line, f"{found['stem']}{first + offset:0{width}}", {**fields, "address": address}) for offset, address in enumerate(addresses)
    ], []


def _duplicates(rows: Sequence[Row], file: str) -> Iterator[Finding]:
    for what, values in (("name", [row.name for row in rows]), ("address", [row.fields.get("address") for row in rows])):
        first: dict[object, int] = {}
        for row, value in zip(rows, values, strict=True):
            before = first.setdefault(value, row.line)
            if before != row.line and value is not None:
                yield _finding(
                    "csv-twice",
                    f"{file}:{row.line}: {what}",
                    f"duplicate {value}, also in line {before}",
                    f"use another {what} for one of the machines",
                )


def as_nodes(rows: Sequence[Row], cluster: Cluster, group: str | None, file: str) -> tuple[dict[str, Fields], list[Finding]]:
    """Return the fields by node name, and findings. With a group, unknown names are assigned to its nodes in order and become labels."""
    nodes = [node for name, one in cluster.groups.items() if group in (None, name) for node in node_names_of(name, one)]
    node_of = _known(rows, cluster, nodes, by_address=group is not None)
    taken = {*node_of.values(), *_occupied(cluster)}
    free = (node for node in nodes if node not in taken)
    found: dict[str, Fields] = {}
    findings = []
    for row in rows:
        node = node_of.get(row.name) or (next(free, None) if group is not None else None)
        if node is not None:
            found[node] = row.fields if node == row.name else {**row.fields, "label": row.name}
        else:
            findings.append(_unassigned(row, group, nodes, file))
    return found, findings


def _known(rows: Sequence[Row], cluster: Cluster, nodes: Sequence[str], *, by_address: bool) -> dict[str, str]:
    """Return the nodes of machines that have one already, so that a removed line reassigns no other machine.

    A machine is matched by its name, then by its label, then by its address.
    """
    there = {name: machine for name, machine in _occupied(cluster).items() if name in set(nodes)}
    labels = {machine.label: name for name, machine in there.items() if machine.label}
    labels |= {name: name for name in nodes}
    node_of = {row.name: labels[row.name] for row in rows if row.name in labels}
    addresses = {str(machine.address): name for name, machine in there.items() if name not in node_of.values()}
    for row in rows if by_address else ():
        if row.name not in node_of and row.fields["address"] in addresses:
            node_of[row.name] = addresses[str(row.fields["address"])]
    return node_of


def _occupied(cluster: Cluster) -> dict[str, Machine]:
    """Return the nodes that have a machine with an address."""
    machines = cluster.target.machine_by_node if isinstance(cluster.target, HostsTarget) else {}
    return {name: machine for name, machine in machines.items() if machine.address is not None}


def _unassigned(row: Row, group: str | None, nodes: Sequence[str], file: str) -> Finding:
    where = f"{file}:{row.line}: name"
    if group is not None:
        hint = f"increase groups.{group}.count, or remove the line"
        return _finding("csv-name", where, f"no free node for {row.name}: all {len(nodes)} nodes of group {group} have a machine", hint)
    hint = f"pass `--group GROUP` to assign the machines to a group's nodes in order; {did_you_mean(row.name, nodes)}"
    return _finding("csv-name", where, f"no group declares a node {row.name}", hint)


def _finding(rule: str, path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, rule, path, cause, hint)
