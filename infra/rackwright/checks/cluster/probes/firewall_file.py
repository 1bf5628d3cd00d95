"""Comparison of the loaded packet filter with its file, in the tables that the file defines.

The node loads the file into a temporary network namespace, so that the same nft prints both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rackwright.checks.cluster.harness.probe import Probe

Item = tuple[str, Mapping[str, Any]]
"""Kind and content of an object of `nft --json list ruleset`: libnftables-json(5)."""


class Table(NamedTuple):
    """Family and name of a table."""

    family: str
    name: str


NO_FILE: Final = "no file"
_COUNTED: Final = frozenset({"handle", "index", "packets", "bytes", "used", "expires"})
"""Keys of values that the kernel assigns or counts: libnftables-json(5)."""


@dataclass(frozen=True)
class Comparison:
    """The loaded filter compared with its file."""

    declared: bool
    """Whether the file is there and defines a table."""
    differences: tuple[str, ...]
    """Rules and objects that only one side has, in the tables that the file defines."""


def parse_comparison(text: str) -> Comparison:
    """Return the comparison of two lines of `nft --json list ruleset`: loaded, and of the file; `no file` in place of the second."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("{") or line.strip() == NO_FILE]  # others are warnings
    if len(lines) != 2:
        raise ValueError(f"expected two rulesets, found {len(lines)} lines")
    loaded = items_of(lines[0])
    file = [] if lines[1] == NO_FILE else items_of(lines[1])
    own = {Table(body["family"], body["name"]) for kind, body in file if kind == "table"}
    return Comparison(bool(own), tuple(differences(loaded, file, own)))


def items_of(text: str) -> list[Item]:
    """Return the objects of `nft --json list ruleset`, without the metadata of nft."""
    items = [next(iter(item.items())) for item in json.loads(text)["nftables"] if item]
    if not any(kind == "metainfo" for kind, _ in items):
        raise ValueError("no ruleset")
    return [(kind, body) for kind, body in items if kind != "metainfo"]


def differences(loaded: Sequence[Item], file: Sequence[Item], own: Iterable[Table]) -> Iterator[str]:
    """Yield the differences in the tables of the file: `+` for an object that only the node has, `-` for one that only the file has."""
    for table in sorted(own):
        now, then = _objects(loaded, table), _objects(file, table)
        if not now:
            yield f"{table.family} {table.name}: not loaded"
            continue
        for name in sorted({*now, *then}):
            has, should = now.get(name, []), then.get(name, [])
            where = f"{table.family} {table.name} {name}"
            yield from (f"{where}: + {line}" for line in _without(has, should))
            yield from (f"{where}: - {line}" for line in _without(should, has))
            if has != should and sorted(has) == sorted(should):
                yield f"{where}: the same rules in another order"


def _without(lines: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Yield the lines that the others lack, as often as they lack them."""
    left = list(others)
    for line in lines:
        if line in left:
            left.remove(line)
        else:
            yield line


def _objects(items: Iterable[Item], table: Table) -> dict[str, list[str]]:
    """Return the objects of a table: `chain input` with its rules in order, all others with their content in one line."""
    found: dict[str, list[str]] = {}
    for kind, body in items:
        if kind == "table" and table == (body["family"], body["name"]):
            found.setdefault("table", [_plain({"flags": body.get("flags", [])})])
        elif table == (body["family"], body.get("table")):
            if kind == "rule":
                found.setdefault(f"chain {body['chain']}", []).append(words_of(body.get("expr") or ()))
            else:
                found.setdefault(f"{kind} {body['name']}", []).append(_head(body))
    return found


def _head(body: Mapping[str, Any]) -> str:
    """Return the head of an object. Elements that packets or programs add (flags dynamic and timeout: nft(8), SETS) are left out."""
    added = {"dynamic", "timeout"} & set(body.get("flags", ()))
    kept = {key: value for key, value in body.items() if key not in ("family", "table", "name") and not (added and key == "elem")}
    return _plain(kept)


def words_of(statements: Iterable[Any]) -> str:
    """Return a rule in nft's notation. A statement without a known notation is printed as JSON, a text of nft as it is.

    >>> words_of([{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}, {"drop": None}])
    'tcp dport 22 drop'
    """
    return " ".join(_words(*next(iter(one.items()))) if isinstance(one, Mapping) and one else str(one) for one in statements)


def _words(kind: str, value: Any) -> str:
    if kind == "match":
        operator = "" if value["op"] in ("==", "in") else f"{value['op']} "
        return f"{_side(value['left'])} {operator}{_side(value['right'])}"
    if kind in ("jump", "goto"):
        return f"{kind} {value['target']}"
    if kind == "counter":
        return kind
    return kind if value is None else f"{kind} {_plain(value)}"


def _side(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        kind, about = next(iter(value.items()))
        if kind == "payload" and "protocol" in about:
            return f"{about['protocol']} {about['field']}"
        if kind == "ct" and set(about) == {"key"}:
            return f"ct {about['key']}"
        if kind == "meta":
            return str(about["key"])
        if kind == "prefix":
            return f"{about['addr']}/{about['len']}"
    return value if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(_stable(value), sort_keys=True, separators=(",", ":")).replace('"', "")


def _stable(value: Any) -> Any:
    """Return a value without counters, and with the elements of sets sorted."""
    if isinstance(value, Mapping):
        kept = {key: _stable(item) for key, item in value.items() if key not in _COUNTED}
        return {
            key: sorted(item, key=json.dumps) if key in ("set", "elem") and isinstance(item, list) else item for key, item in kept.items()
        }
    return [_stable(item) for item in value] if isinstance(value, list) else value


_COMMAND: Final = f"""
set -e
f=/etc/sysconfig/nftables.conf; [ -e $f ] || f=/etc/nftables.conf
nft --json list ruleset; echo
[ -e $f ] || {{ echo {NO_FILE}; exit 0; }}
apart="unshare --net"; $apart true 2> /dev/null || apart="unshare --user --map-root-user --net"
export here=$(readlink /proc/self/ns/net)
exec $apart sh -ec '[ "$(readlink /proc/self/ns/net)" != "$here" ]; nft --file "$0"; nft --json list ruleset' $f
"""
"""Debian's nftables.service loads /etc/nftables.conf, the one of Rocky Linux /etc/sysconfig/nftables.conf."""

COMPARISON = Probe("firewall-file", on="nodes", command=_COMMAND, parse=parse_comparison)
