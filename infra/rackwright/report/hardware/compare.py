"""Comparison of a node's facts with the plan. Hardware that all nodes share with one machine is shown and not compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.catalog.checks import checks
from rackwright.inventory.reader import Inventory
from rackwright.report.hardware.facts import Facts, Gpu, Part, RdmaPort

_OF_THE_MACHINE: Final = (Part.CPUS, Part.MEMORY, Part.NUMA, Part.DISKS)
"""Hardware that a container shares with all containers of the machine."""
_GPU_KEYS: Final = ("count", "product", "memory_mib", "driver", "nvswitch", "others")
"""Keys of the plan that are compared; `others` is in the plan of nodes with GPUs of several models."""
_NAMED: Final = 4
"""Maximum number of GPU pairs to name; more are counted."""
_PORT: Final = 1
"""Port of a rail's card: the plan names cards, and fabric cards have one port each."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference from the plan."""

    subject: str
    planned: str
    found: str


def simulated_parts(declared: Inventory) -> frozenset[Part]:
    """Return the parts that are simulated on this target, so that they prove nothing about hardware."""
    found = {"capacity": _OF_THE_MACHINE, "gpu": (Part.GPUS, Part.GPU_LINKS), "fabric": (Part.RDMA,)}
    return frozenset(part for subsystem in declared.simulated for part in found.get(subsystem, ()))


def planned(declared: Inventory, name: str) -> dict[str, Any]:
    """Return the plan's values for a node, by part. GPUs of AMD are left out: no part of the report reads them."""
    record = declared.nodes[name]
    gpus = record.get("gpus") if (record.get("gpus") or {}).get("vendor") != "amd" else None
    return {
        "cpus": record["cpus"],
        "memory_mib": record["memory_mib"],
        "gpus": {key: gpus[key] for key in _GPU_KEYS if key in gpus} if gpus else None,
        "rails": list(record.get("rails") or ()),
        **{key: declared.fabric[key] if declared.fabric else None for key in ("rate_gbps", "link_layer")},
        **({"adapters": record["adapters"]} if record.get("adapters") else {}),
        "mounts": [one["mount"] for one in declared.cluster.get("storage") or () if name in one["clients"] and name not in one["servers"]],
    }


def differences(plan: Mapping[str, Any], facts: Facts, simulated: frozenset[Part]) -> tuple[Difference, ...]:
    """Return all differences from the plan, without CPUs, memory and disks of a shared machine."""
    shared = simulated.intersection(_OF_THE_MACHINE)
    found = [*(() if shared else _capacity(plan, facts)), *_gpus(plan, facts), *_gpu_links(plan, facts, simulated)]
    found += [*_rails(plan, facts, simulated), *_adapters(plan, facts), *_mounts(plan, facts)]
    return tuple(found)


def _capacity(plan: Mapping[str, Any], facts: Facts) -> Iterator[Difference]:
    if facts.cpus is not None and facts.cpus.total != plan["cpus"]:
        yield Difference("CPUs", str(plan["cpus"]), str(facts.cpus.total))
    share = checks()["node.memory_matches_plan"].limit or 1.0
    if facts.memory is not None and facts.memory < plan["memory_mib"] * share:
        yield Difference("memory", f"at least {share:.0%} of {plan['memory_mib']} MiB", f"{facts.memory} MiB")


def _gpus(plan: Mapping[str, Any], facts: Facts) -> Iterator[Difference]:
    if facts.gpus is None or not plan["gpus"]:
        return
    wanted = plan["gpus"]
    if facts.gpus_lost:
        verb = "does not" if len(facts.gpus_lost) == 1 else "do not"
        found = f"{len(facts.gpus)} of {wanted['count']} GPUs respond; {', '.join(facts.gpus_lost)} {verb}"
        yield Difference("GPUs", str(wanted["count"]), found)
    elif len(facts.gpus) != wanted["count"]:
        yield Difference("GPUs", str(wanted["count"]), str(len(facts.gpus)))
    elif wanted.get("others"):
        yield from _mix(wanted, facts.gpus)
    yield from _each_gpu(wanted, facts.gpus)


