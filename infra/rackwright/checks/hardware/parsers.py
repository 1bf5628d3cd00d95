"""Pure parsers of hardware facts from tools and the kernel. Each raises ValueError, KeyError or IndexError if it cannot read its input.

Lists are read row by row: `Rows.why` quotes the rows that could not be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from rackwright.checks.cluster.harness.tool_output import (
    Row,
    UnreadableValue,
    decimal,
    integer,
    json_documents,
    lines_of,
    quoted,
    release,
    whole_lines,
    words,
)
from rackwright.checks.cluster.probes.gpu_topology import read_matrix
from rackwright.checks.cluster.probes.identity import parse_memory as read_memory
from rackwright.checks.cluster.probes.nvidia_smi import read_table
from rackwright.checks.hardware import identity
from rackwright.checks.hardware.partial_reading import PartialValue, Rows, read_each, read_lines, reasons, without
from rackwright.report.fabric.ibstat import AdapterBlock, read_ibstat
from rackwright.report.hardware.facts import Cpus, Disk, Gpu, GpuLinks, Interface, Mount, NumaNode, RdmaPort

T = TypeVar("T")
_LINK_LAYERS: Final = {"1": "ethernet", "32": "infiniband", "772": "loopback"}
"""ARPHRD numbers (linux/if_arp.h)."""
_WITH_MAC: Final = frozenset({"ethernet", "infiniband"})
"""Link layers whose addresses identify a card."""
_NO_SPEED: Final = 2**31 - 1
"""Mb/s: drivers report an unknown speed as -1, older kernels print it unsigned (SPEED_UNKNOWN, linux/ethtool.h)."""


def parse_cpus(text: str) -> Cpus:
    """Return the CPUs from `lscpu -J`; newer releases nest the fields, and Arm may list cores per cluster.

    Only CPUs that are on line count. Processors with cores of several types have one block of fields for each type.
    """
    (document,) = json_documents(text)
    fields: dict[str, list[str]] = {}
    for name, value in _lscpu_fields(document["lscpu"]):
        fields.setdefault(name, []).append(value)
    models = _models(fields)
    return Cpus(
        model=" + ".join(models),
        total=_online(fields) or int(fields["CPU(s)"][0]),
        sockets=_count(fields.get("Socket(s)"), models),
        cores_per_socket=_count(fields.get("Core(s) per socket", fields.get("Core(s) per cluster")), models),
        threads_per_core=_count(fields.get("Thread(s) per core")),
    )


def _lscpu_fields(rows: Iterable[Mapping[str, Any] | None]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row:
            yield row["field"].rstrip(":"), "" if row.get("data") is None else str(row["data"])
            yield from _lscpu_fields(row.get("children") or ())


def _models(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of all types of cores; `-` is none (a virtual machine, or an Arm core that lscpu does not know)."""
    for name in ("Model name", "BIOS Model name", "Vendor ID"):
        if models := [" ".join(model.split()) for model in dict.fromkeys(fields.get(name, ())) if model.strip(" -")]:
            return models
    return ["unnamed"]


