#!/usr/bin/python3
"""Cables, error counters and subnet manager of an InfiniBand fabric, as infiniband-diags reports them, against the planned cables."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from rackwright_metrics import CollectError, Samples, output_of, run

End = tuple[str, str]
"""Device, as `worker0/mlx5_3` or `leaf-su1-r3`, and port."""
COUNTERS = {
    "SymbolErrorCounter": ("infiniband_port_symbol_error_total", "Symbol errors of a port"),
    "LinkDownedCounter": ("infiniband_port_link_downed_total", "Times that the link of a port went down"),
    "LinkErrorRecoveryCounter": ("infiniband_port_link_error_recovery_total", "Recoveries of the link of a port"),
    "PortRcvErrors": ("infiniband_port_receive_errors_total", "Packets with an error that a port received"),
}
LINK = re.compile(
    r"^(?:CA|SW|RT)\s+\d+\s+(\d+)\s+0x[0-9a-f]+\s+\S+\s+\S+\s+-\s+(?:CA|SW|RT)\s+\d+\s+(\d+)\s+0x[0-9a-f]+\s+\( '(.*)' - '(.*)' \)\s*$"
)
"""A link of `ibnetdiscover -p`: ports and names of both ends."""
CHIP = re.compile(r"^\s*(?:MF0|SM0|JM0|FR0);([^:]+):[^/]*(?:/(\S+))?\s*$")
"""Description of a chip of a managed switch: `MF0;leaf:MQM9700/U1`; of several chips with one host name `/U2` or `/L17/U2`."""


def device(described: str) -> str:
    """Return the plan's name of a device from its node description. The name of a node may have a domain.

    >>> device("worker0 mlx5_3"), device("MF0;leaf-su1-r0:MQM8700/U1"), device("leaf-su1-r3"), device("worker0.example mlx5_3")
    ('worker0/mlx5_3', 'leaf-su1-r0', 'leaf-su1-r3', 'worker0/mlx5_3')
    """
    if managed := CHIP.match(described):
        return managed[1]
    node, *adapter = described.split() or [""]
    return "/".join((node.partition(".")[0] if adapter else node, *adapter))


def names_of(descriptions: Iterable[str]) -> dict[str, str]:
    """Return names by description. Each chip of a switch with several chips has a name of its own, because all count ports from 1.

    >>> names_of(["MF0;core:CS8500/L01/U1", "MF0;core:CS8500/L01/U2", "MF0;leaf:MQM9700/U1"]).values()
    dict_values(['core/L01/U1', 'core/L01/U2', 'leaf'])
    """
    chips = {described: found for described in descriptions if (found := CHIP.match(described))}
    several = {found[1] for found in chips.values() if found[2] not in (None, "U1")}
    own = {described: f"{found[1]}/{found[2] or 'U1'}" for described, found in chips.items() if found[1] in several}
    return {described: own.get(described) or device(described) for described in descriptions}


def links(text: str) -> set[frozenset[End]]:
    """Return the links that are up. Raise CollectError where no line is one of a link or a free port."""
    rows = [row for line in text.splitlines() if (row := LINK.match(line))]
    names = names_of([described for row in rows for described in (row[3], row[4])])
    found = {frozenset({(names[row[3]], row[1]), (names[row[4]], row[2])}) for row in rows}
    if not found and not re.search(r"^(?:CA|SW|RT)\s+\d+\s+\d+\s+0x", text, re.MULTILINE):
        raise CollectError("ibnetdiscover lists no port")
    return found


def planned_cables(rows: Iterable[str]) -> list[tuple[End, End]]:
    """Return both ends of the planned cables, `worker0/mlx5_3:1 leaf-su1-r3:1`."""
    return [tuple(tuple(end.rsplit(":", 1)) for end in row.split()) for row in rows]  # type: ignore[misc]


def counters(text: str) -> dict[End, dict[str, int]]:
    """Return the counters that ibqueryerrors lists, by port; the line of all ports of a switch is a sum and left out."""
    if "## Summary" not in text:
        raise CollectError("ibqueryerrors printed no summary")
    found: dict[End, dict[str, int]] = {}
    names, name = names_of(re.findall(r'^Errors for (?:0x[0-9a-f]+ )?"(.*)"', text, re.MULTILINE)), ""
    for line in text.splitlines():
        if head := re.match(r'^Errors for (?:0x[0-9a-f]+ )?"(.*)"', line):
            name = names[head[1]]
        elif row := re.match(r"^\s+GUID 0x[0-9a-f]+ port (\d+): *(.*)$", line):
            found[name, row[1]] = {key: int(count) for key, count in re.findall(r"\[(\w+) == (\d+)", row[2]) if key in COUNTERS}
    return found


def is_managed(text: str) -> bool:
    """Return whether sminfo found a subnet manager that is the master."""
    return "SMINFO_MASTER" in text


def add_cables(planned: list[tuple[End, End]], live: set[frozenset[End]], samples: Samples) -> None:
    """A cable that is not there has no row: it is written as 0. Names that none of the plan matches are no missing cables.

    A cable whose one end is linked to a device of another name, while no device has the planned name, is left out: it may be that device.
    """
    seen = {end[0] for link in live for end in link}
    devices = {end[0] for cable in planned for end in cable}
    matched = {"/" in name for name in devices & seen} == {"/" in name for name in devices}
    samples.describe("rackwright_fabric_names_match_plan", "Whether adapters and switches have names of the plan")
    samples.set("rackwright_fabric_names_match_plan", matched)
    samples.describe("rackwright_fabric_cable_up", "Whether a planned cable has a link")
    samples.describe("rackwright_fabric_cables_unplanned", "Links between devices of the plan that the plan does not have")
    if not matched:
        return
    far = {end: other for link in live if len(link) == 2 for end, other in (tuple(link), tuple(link)[::-1])}
    for a, b in planned:
        unnamed = any(near in far and far[near][0] not in devices and other[0] not in seen for near, other in ((a, b), (b, a)))
        if not unnamed:
            samples.set("rackwright_fabric_cable_up", frozenset({a, b}) in live, a=a[0], a_port=a[1], b=b[0], b_port=b[1])
    others = live - {frozenset(cable) for cable in planned}
    samples.set("rackwright_fabric_cables_unplanned", sum(all(end[0] in devices for end in link) for link in others))


def add_counters(planned: list[tuple[End, End]], found: Mapping[End, Mapping[str, int]], samples: Samples) -> None:
    """Ports without errors are not listed: they have 0."""
    for key, (metric, described) in COUNTERS.items():
        samples.describe(metric, described)
        for name, port in sorted({end for cable in planned for end in cable} | set(found)):
            samples.set(metric, found.get((name, port), {}).get(key, 0), device=name, port=port)


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """Without a subnet manager, only its absence is written: everything else is a reading of an unconfigured subnet."""
    planned = planned_cables(configuration["fabric"]["cables"])
    managed = is_managed(output_of(["sminfo"], statuses=(0, 1, 255)))
    samples.describe("rackwright_fabric_subnet_manager_up", "Whether a subnet manager is the master")
    samples.set("rackwright_fabric_subnet_manager_up", managed)
    if not managed:
        return
    add_cables(planned, links(output_of(["ibnetdiscover", "-p"])), samples)
    with tempfile.NamedTemporaryFile("w", suffix=".thresholds") as thresholds:
        # Without it, small counts are hidden (infiniband-diags, error_thresholds).
        thresholds.write("".join(f"{counter}=0\n" for counter in COUNTERS))
        thresholds.flush()
        add_counters(planned, counters(output_of(["ibqueryerrors", "--threshold-file", thresholds.name], statuses=(0, 1))), samples)


if __name__ == "__main__":
    sys.exit(run("fabric", collect))
