"""A range of IPv4 addresses, as a stack file and MetalLB's IPAddressPool write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rackwright.model.notation import refuse

_RULE: Final = "address-range"
_EXAMPLE: Final = "10.77.0.8-10.77.0.15"


@dataclass(frozen=True)
class AddressRange:
    """All addresses from the first to the last."""

    first: IPv4Address
    last: IPv4Address

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __iter__(self) -> Iterator[IPv4Address]:
        return (IPv4Address(number) for number in range(int(self.first), int(self.last) + 1))

    def __len__(self) -> int:
        return int(self.last) - int(self.first) + 1

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IPv4Address) and self.first <= address <= self.last

    def overlaps(self, other: AddressRange) -> bool:
        """Return whether both contain an address.

        >>> one = parse_range("10.77.0.8-10.77.0.11")
        >>> one.overlaps(parse_range("10.77.0.11")), one.overlaps(parse_range("10.77.0.12/30"))
        (True, False)
        """
        return self.first <= other.last and other.first <= self.last


def parse_range(value: object) -> AddressRange:
    """Return a range from `first-last`, from a network, or from one address.

    >>> str(parse_range("10.77.0.8/30")), str(parse_range("10.77.0.9"))
    ('10.77.0.8-10.77.0.11', '10.77.0.9-10.77.0.9')
    """
    if isinstance(value, AddressRange):
        return value
    try:
        if "-" not in str(value):
            network = IPv4Network(str(value))
            return AddressRange(network.network_address, network.broadcast_address)
        first, last = (IPv4Address(part.strip()) for part in str(value).split("-", 1))
    except ValueError:
        refuse(_RULE, f"`{value}` is not a range of IPv4 addresses", f"write first-last or a network, like {_EXAMPLE} or 10.77.0.8/29")
    if last < first:
        refuse(_RULE, f"`{value}` ends before it begins", f"write {last}-{first}")
    return AddressRange(first, last)


AddressRange4 = Annotated[
    AddressRange,
    PlainValidator(parse_range),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+([-/][0-9.]+)?$", "examples": [_EXAMPLE, "10.77.0.8/29"]}),
]