def _mix(wanted: Mapping[str, Any], gpus: Collection[Gpu]) -> Iterator[Difference]:
    """Yield a different number of GPUs by product, if all products were read."""
    planned = {one["product"]: len(one["devices"]) for one in wanted["others"]}
    planned = {wanted["product"]: wanted["count"] - sum(planned.values()), **planned}
    found = Counter(gpu.product for gpu in gpus)
    if None not in found and found != planned:
        right, wrong = (", ".join(f"{count} × {product}" for product, count in mix.items()) for mix in (planned, found))
        yield Difference("GPUs", right, wrong)


def _planned_sizes(wanted: Mapping[str, Any]) -> tuple[dict[str | None, Any], Any]:
    """Return the planned memory by product, and that of a GPU with another product: unknown where several models are planned."""
    others = wanted.get("others", ())
    return {one["product"]: one["memory_mib"] for one in (wanted, *others)}, None if others else wanted["memory_mib"]


def _each_gpu(wanted: Mapping[str, Any], gpus: Collection[Gpu]) -> Iterator[Difference]:
    sizes, unplanned = _planned_sizes(wanted)
    product = " or ".join(map(str, sizes))
    share = checks()["gpu.memory_matches_plan"].limit or 0.0
    for gpu in gpus:
        for subject, value, right in (("product", gpu.product, product), ("driver", gpu.driver, wanted["driver"])):
            if value is not None and value != right and not (subject == "product" and value in sizes):
                yield Difference(f"GPU {gpu.index} {subject}", right, value)
        size: Any = sizes.get(gpu.product, unplanned)  # None: the GPU shares the memory of its CPU
        if gpu.memory_mib is not None and size is not None and abs(gpu.memory_mib - size) > share * size:
            yield Difference(f"GPU {gpu.index} memory", f"{size} MiB within {share:.0%}", f"{gpu.memory_mib} MiB")


def _gpu_links(plan: Mapping[str, Any], facts: Facts, simulated: frozenset[Part]) -> Iterator[Difference]:
    """Yield pairs of GPUs without NVLink: with NVSwitch every GPU reaches every other one; other pairs use PCIe and the CPUs."""
    if facts.gpu_links is None or not plan["gpus"] or not plan["gpus"]["nvswitch"] or Part.GPU_LINKS in simulated:
        return
    astray: dict[str, list[str]] = {}
    for gpu, paths in facts.gpu_links.paths.items():
        for peer, path in paths.items():
            if peer.startswith("GPU") and int(gpu[3:]) < int(peer[3:]) and not path.startswith("NV"):
                astray.setdefault(path, []).append(f"{gpu[3:]}-{peer[3:]}")
    if astray:
        found = (f"{path} between {', '.join(pairs) if len(pairs) <= _NAMED else f'{len(pairs)} pairs'}" for path, pairs in astray.items())
        yield Difference("GPU links", "NVLink between all pairs", "; ".join(found))


def _rails(plan: Mapping[str, Any], facts: Facts, simulated: frozenset[Part]) -> Iterator[Difference]:
    """Yield rails whose card is missing, not Active, not LinkUp, or has another link layer or rate; a simulated card has no rate."""
    if facts.rdma is None:
        return
    ports = {(port.device, port.port): port for port in facts.rdma}
    for rail in plan["rails"]:
        port = ports.get((rail, _PORT))
        if port is None:
            there = rail in {device for device, _ in ports}
            if Part.RDMA not in facts.unknown:
                yield Difference(rail, f"port {_PORT}", "no such port" if there else "no such device")
        else:
            yield from _port(plan, rail, port, simulated, all_read=Part.RDMA not in facts.unknown)


