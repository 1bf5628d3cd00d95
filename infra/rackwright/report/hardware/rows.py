"""Table rows of a report: each cell is a word or a number with its unit. Nodes with the same rows are combined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from rackwright.model.hostlists import host_list_items

Row = tuple[str, ...]
UNKNOWN_CELL: Final = "?"
"""Cell of a value that could not be read."""
NONE: Final = "-"
_GIB: Final = 1024
"""Factor from MiB to GiB and from GiB to TiB."""


def alike(nodes: Iterable[Mapping[str, Any]], rows: Callable[[Mapping[str, Any]], Sequence[Row]]) -> list[tuple[str, list[Row]]]:
    """Return the rows of all nodes, with nodes that have the same rows combined. Omit nodes without rows."""
    found: dict[tuple[Row, ...], list[str]] = {}
    for node in nodes:
        if cells := tuple(rows(node)):
            found.setdefault(cells, []).append(node["name"])
    return [(fold(names), list(cells)) for cells, names in found.items()]


def fold(names: Iterable[str]) -> str:
    """Return names as a Slurm host list.

    >>> fold(["worker0", "worker1", "worker2", "login0", "worker9"])
    'worker[0-2,9], login0'
    """
    return ", ".join(host_list_items(names))


def mebibytes(mib: float | None) -> str:
    """Return an amount of memory as text with a unit, or `?` for None.

    >>> mebibytes(2048), mebibytes(81559), mebibytes(1305000), mebibytes(None)
    ('2.0 GiB', '79.6 GiB', '1.2 TiB', '?')
    """
    if mib is None:
        return UNKNOWN_CELL
    return f"{mib / _GIB:.1f} GiB" if mib < _GIB * _GIB else f"{mib / _GIB / _GIB:.1f} TiB"


def summary(node: Mapping[str, Any]) -> list[Row]:
    """Return one row: CPUs, layout, memory, NUMA nodes, GPUs, fabric."""
    facts, plan = node["facts"], node["planned"]
    return [
        (_cpus(facts), _layout(facts["cpus"]), mebibytes(facts["memory"]), _numa(facts["numa"]), _gpus(plan, facts), _fabric(plan, facts))
    ]


def _cpus(facts: Mapping[str, Any]) -> str:
    return str(facts["cpus"]["total"]) if facts["cpus"] else UNKNOWN_CELL


def _layout(cpus: Mapping[str, Any] | None) -> str:
    """Return sockets × cores × threads."""
    counts = [cpus[key] for key in ("sockets", "cores_per_socket", "threads_per_core")] if cpus else [None]
    return UNKNOWN_CELL if None in counts else " × ".join(map(str, counts))


def _numa(domains: Collection[Any] | None) -> str:
    return UNKNOWN_CELL if domains is None else str(len(domains))


def _gpus(plan: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if not plan["gpus"]:
        return NONE
    return UNKNOWN_CELL if facts["gpus"] is None else _counted(gpu["product"] or UNKNOWN_CELL for gpu in facts["gpus"]) or "0"


def _fabric(plan: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    ports = facts["rdma"]
    if ports is None:
        return UNKNOWN_CELL
    working = _counted(
        " ".join(filter(None, (_rated(port["rate_gbps"]), port["link_layer"]))) for port in ports if port["state"] == "Active"
    )
    others = _counted(port["state"] or UNKNOWN_CELL for port in ports if port["state"] != "Active")
    return ", ".join(filter(None, (working, others))) or ("0" if plan["rails"] else NONE)


def _rated(gbps: float | None) -> str:
    return _rate(gbps) if gbps else ""


def _counted(words: Iterable[str]) -> str:
    listed = list(words)
    return ", ".join(f"{listed.count(word)} × {word}" for word in dict.fromkeys(listed))


def _rate(gbps: float | None) -> str:
    return f"{gbps:g} Gb/s" if gbps else UNKNOWN_CELL


def gpus(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per kind of GPU: indices, product, memory, driver, NUMA node, nearest cards."""
    links = node["facts"]["gpu_links"] or {"paths": {}, "numa": {}}
    rows: dict[Row, list[int]] = {}
    for gpu in node["facts"]["gpus"] or ():
        label = f"GPU{gpu['index']}"
        nearest = nearest_cards(links["paths"].get(label, {}))
        row = (
            gpu["product"] or UNKNOWN_CELL,
            mebibytes(gpu["memory_mib"]),
            gpu["driver"] or UNKNOWN_CELL,
            links["numa"].get(label, UNKNOWN_CELL),
            nearest,
        )
        rows.setdefault(row, []).append(gpu["index"])
    return [(fold(f"GPU{index}" for index in which), *row) for row, which in rows.items()]