def _online(fields: Mapping[str, Sequence[str]]) -> int:
    """Return the number of CPUs in a list such as `0-63,96`; 0 if there is none. `CPU(s)` also counts those that are off line."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?(?:,|$)", "".join(fields.get("On-line CPU(s) list", ())))
    return sum(int(last or first) - int(first) + 1 for first, last in ranges)


def _count(values: Sequence[str] | None, types: Sequence[str] = ()) -> int | None:
    """Return a number; None if it is unknown, or differs between types of cores, or counts the cores of one type only."""
    return int(values[0]) if values and len(types) <= 1 and len(set(values)) == 1 and values[0].isdigit() else None


def parse_memory(text: str) -> int:
    """Return MemTotal of /proc/meminfo in MiB.

    >>> parse_memory("MemTotal:       2097152 kB")
    2048
    """
    return read_memory(text)


def parse_numa(text: str) -> Rows[NumaNode]:
    """Return the nodes from lines `index|CPU list|KiB` of the kernel's node folders; none if the kernel has no NUMA support.

    >>> parse_numa("0|0-31,64-95|1056456704\\n")
    (NumaNode(index=0, cpus='0-31,64-95', memory_mib=1031696),)
    """
    rows = read_lines(text, _numa_node)
    return Rows(sorted(rows, key=lambda node: node.index), rows.why)


def _numa_node(line: str) -> NumaNode:
    index, cpus, kib = line.split("|")
    return NumaNode(int(index), cpus, int(kib) // 1024)


GPU_FIELDS: Final = ("index", "name", "memory.total", "driver_version", "pci.bus_id", "uuid")
"""Fields of `nvidia-smi --query-gpu`, in this order."""


def parse_gpus(text: str) -> Rows[Gpu]:
    """Return the GPUs from rows of GPU_FIELDS (CSV of nvidia-smi). One without a readable index is omitted; see `why`."""
    unread = list[UnreadableValue]()

    def gpu(row: Row) -> Gpu | None:
        index = without(row.read("index", integer), unread)
        product = without(row.read("name", words), unread)
        size = row.counter("memory.total", integer)  # None: the GPU shares the memory of its CPU
        memory = None if size is None else without(size, unread)
        driver = without(row.read("driver_version", release), unread)
        bus = without(row.read("pci.bus_id", words), unread)
        uuid = without(row.read("uuid", identity.gpu_uuid), unread)
        return None if index is None else Gpu(index, product, memory, driver, bus, uuid)

    found = read_table(text, GPU_FIELDS, gpu)
    if found.failure and not len(found):
        raise ValueError(f'no GPU is listed: "{quoted(found.failure)}"')
    if found.cut is not None:
        unread.append(found.cut)
    lost = f"{', '.join(found.lost)} {'does' if len(found.lost) == 1 else 'do'} not respond" if found.lost else ""
    return Rows((row for row in found if row is not None), reasons(unread, lost if unread else ""), found.lost)


def parse_gpu_links(text: str) -> GpuLinks | PartialValue[GpuLinks]:
    """Return the matrix of `nvidia-smi topo -m` with its legend of network cards. An unread connection is left out; see `why`."""
    matrix, unread = read_matrix(text), list[UnreadableValue]()
    names = {card: without(device, unread) or card for card, device in matrix.devices.items()}
    paths: dict[str, dict[str, str]] = {peer: {} for peer in matrix.peers if peer.startswith("GPU")}
    for (gpu, peer), way in matrix.paths.items():
        if gpu in paths and (path := without(way, unread)) is not None:
            paths[gpu][names.get(peer, peer)] = path
    numa = {gpu: domain for gpu, value in matrix.numa.items() if (domain := without(value, unread)) is not None}
    links = GpuLinks(paths, numa if matrix.numa else dict.fromkeys(paths, "N/A"))
    return PartialValue(links, reasons(unread)) if unread else links


def parse_interfaces(text: str) -> Rows[Interface]:
    """Return the interfaces from lines `name|operstate|Mb/s|type|driver|node|MAC|PCI` of the kernel's network folders, without loopback.

    >>> parse_interfaces("eth0|up|100000|1|mlx5_core|0|94:6d:ae:f0:12:34|0000:1a:00.0\\n")[0].mac
    '94:6d:ae:f0:12:34'
    """
    unread = list[UnreadableValue]()
    found = read_lines(text, lambda line: _interface(line, unread))
    if not found and "loopback" not in {_LINK_LAYERS.get((line.split("|") + [""] * 4)[3]) for line in lines_of(text)}:
        raise ValueError("no interface is listed, not even loopback")
    return Rows(found, _both(found.why, reasons(unread)))


def _interface(line: str, unread: list[UnreadableValue]) -> Interface | None:
    name, state, speed, layer, driver, node, address, bus = line.split("|")
    known = _LINK_LAYERS.get(layer, layer)
    if known == "loopback":
        return None
    rate = int(speed) / 1000 if speed.isdigit() and 0 < int(speed) < _NO_SPEED else None
    # The address of a tunnel is that of its end, of 4 or 16 bytes: sit0 exists wherever the kernel has loaded the module of IPv6 in IPv4.
    has_mac = address and known in _WITH_MAC
    mac = without(identity.read(f"the MAC address of {name}", address, identity.mac, line) if has_mac else None, unread)
    if not re.fullmatch(r"[a-z]+", state):  # `unknown` is a state: tunnels and many virtual links have no carrier (operstates.rst)
        raise ValueError(f'"{state}" is not a state of a link')
    return Interface(words(name), state, rate, words(known), driver, _domain(node), mac, identity.pci(bus))


def _both(*whys: str) -> str:
    return "; ".join(filter(None, whys))


def parse_rdma(text: str) -> tuple[RdmaPort, ...]:
    """Return the ports that the kernel lists, or those of `ibstat` if the fabric is simulated and the kernel lists none."""
    return parse_ibstat(text) if re.search(r"^CA '", text, re.MULTILINE) else parse_sysfs(text)


def parse_ibstat(text: str) -> Rows[RdmaPort]:
    """Return the ports of each adapter. A simulated adapter prints `IB`, and the same rate for every link, which is ignored."""
    lines, _ = whole_lines(text)
    said = read_ibstat(lines)
    found, unread = list[RdmaPort](), list[UnreadableValue]()
    for name, block in said.adapters.items():
        count = _only(block.cells, "Number of ports")
        if not count.isdigit() or int(count) != len(block.ports):
            unread.append(UnreadableValue(f"the number of ports of {name}", count or None, ""))
        found += [_ibstat_port(block, number, unread) for number in sorted(block.ports)]
    unread += [UnreadableValue(name, None, line) for name, line in said.failed.items() if name not in said.adapters]
    unread += [UnreadableValue("an adapter's title", None, said.strays[0]) for _ in said.strays[:1]]
    if unread and not any(port.state for port in found):
        raise ValueError(reasons(unread))
    return Rows(found, reasons(unread))


def _only(cells: Mapping[str, tuple[str, ...]], name: str) -> str:
    """Return a cell, or an empty text if it is missing or ambiguous."""
    said = cells.get(name, ())
    return said[0] if len(said) == 1 else ""


def _ibstat_port(block: AdapterBlock, number: int, unread: list[UnreadableValue]) -> RdmaPort:
    where, cells = f"{block.name} port {number}", block.ports[number]

    def cell(what: str, name: str, form: Callable[[str], T]) -> T | None:
        return without(identity.read(f"the {what} of {where}", _only(cells, name), form, ""), unread)

    simulated = _only(cells, "Link layer") == "IB" or _only(block.cells, "type") == "simulator"
    card = identity.read(f"the node GUID of {block.name}", _only(block.cells, "Node GUID"), identity.printed_guid, "")
    return RdmaPort(
        block.name,
        number,
        cell("state", "State", words),
        cell("physical state", "Physical state", words),
        None if simulated else cell("rate", "Rate", _gbps),
        "InfiniBand" if simulated else cell("link layer", "Link layer", _link_layer),
        None,
        "",
        node_guid=without(card, unread),
        guid=cell("GUID", "Port GUID", identity.printed_guid),
    )


def parse_sysfs(text: str) -> Rows[RdmaPort]:
    """Return the ports from lines of the kernel's InfiniBand folders; there may be none.

    A line is `device|port|state|physical|rate|layer|NUMA node|firmware|node GUID|GID 0|PCI`.

    >>> fe80, guid = "fe80:0000:0000:0000:", "946d:ae03:00f0:1234"
    >>> line = f"mlx5_0|1|4: ACTIVE|5: LinkUp|400 Gb/sec (4X NDR)|InfiniBand|0|28.39.1002|{guid}|{fe80}{guid}|0000:1a:00.0\\n"
    >>> parse_sysfs(line)[0].guid
    '0x946dae0300f01234'
    """
    unread = list[UnreadableValue]()
    found = read_lines(text, lambda line: _sysfs_port(line, unread))
    return Rows(found, _both(found.why, reasons(unread)))


def _sysfs_port(line: str, unread: list[UnreadableValue]) -> RdmaPort:
    device, port, state, physical, rate, layer, node, firmware, card, gid, bus = line.split("|")
    where = f"{words(device)} port {int(port)}"

    def cell(what: str, said: str, form: Callable[[str], T]) -> T | None:
        return without(identity.read(f"the {what} of {where}", said, form, line), unread)

    logical = cell("state", state, _numbered)
    return RdmaPort(
        words(device),
        int(port),
        None if logical is None else _LOGICAL.get(logical, logical.capitalize()),
        cell("physical state", physical, _numbered),
        cell("rate", rate, _gbps) if rate.strip() else None,
        cell("link layer", layer, _link_layer),
        _domain(node),
        firmware,
        node_guid=cell("node GUID", card, identity.guid),
        guid=cell("GUID", gid, identity.guid_of_gid),
        bus=identity.pci(bus),
    )


_LOGICAL: Final = {"INIT": "Initializing"}
"""States of the kernel (drivers/infiniband/core/sysfs.c, state_show) that ibstat calls otherwise."""


def _numbered(cell: str) -> str:
    """Return the word of a state of the kernel, such as `4: ACTIVE`."""
    found = re.fullmatch(r"\d+: (.+)", cell)
    return words(found[1] if found else "")


def _link_layer(cell: str) -> str:
    """Return the link layer. The kernel prints Unknown for EFA, which has another one (sysfs.c, link_layer_show)."""
    return cell if cell == "Unknown" else words(cell)


def _gbps(rate: str) -> float:
    """Return the rate of `400 Gb/sec (4X NDR)` or `56 (FDR10)`."""
    return decimal(words(rate).split()[0])


def _domain(node: str) -> int | None:
    """Return the NUMA node; the kernel writes -1 if a device belongs to none."""
    return int(node) if node.isdigit() else None


def parse_disks(text: str) -> Rows[Disk]:
    """Return the disks of `lsblk -J -b -d`, followed by lines `device|name` of /dev/disk/by-id and by `end|`.

    Disks of size 0 (an empty reader, zram that is off) are left out.
    """
    start = re.search(r"^\{", text, re.MULTILINE)
    table, end = json.JSONDecoder().raw_decode(text, start.start() if start else 0)
    links, why = identity.disk_links(text[end:])
    rows = read_each(table["blockdevices"], lambda row: _disk(row, links), "disk", lambda row: quoted(json.dumps(row)))
    return Rows(rows, _both(rows.why, why))


_NO_DISKS: Final = ("zram", "ram", "nbd")
"""Devices of type disk that are memory or another machine's: Documentation/admin-guide/devices.txt, blockdev/zram.rst."""


