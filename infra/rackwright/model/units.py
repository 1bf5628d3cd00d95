"""Values with a fixed format (labels, sizes, durations, days), parsed once on loading. Internally, sizes are bytes, durations seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, Final, NoReturn

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from rackwright.model import host_keys

_BINARY: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_BYTES: Final = 2**63 - 2**40
"""Whole TiB in 63 bits: Kubernetes reduces larger quantities silently (apimachinery: api/resource/quantity.go), and no file is larger."""
_MAX_SECONDS: Final = 2**31 - 60
"""time_str2mins of Slurm adds 59 s to a signed number of 32 bits. 68 years are enough for all other times, too."""
_SIZE: Final = r"[0-9]+(\.[0-9]+)?(KiB|MiB|GiB|TiB)"
_DURATION: Final = r"([0-9]+[smhd])+"
_LABEL: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_PARTITION: Final = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
"""slurm.conf(5) sets no format. Sites use capitals and underscores (`gpu-a100_long`); a comma separates names, a dot parts of a path."""
_FEATURE: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]*"
"""In a constraint, `&`, `|`, `*` and brackets are operators (sbatch(1), --constraint); a comma separates features in slurm.conf(5)."""
_USER: Final = r"[a-z_][-a-z0-9_]*"
_PLAYBOOK: Final = r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)+[A-Za-z0-9_][A-Za-z0-9_.-]*\.ya?ml"
_MOUNT: Final = r"/[^\s:,]*"
_MODE: Final = r"[0-7]{3,4}"
_HOST_KEY: Final = r"\s*(.* )?(SHA256:[A-Za-z0-9+/]{43}=?|(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521))\s+[A-Za-z0-9+/]+=*)(\s.*)?"
"""For editors; `host_keys.parse` decides."""
_RDMA_DEVICE: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
"""Names that rdma-core's udev rules and drivers give: mlx5_0, ibp12s0, roceP2p1s0f0, rdmap0s6 (rdma-core: kernel-boot/rdma_rename.c).

`:`, `,`, `=` and `^` separate names in NCCL_IB_HCA, and `/` is no part of a file name in /sys/class/infiniband.
"""
_RDMA_DEVICE_LENGTH: Final = 63
"""IB_DEVICE_NAME_MAX is 64 with the final NUL (Linux: include/uapi/rdma/ib_user_verbs.h). A netdev's IFNAMSIZ does not apply."""
_RACK: Final = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
"""No dot: the management switches of a rack are numbered after one."""
_SHOWN: Final = 40
"""Characters of a number that a message shows. Chosen."""
_NON_BLOCKING, _MOST_DOWN = 1, 16
_RATIO: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*:\s*([1-9][0-9]*)\s*")
_SSH_ADDRESS: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_GUID: Final = r"0x[0-9a-f]{16}"
_PCI: Final = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_MAC: Final = r"[0-9a-f]{2}(:[0-9a-f]{2}){5}"
_DAY: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]00:00:00(Z| \+0000 UTC))?")
"""A day; Pulumi adds the tail to an unquoted day when it rewrites or passes on a stack file."""


def refuse(rule: str, cause: str, hint: str) -> NoReturn:
    """Refuse a value in a pydantic validator by raising PydanticCustomError; `load` turns it into a finding."""
    raise PydanticCustomError(rule, "{cause}", {"cause": cause, "hint": hint})


def parse_bytes(text: object) -> int:
    """Return a size in bytes, rounded down to whole KiB.

    >>> parse_bytes("1.5GiB")
    1610612736
    """
    if isinstance(text, int) and not isinstance(text, bool):
        refuse("size", f"{text} has no unit", f"write {text}MiB or {text}GiB")
    if not isinstance(text, str) or not re.fullmatch(_SIZE, text):
        refuse("size", f"{text!r} is not a size", _size_hint(text))
    number, unit = text[:-3], text[-3:]
    if float(number) * _BINARY[unit] > _MAX_BYTES:
        refuse(
            "size",
            f"`{_cut(text)}` is too large",
            f"use at most {_MAX_BYTES // 2**40}TiB: a size has 63 bits (Linux: loff_t; Kubernetes: quantity)",
        )
    return int(float(number) * _BINARY[unit]) // 1024 * 1024


