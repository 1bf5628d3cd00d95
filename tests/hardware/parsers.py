"""Pure readers of what tools and the kernel say about hardware. Each raises ValueError, KeyError or IndexError on what it cannot read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rackwright.report.hardware.facts import Cpus, Disk, Gpu, GpuLinks, Interface, Mount, NumaNode, RdmaPort

_LINK_LAYERS: Final = {"1": "ethernet", "32": "infiniband", "772": "loopback"}
"""ARPHRD numbers (linux/if_arp.h)."""
_STYLED: Final = re.compile(r"\x1b\[[0-9;]*m")


def parse_cpus(text: str) -> Cpus:
    """`lscpu -J`; newer releases nest the fields, and cores may stand per cluster on Arm."""
    fields = dict(_lscpu_fields(json.loads(text)["lscpu"]))
    return Cpus(
        model=fields.get("Model name", fields.get("Vendor ID", "unnamed")),
        total=int(fields["CPU(s)"]),
        sockets=_count(fields.get("Socket(s)")),
        cores_per_socket=_count(fields.get("Core(s) per socket", fields.get("Core(s) per cluster"))),
        threads_per_core=_count(fields.get("Thread(s) per core")),
    )


def _lscpu_fields(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield row["field"].rstrip(":"), row.get("data") or ""
        yield from _lscpu_fields(row.get("children", ()))


def _count(value: str | None) -> int | None:
    return int(value) if value and value.isdigit() else None


def parse_memory(text: str) -> int:
    """MiB of MemTotal in /proc/meminfo.

    >>> parse_memory("MemTotal:       2097152 kB")
    2048
    """
    words = text.split()
    if words[0] != "MemTotal:" or words[2] != "kB":
        raise ValueError("no MemTotal")
    return int(words[1]) // 1024


def parse_numa(text: str) -> tuple[NumaNode, ...]:
    """Lines `index|CPU list|KiB` of the kernel's node folders; none where it is built without them.

    >>> parse_numa("0|0-31,64-95|1056456704")
    (NumaNode(index=0, cpus='0-31,64-95', memory_mib=1031696),)
    """
    rows = (line.split("|") for line in text.splitlines())
    return tuple(sorted((NumaNode(int(index), cpus, int(kib) // 1024) for index, cpus, kib in rows), key=lambda node: node.index))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Rows `index, name, MiB, driver, bus` of nvidia-smi's CSV; no rows at all means no GPUs."""
    if text.strip() == "No devices were found":
        return ()
    rows = ([value.strip() for value in line.split(",")] for line in text.splitlines() if line.strip())
    return tuple(Gpu(int(index), product, int(memory), driver, bus) for index, product, memory, driver, bus in rows)


def parse_gpu_links(text: str) -> GpuLinks:
    """The matrix of `nvidia-smi topo -m` with its legend of network cards."""
    lines = _STYLED.sub("", text).splitlines()
    heads = next(line for line in lines if line.split()[:1] == ["GPU0"]).split() if "GPU0" in text else []
    peers = [word for word in heads if re.fullmatch(r"(GPU|NIC)\d+", word)]
    if not peers:
        raise ValueError("no matrix")
    devices = dict(re.findall(r"^\s*(NIC\d+): (\S+)", "\n".join(lines), re.MULTILINE))
    rows = [line.split() for line in lines if re.match(r"GPU\d+\s+(X|NV|PIX|PXB|PHB|NODE|SYS|OK|\s)", line)]
    matrix = {row[0]: row[1 : len(peers) + 1] for row in rows if "Affinity" not in row}
    if set(matrix) != {peer for peer in peers if peer.startswith("GPU")} or any(len(row) < len(peers) for row in matrix.values()):
        raise ValueError("the matrix is cut short")
    paths = {
        gpu: {devices.get(peer, peer): path for peer, path in zip(peers, row, strict=True) if path != "X"} for gpu, row in matrix.items()
    }
    return GpuLinks(paths, {row[0]: _numa_affinity(row[len(peers) + 1 :]) for row in rows if "Affinity" not in row})