def _port(plan: Mapping[str, Any], rail: str, port: RdmaPort, simulated: frozenset[Part], *, all_read: bool) -> Iterator[Difference]:
    """Yield the first difference of a rail's port. A value that was not read is none."""
    if (port.state or "Active", port.physical or "LinkUp") != ("Active", "LinkUp"):
        yield Difference(rail, "Active, LinkUp", f"{port.state or 'unknown'}, {port.physical or 'unknown'}")
    elif port.link_layer and port.link_layer != plan["link_layer"]:
        yield Difference(f"{rail} link layer", plan["link_layer"], port.link_layer)
    elif Part.RDMA not in simulated and port.rate_gbps != plan["rate_gbps"] and (port.rate_gbps is not None or all_read):
        yield Difference(f"{rail} rate", f"{plan['rate_gbps']} Gb/s", f"{port.rate_gbps or 0:g} Gb/s")


_IDENTITIES: Final = {"port_guid": "port GUID", "node_guid": "node GUID", "pci": "PCI address", "mac": "MAC address"}
"""Declared identities of an adapter, as differences name them."""


def _adapters(plan: Mapping[str, Any], facts: Facts) -> Iterator[Difference]:
    """Yield declared adapters that are missing, or whose device has another identity: the card was replaced, moved or renamed."""
    if facts.rdma is None:
        return
    devices = {port.device for port in facts.rdma}
    for device, declared in plan.get("adapters", {}).items():
        if device not in devices and device not in plan["rails"] and Part.RDMA not in facts.unknown:
            yield Difference(device, "present", "no such device")
        for field, values in _reported(facts, device).items():
            if field in declared and values and declared[field] not in values:
                yield Difference(f"{device} {_IDENTITIES[field]}", declared[field], " and ".join(values))


def _reported(facts: Facts, device: str) -> dict[str, list[str]]:
    """Return the reported identities of a device, empty for a value that it does not report. A card may have several interfaces.

    A bond and a VLAN have no PCI address of their own: the interfaces of the card are below them, with their permanent addresses.
    """
    ports = [port for port in facts.rdma or () if (port.device, port.port) == (device, _PORT)]
    if not ports:
        return {}
    (port,) = ports[:1]
    macs = {one.mac for one in facts.interfaces or () if one.mac and one.link_layer == "ethernet" and port.bus and one.bus == port.bus}
    found: dict[str, list[str | None]] = {
        "port_guid": [port.guid],
        "node_guid": [port.node_guid],
        "pci": [port.bus],
        "mac": [*sorted(macs)],
    }
    return {field: [value for value in values if value] for field, values in found.items()}


def unread_identities(plan: Mapping[str, Any], facts: Facts) -> dict[Part, str]:
    """Return why declared identities of adapters could not be compared, by the part that does not report them."""
    found: dict[Part, list[str]] = {}
    for device, declared in plan.get("adapters", {}).items():
        reported = _reported(facts, device)
        for field in (field for field in _IDENTITIES if field in declared and reported and not reported[field]):
            part = Part.INTERFACES if field == "mac" else Part.RDMA
            if getattr(facts, part) is not None and part not in facts.unknown:
                found.setdefault(part, []).append(f"the {_IDENTITIES[field]} of {device} is declared, and the node reports none")
    return {part: "; ".join(reasons) for part, reasons in found.items()}


def unread_sizes(plan: Mapping[str, Any], facts: Facts) -> dict[Part, str]:
    """Return which GPUs report no memory of their own, although the plan has its size."""
    if not plan["gpus"] or Part.GPUS in facts.unknown:
        return {}
    sizes, unplanned = _planned_sizes(plan["gpus"])
    silent = [
        f"GPU {gpu.index} reports no memory, and {size} MiB are planned"
        for gpu in facts.gpus or ()
        if gpu.memory_mib is None and (size := sizes.get(gpu.product, unplanned)) is not None
    ]
    return {Part.GPUS: "; ".join(silent)} if silent else {}


def _mounts(plan: Mapping[str, Any], facts: Facts) -> Iterator[Difference]:
    if facts.mounts is None:
        return
    mounted = {mount.point for mount in facts.mounts}
    for point in plan["mounts"]:
        if point not in mounted and Part.MOUNTS not in facts.unknown:
            yield Difference(point, "mounted", "not mounted")