def _cut(text: str) -> str:
    """Return the beginning of a text: messages stay readable."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _size_hint(text: object) -> str:
    close = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(i?b)?\s*", str(text), re.IGNORECASE)
    if close:
        return f"write {close[1]}{close[2].upper()}iB"
    return "write a number and KiB, MiB, GiB or TiB, like 2GiB"


def parse_seconds(text: object) -> int:
    """Return a duration in seconds.

    >>> parse_seconds("1h30m")
    5400
    """
    if isinstance(text, int) and not isinstance(text, bool):
        refuse("duration", f"{text} has no unit", f"write {text}s or {text}m")
    if not isinstance(text, str) or not re.fullmatch(_DURATION, text):
        refuse("duration", f"{text!r} is not a duration", _duration_hint(text))
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", text))
    if seconds > _MAX_SECONDS:
        cause = f"`{_cut(text)}` is too long"
        refuse("duration", cause, f"use at most {_MAX_SECONDS // 86400}d: Slurm counts seconds in 31 bits (Slurm: src/common/parse_time.c)")
    return int(seconds)


def _duration_hint(text: object) -> str:
    """Return what to write instead of a time of Slurm (sbatch(1), --time): days-hours:minutes:seconds."""
    found = re.fullmatch(r"(?:(?P<d>[0-9]+)-)?(?P<h>[0-9]+):(?P<m>[0-9]{2})(?::(?P<s>[0-9]{2}))?", str(text))
    if found is None:
        return "write numbers with s, m, h or d, like 5m or 1h30m"
    parts = found.groupdict(default="0")
    if found["d"] is None and found["s"] is None:  # minutes:seconds
        parts = {"d": "0", "h": "0", "m": parts["h"], "s": parts["m"]}
    return f"write {''.join(f'{int(number)}{unit}' for unit, number in parts.items() if int(number)) or '0s'}"


def format_bytes(size: int) -> str:
    """Return a size in the notation of stack files.

    >>> format_bytes(2147483648)
    '2GiB'
    """
    for unit, factor in reversed(_BINARY.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return "0MiB"


def format_seconds(seconds: int) -> str:
    """Return a duration in the notation of stack files.

    >>> format_seconds(5400)
    '90m'
    """
    for unit, factor in reversed(_SECONDS.items()):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds // factor}{unit}"
    return "0s"


def mebibytes(size: int) -> int:
    """Return bytes as whole MiB, rounded down: the unit of Slurm and the roles."""
    return size // 2**20


def parse_day(value: object) -> date:
    """Return a calendar day; accept the format in which Pulumi passes on an unquoted day."""
    if isinstance(value, date):
        return value
    spoken = _DAY.fullmatch(str(value))
    try:
        return date.fromisoformat(spoken[1] if spoken else "")
    except ValueError:
        refuse("day", f"`{value}` is not a day", "write year-month-day, like 2026-12-01")


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


def parse_ratio(value: object) -> float | int:
    """Return downlinks per uplink, written as a number or as a ratio.

    >>> parse_ratio("3:2"), parse_ratio(2), parse_ratio("2:1")
    (1.5, 2, 2)
    """
    ratio = _RATIO.fullmatch(value) if isinstance(value, str) else None
    number = float(ratio[1]) / int(ratio[2]) if ratio else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        refuse("ratio", f"`{value}` is not a ratio", "write downlinks per uplink, like 2, 1.5 or 3:2")
    if not _NON_BLOCKING <= number <= _MOST_DOWN:
        refuse("ratio", f"`{value}` is out of range", f"use {_NON_BLOCKING}, which is non-blocking, to {_MOST_DOWN}")
    return int(number) if number == int(number) else number


def parse_ssh_address(value: object) -> str:
    """Return the address or the name at which a machine's SSH server is reached."""
    text = str(value)
    if isinstance(value, str) and re.fullmatch(_SSH_ADDRESS, value):
        return value
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


def _word(rule: str, pattern: str, longest: int, what: str, hint: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str):
            refuse(
                rule,
                f"{value!r} is not {what}",
                f"write one value; {hint}" if isinstance(value, list | dict) else f"write it in quotes; {hint}",
            )
        if not re.fullmatch(pattern, value):
            refuse(rule, f"`{value}` is not {what}", hint)
        if len(value) > longest:
            refuse(rule, f"`{value}` has {len(value)} characters", f"use at most {longest}")
        return value

    return check