def _disk(row: Mapping[str, Any], links: Mapping[str, tuple[str, ...]]) -> Disk | None:
    if row["type"] != "disk" or row["name"].startswith(_NO_DISKS) or not int(row["size"]):
        return None
    spins, names = row["rota"] in (True, "1"), links.get(row["name"], ())
    return Disk(row["name"], (row.get("model") or "").strip(), int(row["size"]), spins, row.get("tran") or "", names)


def parse_mounts(text: str) -> Rows[Mount]:
    """Return the mounts of `df --output=source,fstype,size,avail,target -B1`; a file system of size 0 is left out.

    Source and mount point may contain blanks; between them are a word and two numbers. A file system that does not respond, or whose
    handle is stale, is quoted; one of another user, which this user may not query, is not.
    """
    if not re.search(r"^Filesystem .*Mounted on\s*$", text, re.MULTILINE):
        raise ValueError("no table of df")
    found = read_lines(text, _mount, row=r"^Filesystem |^(?!df: ).*\s/")
    failed = [quoted(line) for line in lines_of(text) if line.startswith("df: /") and not _NOT_PERMITTED.search(line)]
    return Rows({one.point: one for one in found}.values(), _both(found.why, *dict.fromkeys(failed)))


_NOT_PERMITTED: Final = re.compile(r": (Permission denied|Operation not permitted)\s*$")
"""Errors of df for a FUSE file system of another user (fuse(4), allow_other)."""


def _mount(row: str) -> Mount | None:
    if row.startswith("Filesystem "):
        return None
    found = re.fullmatch(r"(\S.*?)\s+(\S+)\s+(\d+|-)\s+(-?\d+|-)\s+(/.*)", row)
    if found is None:
        raise ValueError("no mount")
    source, kind, size, free, point = found.groups()
    if size == "-" or not integer(size):
        return None
    return Mount(point, source, kind, integer(size), integer(free))
