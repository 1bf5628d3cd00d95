"""`ibstat` of infiniband-diags: the adapters of a node and the state of their ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rackwright.errors import CouldNotTell

_LAYERS: Final = {"IB": "InfiniBand"}
"""The simulated fabric (umad2sim) says IB where the kernel says InfiniBand."""


@dataclass(frozen=True)
class Port:
    """One port of an adapter."""

    adapter: str
    number: int
    state: str
    """Active when the subnet manager has brought it up; Initializing without one; Down without a cable."""
    physical: str
    """LinkUp when both ends of the cable agree."""
    rate_gbps: int
    link_layer: str


def parse_ibstat(text: str) -> tuple[Port, ...]:
    """All ports of all adapters; none where the node has no adapter. Raises CouldNotTell where a port is not told to its end."""
    ports: list[Port] = []
    adapters = re.split(r"^CA '([^']+)'$", text, flags=re.MULTILINE)
    if len(adapters) == 1 and text.strip():
        raise CouldNotTell(f"ibstat: unreadable answer: {text.strip().splitlines()[-1][:200]}")
    for name, told in zip(adapters[1::2], adapters[2::2], strict=True):
        count = re.search(r"^\s*Number of ports: (\d+)", told, re.MULTILINE)
        found = list(_ports(name, told))
        if count is None or len(found) != int(count[1]):
            raise CouldNotTell(f"ibstat: the answer ends within adapter {name}")
        ports += found
    return tuple(ports)


def _ports(adapter: str, told: str) -> Iterator[Port]:
    parts = re.split(r"^\s*Port (\d+):$", told, flags=re.MULTILINE)
    for number, lines in zip(parts[1::2], parts[2::2], strict=True):
        values = dict(re.findall(r"^\s*([A-Za-z ]+): (.+?)\s*$", lines, re.MULTILINE))
        try:
            layer = values["Link layer"]
            rate = int(values["Rate"].split()[0])
            yield Port(adapter, int(number), values["State"], values["Physical state"], rate, _LAYERS.get(layer) or layer)
        except (KeyError, ValueError) as error:
            raise CouldNotTell(f"ibstat: port {number} of adapter {adapter} is not told to its end ({error})") from None
