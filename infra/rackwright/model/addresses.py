"""Addresses of networks, machines and devices, and SSH host keys, parsed once on loading."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Final, NoReturn

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from rackwright.model import host_keys
from rackwright.model.notation import refuse, text_schema, word

_HOST_KEY: Final = r"\s*(.* )?(SHA256:[A-Za-z0-9+/]{43}=?|(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521))\s+[A-Za-z0-9+/]+=*)(\s.*)?"
"""For editors; `host_keys.parse` decides."""
_SSH_ADDRESS: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_GUID: Final = r"0x[0-9a-f]{16}"
_PCI: Final = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_MAC: Final = r"[0-9a-f]{2}(:[0-9a-f]{2}){5}"


def parse_host_key(value: object) -> str:
    """Return a host key as fingerprint, or as type and base64; accept what ssh-keygen, ssh-keyscan and known_hosts show."""
    found = host_keys.parse(value) if isinstance(value, str) else host_keys.HostKeyText("", f"{value!r} is not an SSH host key")
    if not found.value:
        refuse("host-key", found.cause, found.hint)
    return found.value


def parse_network(value: object) -> IPv4Network:
    """Return an IPv4 network; refuse an address with host bits and name the network it belongs to."""
    if isinstance(value, IPv4Network):
        return value
    try:
        around = IPv4Network(str(value), strict=False)
    except ValueError:
        if _is_ipv6(str(value)):
            refuse("network", f"`{value}` is an IPv6 network", "write the IPv4 network, like 10.77.0.0/24: networks are declared by IPv4")
        refuse("network", f"`{value}` is not an IPv4 network", "write address/prefix, like 10.77.0.0/24")
    if str(value).split("/")[0] != str(around.network_address):
        refuse("network", f"`{value}` is an address inside a network", f"write the network: {around}")
    return around


def parse_any_network(value: object) -> IPv4Network | IPv6Network:
    """Return an IPv4 or IPv6 network; refuse an address with host bits and name the network it belongs to."""
    if isinstance(value, IPv6Network) or not _is_ipv6(str(value)):
        return value if isinstance(value, IPv6Network) else parse_network(value)
    if "%" in str(value):
        refuse("network", f"`{value}` has a zone", f"write {re.sub('%[^/]*', '', str(value))}: a packet filter knows no zones")
    around = IPv6Network(str(value), strict=False)
    if IPv6Address(str(value).split("/")[0]) != around.network_address:
        refuse("network", f"`{value}` is an address inside a network", f"write the network: {around}")
    return around


def parse_address(value: object) -> IPv4Address:
    """Return an IPv4 address."""
    try:
        return value if isinstance(value, IPv4Address) else IPv4Address(str(value))
    except ValueError:
        hint = "write four numbers from 0 to 255, like 127.0.0.1"
        if _is_ipv6(str(value)):
            refuse("address", f"`{value}` is an IPv6 address", f"{hint}: addresses are declared by IPv4")
        if "/" in str(value):
            refuse("address", f"`{value}` is not an IPv4 address", f"remove the prefix: write {str(value).partition('/')[0]}")
        refuse("address", f"`{value}` is not an IPv4 address", hint)


def parse_ssh_address(value: object) -> str:
    """Return the address or the name at which a machine's SSH server is reached."""
    if not isinstance(value, str) or not re.fullmatch(_SSH_ADDRESS, value):
        _refuse_ssh_address(str(value))
    return str(value)


def _refuse_ssh_address(text: str) -> NoReturn:
    cause = f"`{text[:60]}` is neither an IPv4 address nor a host name"
    if _is_ipv6(text.strip("[]")):
        refuse("ssh-address", f"`{text}` is an IPv6 address", "enter a host name that resolves to it, or an IPv4 address")
    if "@" in text:
        refuse("ssh-address", cause, f"write {text.partition('@')[2]}, and the login user as `user:`")
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        refuse("ssh-address", cause, f"write {text.partition(':')[0]}, and `port: {text.partition(':')[2]}`")
    refuse("ssh-address", cause, "write an address like 203.0.113.10, or a name like node1.example.org")


def parse_ssh_endpoint(value: object) -> str:
    """Return the IPv4 or IPv6 address or the name at which a machine's SSH server is reached.

    >>> parse_ssh_endpoint("2001:DB8::0:5"), parse_ssh_endpoint("node1.example.org")
    ('2001:db8::5', 'node1.example.org')
    """
    text = str(value)
    if not isinstance(value, str) or not _is_ipv6(text.strip("[]")) or "/" in text:
        return parse_ssh_address(value)
    bare = text.strip("[]")
    if bare != text:
        refuse("ssh-address", f"`{text}` has brackets", f'write "{bare}", and the port as `port:`')
    address = IPv6Address(bare)
    if address.scope_id is not None or address.is_link_local:
        cause = f"`{text}` is a link-local address, valid on one network of one machine"
        refuse("ssh-address", cause, "enter a global address, one of fc00::/7, or a name")
    if address.is_multicast or address.is_unspecified:
        refuse("ssh-address", f"`{text}` is not the address of a machine", "enter the address of the machine")
    return str(address.ipv4_mapped or address)


def _is_ipv6(text: str) -> bool:
    try:
        return text.count(":") > 1 and IPv6Network(text.partition("%")[0], strict=False) is not None
    except ValueError:
        return False


Guid = Annotated[
    str,
    BeforeValidator(
        word("guid", _GUID, 18, "a GUID", 'enter 0x and 16 hexadecimal digits in lower case, in quotes, like "0x946dae0300f01234"')
    ),
    text_schema(_GUID),
]
PciAddress = Annotated[
    str,
    BeforeValidator(
        word("pci-address", _PCI, 16, "a PCI address", 'enter it with its domain as `lspci -D` prints it, in quotes, like "0000:1a:00.0"')
    ),
    text_schema(_PCI),
]
MacAddress = Annotated[
    str,
    BeforeValidator(word("mac-address", _MAC, 17, "a MAC address", 'enter six bytes in lower case, in quotes, like "94:6d:ae:f0:12:34"')),
    text_schema(_MAC),
]
HostKey = Annotated[str, BeforeValidator(parse_host_key), text_schema(_HOST_KEY)]
SshAddress = Annotated[str, BeforeValidator(parse_ssh_address), text_schema(_SSH_ADDRESS)]
SshEndpointAddress = Annotated[
    str,
    BeforeValidator(parse_ssh_endpoint),
    text_schema(rf"({_SSH_ADDRESS}|[0-9A-Fa-f]*:[0-9A-Fa-f.:]+)", examples=["203.0.113.10", "2001:db8::5"]),
]
Network4 = Annotated[IPv4Network, PlainValidator(parse_network), text_schema(r"[0-9.]+/[0-9]+", examples=["10.77.0.0/24"])]
AnyNetwork = Annotated[
    IPv4Network | IPv6Network,
    PlainValidator(parse_any_network),
    text_schema(r"([0-9.]+|[0-9A-Fa-f.:]+)/[0-9]+", examples=["10.77.0.0/24", "2001:db8::/64"]),
]
Address4 = Annotated[IPv4Address, PlainValidator(parse_address), WithJsonSchema({"type": "string", "format": "ipv4"})]
