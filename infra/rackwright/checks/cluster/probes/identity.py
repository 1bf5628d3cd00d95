"""Probes of a node's identity and state: name, system, clock, addresses, free space."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import (
    Lines,
    MissingAnswer,
    Row,
    UnreadableValue,
    json_documents,
    lines_of,
    quoted,
    read_each_line,
    whole_lines,
    words,
)
from rackwright.os_release import os_name, unquote


@dataclass(frozen=True)
class Identity:
    """Name and system of a node; UnreadableValue for a value that was not read."""

    hostname: str | UnreadableValue
    machine_id: str | UnreadableValue
    os: str | UnreadableValue
    """Distribution and release in the notation of plans: debian-13, ubuntu-24.04, rocky-9."""
    time_zone: str | UnreadableValue


def parse_identity(text: str) -> Identity:
    """Return the identity from `key=value` lines; values of os-release may be quoted.

    >>> parse_identity("hostname=n0\\nmachine_id=ab\\nzone=/usr/share/zoneinfo/Etc/UTC\\nID=rocky\\nVERSION_ID=\\"9.4\\"").os
    'rocky-9'
    """
    lines, partial = whole_lines(text)
    pairs = [line.partition("=") for line in lines if "=" in line]
    values = {key.strip(): unquote(value) for key, _, value in pairs}
    for line in partial:  # a value with its closing quote is complete
        key, _, value = line.partition("=")
        values[key] = unquote(value) if re.fullmatch(r'".+"', value) else ""
    if not {"hostname", "machine_id", "zone", "ID"} & set(values):
        raise ValueError("neither a name nor a system")
    row = Row("node", values, "")
    zone = row.read("zone", words)
    if isinstance(zone, str) and "/zoneinfo/" in zone:
        zone = re.sub(r"^(posix|right)/", "", zone.partition("/zoneinfo/")[2])  # folders of the same zones: tzfile(5)
    return Identity(row.read("hostname", words), row.read("machine_id", _machine_id), _system(row), zone)


def _machine_id(cell: str) -> str:
    """Return a machine id. `uninitialized` is what an image has before its first boot (machine-id(5))."""
    if cell.strip() == "uninitialized":
        raise ValueError("no machine id yet")
    return words(cell)


def _system(row: Row) -> str | UnreadableValue:
    """Return distribution and release. A rolling distribution has no release."""
    try:
        return os_name(row.cells)
    except ValueError:
        name = row.read("ID", words)
        return name if isinstance(name, UnreadableValue) else row.unread("VERSION_ID")


# A zone may itself be a link to its new name (Asia/Calcutta), so that only the first link is read.
IDENTITY = Probe(
    "identity",
    on="nodes",
    command="echo hostname=$(cat /proc/sys/kernel/hostname); echo machine_id=$(cat /etc/machine-id); "
    "echo zone=$(readlink /etc/localtime || readlink -f /etc/localtime); "
    "grep -hE '^(ID|VERSION_ID|VERSION_CODENAME|PRETTY_NAME)=' /etc/os-release || "
    "grep -hE '^(ID|VERSION_ID|VERSION_CODENAME|PRETTY_NAME)=' /usr/lib/os-release",
    parse=parse_identity,
)

CLOCK = Probe("clock", on="nodes", command="date +%s.%N", parse=float)


@dataclass(frozen=True)
class SystemState:
    """State of the system as systemd reports it."""

    state: str
    failed: tuple[str, ...]
    of_users: tuple[str, ...] = ()
    """Failed units that belong to one login, connection or command, and that say nothing about the node."""


def parse_system_state(text: str) -> SystemState:
    """Return the state from `systemctl is-system-running`, followed by one failed unit per line."""
    lines = lines_of(text)
    first = next((number for number, line in enumerate(lines) if line.strip() in _STATES), None)
    if first is None:
        raise ValueError(f'no system state: "{quoted(lines[0])}"' if lines else "no system state")
    named = [line.replace("●", " ").replace("*", " ").split()[0] for line in lines[first + 1 :] if line.strip(" ●*")]
    failed = sorted({name for name in named if _UNIT.fullmatch(name)})
    of_users = tuple(name for name in failed if _OF_USERS.fullmatch(name))
    return SystemState(lines[first].strip(), tuple(name for name in failed if name not in of_users), of_users)


_STATES: Final = frozenset(("initializing", "starting", "running", "degraded", "maintenance", "stopping", "offline", "unknown"))
"""States that `systemctl is-system-running` prints (systemctl(1))."""
_OF_USERS: Final = re.compile(
    r"user@\d+\.service|session-\w+\.scope|run-([pru]?\d+|r[0-9a-f]{32})(-i\d+)?\.(service|scope)|sshd?@.*\d:\d+-.*\d:\d+(-.*)?\.service"
    r"|systemd-coredump@\d+.*\.service"
)
"""Units of one login, of one command of systemd-run(1), of one connection to sshd (sshd@0-server:port-client:port), of one core dump."""
_UNIT: Final = re.compile(r"\S+\.(service|socket|mount|timer|target|path|scope|slice|swap|device|automount)")


SYSTEM = Probe(
    "system-state",
    on="nodes",
    command="systemctl is-system-running; systemctl list-units --state=failed --plain --no-legend --no-pager",
    parse=parse_system_state,
)


def parse_hosts(text: str) -> dict[str, tuple[str, ...]]:
    """Return names by address of an /etc/hosts. Loopback and multicast entries belong to the system and are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if names and re.fullmatch(r"[0-9A-Fa-f:.]+(%\w+)?", address) and not address.startswith(("127.", "::1", "fe00", "ff00", "ff02")):
            found[address] = (*found.get(address, ()), *names)
    return found


