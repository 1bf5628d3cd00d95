"""The declared network: switches, ports and cables, and the file topology.json that describes them to the process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.vm.network.topology_problems import LINK_FIELDS, SCHEMA, find_problems
from rackwright.errors import InputError
from rackwright.files import write_atomic

FILE: Final = "topology.json"


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """State of a link, the same in both directions.

    `rate_mbps` is in 10^6 bit/s, None for no limit; `delay_ms` is the time in one direction; `loss` is the share of frames lost, 0 to 1.
    """

    up: bool = True
    rate_mbps: float | None = None
    delay_ms: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A switch; `mtu` is the largest payload of a frame in bytes."""

    mtu: int


@dataclass(frozen=True, kw_only=True)
class Port(LinkSettings):
    """The cable between a vNIC and its switch; `peer` is the machine's socket, relative to the network's folder."""

    name: str
    switch: str
    mac: str
    peer: str


@dataclass(frozen=True, kw_only=True)
class Cable(LinkSettings):
    """A cable between two switches."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A stack's network. Switches without a cable between them are separate networks."""

    switches: Mapping[str, Switch]
    ports: tuple[Port, ...] = ()
    cables: tuple[Cable, ...] = field(default=())

    def as_data(self) -> dict[str, Any]:
        """Return the content of topology.json."""
        return {
            "schema": SCHEMA,
            "switches": {name: asdict(switch) for name, switch in self.switches.items()},
            "ports": [_normalised(asdict(port)) for port in self.ports],
            "cables": [_normalised(asdict(cable)) for cable in self.cables],
        }

    def digest(self) -> str:
        """Return the SHA-256 of the content; the order of ports, cables and switches does not count."""
        data = self.as_data()
        for links in ("ports", "cables"):
            data[links].sort(key=lambda row: row["name"])
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def settings_of(link: LinkSettings) -> LinkSettings:
    """Return the settings of a port or cable without its ends."""
    return LinkSettings(**{name: getattr(link, name) for name in LINK_FIELDS})


def parse(data: object, *, path: str = FILE) -> Topology:
    """Return the topology. Raises InputError that lists every problem."""
    if problems := find_problems(data):
        cause = problems[0] if len(problems) == 1 else f"{len(problems)} problems:\n" + "\n".join(f"  - {problem}" for problem in problems)
        raise InputError(cause, path=path, hint="run `pulumi up`: it writes the file from the plan")
    assert isinstance(data, dict)
    return Topology(
        switches={name: Switch(**row) for name, row in data["switches"].items()},
        ports=tuple(Port(**_normalised(row)) for row in data.get("ports", [])),
        cables=tuple(Cable(**_normalised(row)) for row in data.get("cables", [])),
    )


def read(folder: Path) -> Topology:
    """Return the topology of a folder. Raises InputError for a file that is missing or invalid."""
    file = folder / FILE
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(file), hint="run `pulumi up`: it writes the file") from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", path=str(file), hint="run `pulumi up`: it writes the file from the plan") from None
    return parse(data, path=str(file))


def write(folder: Path, topology: Topology) -> None:
    """Write topology.json, readable by its owner only. Raises InputError for a topology with problems; the file stays as it was."""
    data = topology.as_data()
    parse(data, path=str(folder / FILE))
    write_atomic(folder / FILE, json.dumps(data, indent=1) + "\n", mode=0o600)


def _normalised(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with MAC addresses in lower case and whole numbers as the declared type, so that equal networks have equal digests."""
    numbers = {item.name for item in fields(LinkSettings) if item.name != "up"}
    changed = {name: float(value) for name, value in row.items() if name in numbers and type(value) is int}
    return {**row, **changed, **({"mac": row["mac"].lower()} if isinstance(row.get("mac"), str) else {})}