def _numa_affinity(rest: list[str]) -> str:
    """The word after the CPU list; `N/A` where the columns are not filled."""
    return rest[1] if len(rest) > 1 else "N/A"


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Lines `name|operstate|Mb/s|type|driver|node` of the kernel's network folders; loopback is left out.

    >>> parse_interfaces("eth0|up|100000|1|mlx5_core|0")
    (Interface(name='eth0', state='up', rate_gbps=100.0, link_layer='ethernet', driver='mlx5_core', numa=0),)
    """
    found = []
    for line in text.splitlines():
        name, state, speed, layer, driver, node = line.split("|")
        known = _LINK_LAYERS.get(layer, layer)
        if known != "loopback":
            rate = int(speed) / 1000 if speed.isdigit() and int(speed) else None
            found.append(Interface(name, state, rate, known, driver, _domain(node)))
    if not found and "loopback" not in {_LINK_LAYERS.get(line.split("|")[3]) for line in text.splitlines()}:
        raise ValueError("no interface is listed, not even loopback")
    return tuple(found)


def parse_rdma(text: str) -> tuple[RdmaPort, ...]:
    """What the kernel has, or what `ibstat` says where the fabric is simulated and the kernel has nothing."""
    return parse_ibstat(text) if text.startswith("CA '") else parse_sysfs(text)


def parse_ibstat(text: str) -> tuple[RdmaPort, ...]:
    """Blocks of adapters with their ports. A simulated one says `IB`, and the same rate of every link: that is none."""
    found = []
    for device, block in re.findall(r"^CA '([^']+)'\n(.*?)(?=^CA '|\Z)", text, re.MULTILINE | re.DOTALL):
        ports = re.findall(r"^\s+Port (\d+):\n(.*?)(?=^\s+Port \d+:|\Z)", block, re.MULTILINE | re.DOTALL)
        if len(ports) != int(re.findall(r"Number of ports: (\d+)", block)[0]):
            raise ValueError(f"{device} is cut short")
        for port, lines in ports:
            said = dict(re.findall(r"^\s+([A-Z][\w ]+): (.*?)\s*$", lines, re.MULTILINE))
            simulated = said["Link layer"] == "IB"
            rate = None if simulated else float(said["Rate"])
            layer = "InfiniBand" if simulated else said["Link layer"]
            found.append(RdmaPort(device, int(port), said["State"], said["Physical state"], rate, layer, None, ""))
    return tuple(found)


def parse_sysfs(text: str) -> tuple[RdmaPort, ...]:
    """Lines `device|port|state|physical|rate|layer|node|firmware` of the kernel's InfiniBand folders; none without such cards.

    >>> parse_sysfs("mlx5_0|1|4: ACTIVE|5: LinkUp|400 Gb/sec (4X NDR)|InfiniBand|0|28.39.1002")[0].rate_gbps
    400.0
    """
    found = []
    for line in text.splitlines():
        device, port, state, physical, rate, layer, node, firmware = line.split("|")
        logical = state.partition(": ")[2].capitalize() or state
        found.append(
            RdmaPort(device, int(port), logical, physical.partition(": ")[2] or physical, _gbps(rate), layer, _domain(node), firmware)
        )
    return tuple(found)


def _gbps(rate: str) -> float | None:
    words = rate.split()
    return float(words[0]) if words else None


def _domain(node: str) -> int | None:
    """The kernel writes -1 where a device belongs to no memory domain."""
    return int(node) if node.isdigit() else None


def parse_disks(text: str) -> tuple[Disk, ...]:
    """`lsblk -J -b -d`; disks of size 0 (an empty reader, zram that is off) are none."""
    return tuple(
        Disk(row["name"], (row["model"] or "").strip(), int(row["size"]), row["rota"] in (True, "1"), row["tran"] or "")
        for row in json.loads(text)["blockdevices"]
        if row["type"] == "disk" and int(row["size"])
    )


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """`df --output=target,source,fstype,size,avail -B1`; a file system of size 0 holds nothing."""
    head, *rows = text.splitlines()
    if head.split()[:2] != ["Mounted", "on"]:
        raise ValueError("no table of df")
    found = []
    for row in rows:
        point, source, kind, size, free = row.rsplit(None, 4)
        if size.isdigit() and int(size):
            found.append(Mount(point.strip(), source, kind, int(size), int(free)))
    return tuple(found)