HOSTS = Probe("hosts", on="nodes", command="cat /etc/hosts", parse=parse_hosts)


def parse_resolved(text: str) -> Lines[str | UnreadableValue]:
    """Return the address by name from lines `name address`: `none` where the name is not found, UnreadableValue after a time-out."""
    found = read_each_line(text, _resolved)
    if not found:
        raise ValueError("no name was resolved")
    return found


def _resolved(line: str) -> tuple[str, str | UnreadableValue]:
    name, address, *seconds = line.split()
    if address == "late":
        return words(name), MissingAnswer(name, f"no answer within {int(seconds[0])} s")
    if seconds or not re.fullmatch(r"[\d.]+|none", address):
        raise ValueError(f'"{address}" is not an address')
    return words(name), address


_LOOK_UP: Final = """import socket, sys, time
for name in sys.argv[1:]:
    began = time.monotonic()
    try:
        print(name, socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError as error:
        took = time.monotonic() - began
        late = error.errno == socket.EAI_AGAIN and took > 0.9
        print(name, "late %.0f" % took if late else "none")
"""
"""One process resolves all names: `getent` for each of n names on each of n nodes is a process for each pair. A name server has at least
a second to respond (resolv.conf(5), timeout). If none responds, or at once if one refuses, the result is EAI_AGAIN (getaddrinfo(3))."""


def _resolve(context: ProbeContext) -> str:
    names = " ".join(host["name"] for host in context.declared.cluster["hosts"])
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
    """Interfaces other than loopback, and the gateways of the default route."""

    interfaces: tuple[Interface, ...]
    gateways: tuple[str, ...]

    def holder(self, address: str) -> Interface | None:
        """Return the interface that has the address."""
        return next((interface for interface in self.interfaces if address in interface.addresses), None)


def parse_network(text: str) -> Network:
    """Return the network from two JSON documents: `ip -j address` and `ip -j route show default`."""
    links, routes = json_documents(text)
    interfaces = [
        Interface(link["ifname"], link.get("address", ""), _ipv4(link))
        for link in links
        if link and "LOOPBACK" not in link.get("flags", ())  # iproute2 prints {} for a link that a filter excludes
    ]
    return Network(tuple(interfaces), _gateways(routes))


