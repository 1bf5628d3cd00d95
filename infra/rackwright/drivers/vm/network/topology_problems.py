"""Validation of topology.json: every problem at once, each with the place of the value. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

SCHEMA: Final = "rackwright.vm-network/1"
_MAX_PATH: Final = 107
"""Bytes of a UNIX socket's path, without the terminating zero (unix(7))."""
MIN_MTU: Final = 68
"""Bytes that every link of IPv4 must carry unfragmented (RFC 791, section 3.2)."""
MAX_MTU: Final = 65535
"""Bytes: the largest IP packet (RFC 791, section 3.1, total length)."""
_MAX_RATE: Final = 1e6
"""Mbit/s, 1 Tbit/s. Chosen: above every link in use, so that a value in bit/s or kbit/s is noticed."""
_MAX_DELAY: Final = 60_000.0
"""Milliseconds. Chosen: above each delay of a network on Earth; a value in microseconds is noticed."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_RESERVED: Final = "control"
"""The name whose socket the control connection uses."""

Check = tuple[Callable[[Any], bool], str]


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value)) and value != _RESERVED and len(f"{value}.sock".encode()) <= _MAX_PATH


def _is_unicast(value: Any) -> bool:
    return isinstance(value, str) and bool(_MAC.fullmatch(value)) and not int(value[:2], 16) & 1


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value and len(value.encode()) <= _MAX_PATH


_LINK: Final[Mapping[str, Check]] = {
    "up": (lambda value: isinstance(value, bool), "true or false"),
    "rate_mbps": (lambda value: value is None or (_is_number(value, 0, _MAX_RATE) and value > 0), "null or a number above 0, in Mbit/s"),
    "delay_ms": (lambda value: _is_number(value, 0, _MAX_DELAY), f"milliseconds from 0 to {_MAX_DELAY:.0f}"),
    "loss": (lambda value: _is_number(value, 0, 1), "a share from 0 to 1"),
}
LINK_FIELDS: Final = tuple(_LINK)
"""The properties that a fault can change."""
_TEXT: Final[Check] = (lambda value: isinstance(value, str), "the name of a switch")
_LINK_NAME: Final[Check] = (_is_name, f"letters, digits, dots and dashes, at most {_MAX_PATH - 5}, not {_RESERVED!r}")
_PORT: Final[Mapping[str, Check]] = {
    "name": _LINK_NAME,
    "switch": _TEXT,
    "mac": (_is_unicast, "a unicast MAC address like 52:54:00:00:00:01"),
    "peer": (_is_path, f"the path of a socket, at most {_MAX_PATH} bytes"),
}
_CABLE: Final[Mapping[str, Check]] = {"name": _LINK_NAME, "a": _TEXT, "b": _TEXT}
_SWITCH: Final[Mapping[str, Check]] = {
    "mtu": (lambda value: _is_number(value, MIN_MTU, MAX_MTU) and isinstance(value, int), f"whole bytes from {MIN_MTU} to {MAX_MTU}")
}
_TOP: Final = {"schema", "switches", "ports", "cables"}


def find_problems(data: object) -> list[str]:
    """Return what is wrong with the content of topology.json, empty if nothing is."""
    if not isinstance(data, dict):
        return ["expected an object"]
    if data.get("schema") != SCHEMA:
        return [f"schema: unknown value {data.get('schema')!r} (expected {SCHEMA})"]
    found = [f"{key}: unknown key" for key in sorted(map(str, set(data) - _TOP))]
    switches = data.get("switches")
    if not isinstance(switches, dict):
        found.append("switches: expected an object of switches by name")
        switches = {}
    for name, row in switches.items():
        if not _is_name(name):
            found.append(f"switches.{name}: invalid name (expected {_LINK_NAME[1]})")
        found += _row_problems(f"switches.{name}", row, _SWITCH, {})
    ports, cables = (list(_rows(data, kind, checks, found)) for kind, checks in (("ports", _PORT), ("cables", _CABLE)))
    return [*found, *_missing_switches(switches, ports, cables), *_duplicates(switches, ports, cables)]


def setting_problems(changes: Mapping[str, Any], *, switch: bool = False) -> list[str]:
    """Return what is wrong with changed properties of a link, or of a switch."""
    return _row_problems("", changes, {}, _SWITCH if switch else _LINK)


def _rows(data: Mapping[str, Any], kind: str, checks: Mapping[str, Check], found: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the row of each link that is an object; append problems."""
    rows = data.get(kind, [])
    if not isinstance(rows, list):
        found.append(f"{kind}: expected a list")
        return
    for number, row in enumerate(rows):
        place = f"{kind}[{number}]"
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            place = f"{kind}.{row['name']}"
        found += _row_problems(place, row, checks, _LINK)
        if isinstance(row, dict):
            yield place, row


def _row_problems(place: str, row: object, required: Mapping[str, Check], optional: Mapping[str, Check]) -> list[str]:
    if not isinstance(row, dict):
        return [f"{place}: expected an object"]
    start = f"{place}." if place else ""
    checks = {**required, **optional}
    found = [f"{start}{key}: missing" for key in required if key not in row]
    found += [f"{start}{key}: unknown key" for key in sorted(map(str, set(row) - set(checks)))]
    wrong = ((key, value) for key, value in row.items() if key in checks and not checks[key][0](value))
    return [*found, *(f"{start}{key}: invalid value {value!r} (expected {checks[key][1]})" for key, value in wrong)]


def _missing_switches(
    switches: Mapping[str, Any], ports: Iterable[tuple[str, dict[str, Any]]], cables: Iterable[tuple[str, dict[str, Any]]]
) -> Iterator[str]:
    ends = [(f"{place}.switch", row.get("switch")) for place, row in ports]
    ends += [(f"{place}.{end}", row.get(end)) for place, row in cables for end in ("a", "b")]
    for place, name in ends:
        if isinstance(name, str) and name not in switches:
            yield f"{place}: no switch {name!r} (declared: {', '.join(sorted(map(str, switches))) or 'none'})"
    for place, row in cables:
        if isinstance(row.get("a"), str) and row["a"] == row.get("b"):
            yield f"{place}: both ends are on {row['a']}"


def _duplicates(
    switches: Iterable[str], ports: Iterable[tuple[str, dict[str, Any]]], cables: Iterable[tuple[str, dict[str, Any]]]
) -> Iterator[str]:
    """Yield values that two entries have. Names are unique over switches, ports and cables, because a fault addresses any of them."""
    ports = list(ports)
    names = [*map(str, switches), *(str(row.get("name")) for _, row in [*ports, *cables] if "name" in row)]
    macs = [row["mac"].lower() for _, row in ports if isinstance(row.get("mac"), str)]
    peers = [row["peer"] for _, row in ports if isinstance(row.get("peer"), str)]
    for kind, values in (("name", names), ("MAC address", macs), ("peer", peers)):
        for value, times in Counter(values).items():
            if times > 1:
                yield f"{kind} {value}: used {times} times (expected once)"
