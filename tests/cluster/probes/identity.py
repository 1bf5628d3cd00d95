"""Who a node is and how it is: name, system, clock, addresses, space."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.harness.probe import Place, Probe


@dataclass(frozen=True)
class Identity:
    """How a node presents itself."""

    hostname: str
    machine_id: str
    os: str
    time_zone: str


def parse_identity(text: str) -> Identity:
    """`key=value` lines, where those of os-release may be quoted.

    >>> parse_identity("hostname=n0\\nmachine_id=ab\\nzone=/usr/share/zoneinfo/Etc/UTC\\nID=debian\\nVERSION_ID=\\"13\\"").os
    'debian-13'
    """
    values = {key: value.strip('"') for key, _, value in (line.partition("=") for line in text.splitlines() if "=" in line)}
    _, found, zone = values["zone"].partition("/zoneinfo/")
    system = f"{values['ID']}-{values['VERSION_ID']}" if values.get("VERSION_ID") else values["ID"]
    return Identity(values["hostname"], values["machine_id"], system, zone if found else values["zone"])


IDENTITY = Probe(
    "identity",
    on="nodes",
    command="echo hostname=$(cat /proc/sys/kernel/hostname); echo machine_id=$(cat /etc/machine-id); "
    "echo zone=$(readlink -f /etc/localtime); grep -E '^(ID|VERSION_ID)=' /etc/os-release",
    parse=parse_identity,
)

CLOCK = Probe("clock", on="nodes", command="date +%s.%N", parse=float)


@dataclass(frozen=True)
class SystemState:
    """What systemd says of the whole node."""

    state: str
    failed: tuple[str, ...]


def parse_system_state(text: str) -> SystemState:
    """One word of `systemctl is-system-running`, then one failed unit a line."""
    state, *rest = text.splitlines()
    if not state.strip() or " " in state.strip():
        raise ValueError("no system state")
    units = [word for line in rest for word in line.replace("●", "").replace("*", "").split()[:1]]
    return SystemState(state.strip(), tuple(sorted(units)))


SYSTEM = Probe(
    "system-state",
    on="nodes",
    command="systemctl is-system-running; systemctl list-units --state=failed --plain --no-legend --no-pager",
    parse=parse_system_state,
)


def parse_hosts(text: str) -> dict[str, tuple[str, ...]]:
    """Names by address of an /etc/hosts; loopback and multicast lines are the system's own."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if names and not address.startswith(("127.", "::1", "fe00", "ff00", "ff02")):
            found[address] = (*found.get(address, ()), *names)
    return found


HOSTS = Probe("hosts", on="nodes", command="cat /etc/hosts", parse=parse_hosts)


def parse_resolved(text: str) -> dict[str, str]:
    """Address by name from lines `name address`."""
    found = {}
    for line in text.splitlines():
        name, address = line.split()
        found[name] = address
    return found


_LOOK_UP: Final = """import socket, sys
for name in sys.argv[1:]:
    try:
        print(name, socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError:
        print(name, "none")
"""
"""In one process: `getent` for each of n names on each of n nodes is a process for each pair."""


def _resolve(place: Place) -> str:
    names = " ".join(host["name"] for host in place.declared.cluster["hosts"])
    return f"python3 -I -S -c {shlex.quote(_LOOK_UP)} {names}"


RESOLVED = Probe("resolved", on="nodes", command=_resolve, parse=parse_resolved)


@dataclass(frozen=True)
class Interface:
    """A network interface with its IPv4 addresses."""

    name: str
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """Interfaces other than loopback, and the gateways of the default routes."""

    interfaces: tuple[Interface, ...]
    gateways: tuple[str, ...]

    def holder(self, address: str) -> Interface | None:
        """The interface that has the address."""
        return next((interface for interface in self.interfaces if address in interface.addresses), None)


def parse_network(text: str) -> Network:
    """Two JSON documents, `ip -j address` and `ip -j route show default`, one a line."""
    links, routes = (json.loads(line) for line in text.strip().splitlines())
    interfaces = [
        Interface(link["ifname"], link.get("address", ""), _ipv4(link)) for link in links if "LOOPBACK" not in link.get("flags", ())
    ]
    return Network(tuple(interfaces), tuple(route["gateway"] for route in routes if "gateway" in route))


def _ipv4(link: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(entry["local"] for entry in link.get("addr_info", ()) if entry.get("family") == "inet")


NETWORK = Probe("network", on="nodes", command="ip -j address; ip -j -4 route show default", parse=parse_network)


@dataclass(frozen=True)
class FileSystem:
    """How full a local file system is, in percent of blocks or inodes."""

    mount: str
    used: int


def parse_df(text: str) -> tuple[FileSystem, ...]:
    """`df -P` or `df -Pi`; file systems without a size (`-`) have nothing to run out of."""
    found: dict[str, FileSystem] = {}
    for line in text.splitlines()[1:]:
        device, _, used, free, percent, mount = line.split(None, 5)
        if percent.endswith("%") and (int(used) or int(free)) and device not in found:
            found[device if device.startswith("/dev/") else mount] = FileSystem(mount, int(percent[:-1]))
    if not found:
        raise ValueError("no file system is listed")
    return tuple(found.values())


_LOCAL = "df -P -l -x squashfs -x iso9660 -x devtmpfs"
SPACE = Probe("space", on="nodes", command=_LOCAL, parse=parse_df, statuses=frozenset({0, 1}))
INODES = Probe("inodes", on="nodes", command=f"{_LOCAL} -i", parse=parse_df, statuses=frozenset({0, 1}))


def parse_memory(text: str) -> int:
    """MiB of MemTotal in /proc/meminfo.

    >>> parse_memory("MemTotal:       2097152 kB")
    2048
    """
    words = text.split()
    if words[0] != "MemTotal:" or words[2] != "kB":
        raise ValueError("no MemTotal")
    return int(words[1]) // 1024


MEMORY = Probe("memory", on="nodes", command="grep ^MemTotal: /proc/meminfo", parse=parse_memory)


def parse_reboot(text: str) -> bool:
    """Whether one is pending."""
    return {"pending": True, "none": False}[text.strip()]


REBOOT = Probe("reboot", on="nodes", command="[ -e /run/reboot-required ] && echo pending || echo none", parse=parse_reboot)