def _gateways(routes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the gateways that the kernel uses: those of the routes with the lowest metric (ip-route(8), metric, nexthop)."""
    usable = [route for route in routes if route and "dead" not in route.get("flags", ())]
    least = min((int(route.get("metric", 0)) for route in usable), default=0)
    hops = [hop for route in usable if int(route.get("metric", 0)) == least for hop in (route.get("nexthops") or [route])]
    return tuple(dict.fromkeys(_gateway(hop) for hop in hops))


def _gateway(hop: Mapping[str, Any]) -> str:
    """Return the gateway of a route or next hop; `dev NAME` where there is none, the type of a route that drops packets."""
    via = hop.get("via") or {}
    return str(hop.get("gateway") or via.get("host") or (f"dev {hop['dev']}" if "dev" in hop else hop.get("type", "none")))


def _ipv4(link: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(entry["local"] for entry in link.get("addr_info", ()) if entry.get("family") == "inet" and "local" in entry)


NETWORK = Probe("network", on="nodes", command="ip -j address; ip -j -4 route show default", parse=parse_network)


@dataclass(frozen=True)
class FileSystem:
    """Usage of a local file system, in percent of blocks or inodes; UnreadableValue where the line was not read."""

    mount: str
    used: int | UnreadableValue


def parse_df(text: str) -> tuple[FileSystem, ...]:
    """Return the file systems from `df -P` or `df -Pi`. File systems without a size (`-`) cannot be full and are left out."""
    lines, partial = whole_lines(text)
    head = next((number for number, line in enumerate(lines) if line.startswith("Filesystem")), 0)
    found = {line: FileSystem(f'"{quoted(line)}"', UnreadableValue("a file system", None, line)) for line in partial}
    read = 0
    for line in lines[head + 1 :]:
        key, system = _file_system(line)
        read += key != line and not (system and isinstance(system.used, UnreadableValue))
        if system is not None:
            found.setdefault(key, system)
    if not read:
        raise ValueError("no file system is listed")
    return tuple(found.values())


def _file_system(line: str) -> tuple[str, FileSystem | None]:
    """Return a file system with its key: its device, or its mount point where it has no device. None for one without a size."""
    cells = line.split(None, 5)
    numbers, rest = cells[1:4], cells[4:]
    if not line.startswith("/") and sum(re.fullmatch(r"\d+%?", cell) is not None for cell in cells) < 2:
        return line, None  # a warning
    if len(rest) < 2 or not rest[1].startswith("/") or not all(re.fullmatch(r"-?\d+|-", cell) for cell in numbers):
        return line, FileSystem(f'"{quoted(line)}"', UnreadableValue("a file system", None, line))
    percent, mount = rest
    key = cells[0] if cells[0].startswith("/dev/") else mount
    if cells[0] in _CACHES:
        return key, None
    if percent == "-" or not any(cell.lstrip("-").isdigit() and int(cell) for cell in numbers[1:]):
        return key, None
    sure = re.fullmatch(r"\d{1,3}%", percent)
    return key, FileSystem(mount, int(percent[:-1]) if sure else UnreadableValue(f"{mount} use", percent, line))


_CACHES: Final = frozenset({"cvmfs2", "squashfuse", "squashfuse_ll", "snapfuse"})
"""Sources of read-only file systems of type fuse: CernVM-FS shows how full its cache is, images of containers and snaps are always full."""
# Nobody writes files into read-only images, nor into the firmware's variables (efivarfs has a size from Linux 6.6 on).
_READ_ONLY: Final = ("squashfs", "iso9660", "udf", "erofs", "cramfs", "efivarfs", "devtmpfs")
_SHARED: Final = (
    *("beegfs", "ceph", "gpfs", "lustre", "wekafs"),
    *("fuse.blobfuse2", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3", "fuse.s3fs"),
)
"""File systems of servers whose source has no colon, so that df takes them for local ones (gnulib, mountlist.c, ME_REMOTE)."""
_LOCAL: Final = " ".join(("df -P -l", *(f"-x {kind}" for kind in (*_READ_ONLY, *_SHARED))))
SPACE = Probe("space", on="nodes", command=_LOCAL, parse=parse_df, statuses=frozenset({0, 1}))
INODES = Probe("inodes", on="nodes", command=f"{_LOCAL} -i", parse=parse_df, statuses=frozenset({0, 1}))


def parse_memory(text: str) -> int:
    """Return MemTotal of /proc/meminfo in MiB.

    >>> parse_memory("MemTotal:       2097152 kB")
    2048
    """
    found = re.search(r"^MemTotal:\s+(\d+) kB\s*$", text.replace("\r\n", "\n"), re.MULTILINE)
    if found is None:
        raise ValueError("no MemTotal")
    return int(found[1]) // 1024


MEMORY = Probe("memory", on="nodes", command="grep ^MemTotal: /proc/meminfo", parse=parse_memory)


@dataclass(frozen=True)
class Threads:
    """Online threads per core."""

    per_core: tuple[int, ...]
    """Distinct numbers of threads per core: more than one where cores differ or some threads are offline."""
    control: str
    """`/sys/devices/system/cpu/smt/control`: on, off, forceoff, notsupported or notimplemented; empty where the kernel has no such file."""
    sockets: int | None = None
    """Sockets with an online CPU; None if lscpu does not know them."""

    @property
    def described(self) -> str:
        """Return the text of a result: `2 (SMT on)`, `1 and 2 (SMT on)`."""
        return " and ".join(map(str, self.per_core)) + (f" (SMT {self.control})" if self.control else "")


def parse_threads(text: str) -> Threads:
    """Return the threads from a line `smt=<control>` and `lscpu --parse=CPU,CORE,SOCKET`: a line for each online CPU.

    >>> parse_threads("smt=on\\n# CPU,Core,Socket\\n0,0,0\\n1,1,1\\n2,0,0\\n3,1,1\\n")
    Threads(per_core=(2,), control='on', sockets=2)
    """
    lines, partial = whole_lines(text)
    found = [line.strip() for line in lines if line.startswith("smt=")]
    if len(found) != 1 or not (found[0][4:] in _SMT or found[0][4:].isdigit()):
        raise ValueError(f'no state of SMT: "{quoted(text)}"')
    if partial:  # a truncated core number is the number of another core
        raise ValueError(f'the list of CPUs is cut: "{quoted(partial[0])}"')
    rows = [line.strip() for line in lines if not line.startswith(("smt=", "#"))]
    broken = next((row for row in rows if not re.fullmatch(r"\d+,\d+(,\d*)?", row)), None)
    if broken is not None or not rows:
        raise ValueError(f'no core of a CPU: "{quoted(broken)}"' if broken else "no CPU is listed")
    columns = [[*row.split(","), ""] for row in rows]
    cores, sockets = Counter(row[1] for row in columns), {row[2] for row in columns}
    return Threads(tuple(sorted(set(cores.values()))), found[0][4:], None if "" in sockets else len(sockets))


_SMT: Final = frozenset({"", "on", "off", "forceoff", "notsupported", "notimplemented"})
"""Values of the kernel (Documentation/ABI/testing/sysfs-devices-system-cpu: smt/control); empty in a kernel without it.
Processors with more than two threads per core show the number that is on."""

THREADS = Probe(
    "threads",
    on="smt",
    # Core numbers of --parse are unique on the node, and offline CPUs are left out (lscpu(1)).
    command="echo smt=$(cat /sys/devices/system/cpu/smt/control 2>/dev/null); LC_ALL=C lscpu --parse=CPU,CORE,SOCKET",
    parse=parse_threads,
)