_NEAR: Final = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Paths from the nearest (one PCIe bridge) to the farthest (across sockets); legend of `nvidia-smi topo -m`."""


def nearest_cards(paths: Mapping[str, str]) -> str:
    """Return the network cards with the shortest path to a GPU.

    >>> nearest_cards({"GPU1": "NV18", "mlx5_0": "PIX", "mlx5_1": "SYS"})
    'mlx5_0 PIX'
    """
    cards = {peer: path for peer, path in paths.items() if not peer.startswith("GPU") and path in _NEAR}
    best = min(cards.values(), key=_NEAR.index, default=None)
    return f"{', '.join(card for card, path in cards.items() if path == best)} {best}" if best else NONE


def links(node: Mapping[str, Any]) -> list[Row]:
    """Return the paths between GPUs: one row if all pairs have the same path, else one per kind of path."""
    found = node["facts"]["gpu_links"]
    if not found:
        return []
    pairs: dict[str, list[str]] = {}
    for gpu, paths in found["paths"].items():
        for peer, path in paths.items():
            if peer.startswith("GPU") and int(gpu[3:]) < int(peer[3:]):
                pairs.setdefault(path, []).append(f"{gpu[3:]}-{peer[3:]}")
    if len(pairs) == 1:
        return [(path, f"all {len(among)} pairs") for path, among in pairs.items()]
    return [(path, ", ".join(among)) for path, among in pairs.items()]


def rdma(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per port: device, state, rate, link layer, NUMA node, firmware."""
    return [
        (
            f"{port['device']}/{port['port']}",
            f"{port['state'] or UNKNOWN_CELL}, {port['physical'] or UNKNOWN_CELL}",
            _rate(port["rate_gbps"]),
            port["link_layer"] or UNKNOWN_CELL,
            _domain(port["numa"]),
            port["firmware"] or UNKNOWN_CELL,
        )
        for port in node["facts"]["rdma"] or ()
    ]


def interfaces(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per interface that is up or has a device."""
    return [
        (one["name"], one["state"], _rate(one["rate_gbps"]), one["link_layer"], one["driver"] or "virtual", _domain(one["numa"]))
        for one in node["facts"]["interfaces"] or ()
        if one["state"] == "up" or one["driver"]
    ]


def _domain(numa: int | None) -> str:
    return NONE if numa is None else str(numa)


def gpu_identities(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per GPU: index, PCI address, UUID."""
    return [(f"GPU{one['index']}", one["bus"] or UNKNOWN_CELL, one["uuid"] or UNKNOWN_CELL) for one in node["facts"]["gpus"] or ()]


def rdma_identities(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per port: device, PCI address, node GUID, port GUID."""
    return [
        (f"{one['device']}/{one['port']}", one["bus"] or NONE, one["node_guid"] or NONE, one["guid"] or NONE)
        for one in node["facts"]["rdma"] or ()
    ]


def interface_identities(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per interface that has a device: name, PCI address, MAC address."""
    return [
        (one["name"], one["bus"] or NONE, one["mac"] or NONE) for one in node["facts"]["interfaces"] or () if one["driver"] or one["bus"]
    ]


def disk_identities(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per name of a disk."""
    return [(one["name"], name) for one in node["facts"]["disks"] or () for name in one["ids"] or (NONE,)]


def mounts(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per mounted file system."""
    return [
        (one["point"], one["type"], one["source"], _bytes(one["size_bytes"]), _bytes(one["free_bytes"]))
        for one in node["facts"]["mounts"] or ()
    ]


def disks(node: Mapping[str, Any]) -> list[Row]:
    """Return one row per local disk."""
    return [
        (
            one["name"],
            one["model"] or NONE,
            _bytes(one["size_bytes"]),
            "rotating" if one["rotational"] else "flash",
            one["transport"] or NONE,
        )
        for one in node["facts"]["disks"] or ()
    ]


def _bytes(size: int) -> str:
    return mebibytes(size / _GIB / _GIB)