def _text(pattern: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", **more})


def is_label(text: str) -> bool:
    """Return whether the text can be a host name: lower-case letters, digits and inner hyphens, a letter first, at most 63."""
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


_LABEL_HINT = "use lower-case letters, digits and inner hyphens, starting with a letter"

Bytes = Annotated[
    int, BeforeValidator(parse_bytes), PlainSerializer(format_bytes, when_used="json"), _text(_SIZE, examples=["512MiB", "2GiB"])
]
Seconds = Annotated[
    int, BeforeValidator(parse_seconds), PlainSerializer(format_seconds, when_used="json"), _text(_DURATION, examples=["30s", "5m"])
]
Label = Annotated[str, BeforeValidator(_word("label", _LABEL, 63, "a DNS label", _LABEL_HINT)), _text(_LABEL, maxLength=63)]
Domain = Annotated[
    str, BeforeValidator(_word("domain", _DOMAIN, 200, "a domain name", "use DNS labels joined by dots, like lab.internal")), _text(_DOMAIN)
]
PartitionName = Annotated[
    str,
    BeforeValidator(
        _word(
            "partition-name",
            _PARTITION,
            63,
            "a name of a partition",
            "use letters, digits and inner - and _, starting with a letter or digit",
        )
    ),
    _text(_PARTITION, maxLength=63),
]
Feature = Annotated[
    str,
    BeforeValidator(
        _word("feature", _FEATURE, 63, "a name of a feature", "use letters, digits, _, ., : and -, starting with a letter, digit or _")
    ),
    _text(_FEATURE, maxLength=63),
]
UserName = Annotated[
    str,
    BeforeValidator(_word("user-name", _USER, 32, "a user name", "use lower-case letters, digits, - and _, starting with a letter or _")),
    _text(_USER),
]
MountPoint = Annotated[
    str, BeforeValidator(_word("mount", _MOUNT, 200, "a mount point", "use an absolute path, like /mnt/sharedfs")), _text(_MOUNT)
]
Playbook = Annotated[
    str,
    BeforeValidator(
        _word(
            "playbook", _PLAYBOOK, 200, "a playbook of the project", "use a path relative to the project's root, like site/monitoring.yml"
        )
    ),
    _text(_PLAYBOOK),
]
RdmaDevice = Annotated[
    str,
    BeforeValidator(
        _word(
            "rdma-device",
            _RDMA_DEVICE,
            _RDMA_DEVICE_LENGTH,
            "a name of an RDMA device",
            "enter the name that `rdma link` or `ls /sys/class/infiniband` prints on the node, like mlx5_0 or roceP2p1s0f0",
        )
    ),
    _text(_RDMA_DEVICE, maxLength=_RDMA_DEVICE_LENGTH),
]
Guid = Annotated[
    str,
    BeforeValidator(
        _word("guid", _GUID, 18, "a GUID", 'enter 0x and 16 hexadecimal digits in lower case, in quotes, like "0x946dae0300f01234"')
    ),
    _text(_GUID),
]
PciAddress = Annotated[
    str,
    BeforeValidator(
        _word("pci-address", _PCI, 16, "a PCI address", 'enter it with its domain as `lspci -D` prints it, in quotes, like "0000:1a:00.0"')
    ),
    _text(_PCI),
]
MacAddress = Annotated[
    str,
    BeforeValidator(_word("mac-address", _MAC, 17, "a MAC address", 'enter six bytes in lower case, in quotes, like "94:6d:ae:f0:12:34"')),
    _text(_MAC),
]
Mode = Annotated[str, BeforeValidator(_word("mode", _MODE, 4, "a file mode", 'use three or four octal digits, like "1777"')), _text(_MODE)]
HostKey = Annotated[str, BeforeValidator(parse_host_key), _text(_HOST_KEY)]
Rack = Annotated[
    str,
    BeforeValidator(_word("rack", _RACK, 63, "the name of a rack", 'use letters, digits and inner - and _, like r01, A-12 or "12"')),
    _text(_RACK, maxLength=63),
]
Ratio = Annotated[
    float | int,
    PlainValidator(parse_ratio),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 16}, {"type": "string", "pattern": "^[0-9.]+:[0-9]+$"}]}),
]
SshAddress = Annotated[str, BeforeValidator(parse_ssh_address), _text(_SSH_ADDRESS)]
SshEndpointAddress = Annotated[
    str,
    BeforeValidator(parse_ssh_endpoint),
    _text(rf"({_SSH_ADDRESS}|[0-9A-Fa-f]*:[0-9A-Fa-f.:]+)", examples=["203.0.113.10", "2001:db8::5"]),
]
Day = Annotated[date, PlainValidator(parse_day), WithJsonSchema({"type": "string", "format": "date"})]
Network4 = Annotated[IPv4Network, PlainValidator(parse_network), _text(r"[0-9.]+/[0-9]+", examples=["10.77.0.0/24"])]
AnyNetwork = Annotated[
    IPv4Network | IPv6Network,
    PlainValidator(parse_any_network),
    _text(r"([0-9.]+|[0-9A-Fa-f.:]+)/[0-9]+", examples=["10.77.0.0/24", "2001:db8::/64"]),
]
Address4 = Annotated[IPv4Address, PlainValidator(parse_address), WithJsonSchema({"type": "string", "format": "ipv4"})]
