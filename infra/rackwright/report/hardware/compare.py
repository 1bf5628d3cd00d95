"""Comparison of a node's facts with the plan. Hardware that all nodes share with one machine is shown and not compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.catalog.checks import checks
from rackwright.inventory.reader import Inventory
from rackwright.report.hardware.facts import Facts, Part

_OF_THE_MACHINE: Final = (Part.CPUS, Part.MEMORY, Part.NUMA, Part.DISKS)
"""Hardware that a container shares with all containers of the machine."""
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
    """Return the plan's values for a node, by part."""
    record = declared.nodes[name]
    gpus = record.get("gpus")
    return {
        "cpus": record["cpus"],
        "memory_mib": record["memory_mib"],
        "gpus": {key: gpus[key] for key in ("count", "product", "memory_mib", "driver", "nvswitch")} if gpus else None,
        "rails": list(record.get("rails") or ()),
        **{key: declared.fabric[key] if declared.fabric else None for key in ("rate_gbps", "link_layer")},
        "mounts": [one["mount"] for one in declared.cluster.get("storage") or () if name in one["clients"] and name not in one["servers"]],
    }


def differences(plan: Mapping[str, Any], facts: Facts, simulated: frozenset[Part]) -> tuple[Difference, ...]:
    """Return all differences from the plan, without CPUs, memory and disks of a shared machine."""
    shared = simulated.intersection(_OF_THE_MACHINE)
    found = [*(() if shared else _capacity(plan, facts)), *_gpus(plan, facts), *_gpu_links(plan, facts, simulated)]
    found += [*_rails(plan, facts, simulated), *_mounts(plan, facts)]
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
    share = checks()["gpu.memory_matches_plan"].limit or 0.0
    for gpu in facts.gpus:
        for subject, value, right in (("product", gpu.product, wanted["product"]), ("driver", gpu.driver, wanted["driver"])):
            if value is not None and value != right:
                yield Difference(f"GPU {gpu.index} {subject}", right, value)
        size = wanted["memory_mib"]  # None: the GPU shares the memory of its CPU
        if None not in (gpu.memory_mib, size) and abs(gpu.memory_mib - size) > share * size:
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
            yield Difference(rail, f"port {_PORT}", "no such port" if there else "no such device")
        elif (port.state, port.physical) != ("Active", "LinkUp"):
            yield Difference(rail, "Active, LinkUp", f"{port.state}, {port.physical}")
        elif port.link_layer != plan["link_layer"]:
            yield Difference(f"{rail} link layer", plan["link_layer"], port.link_layer)
        elif Part.RDMA not in simulated and port.rate_gbps != plan["rate_gbps"]:
            yield Difference(f"{rail} rate", f"{plan['rate_gbps']} Gb/s", f"{port.rate_gbps or 0:g} Gb/s")


def _mounts(plan: Mapping[str, Any], facts: Facts) -> Iterator[Difference]:
    if facts.mounts is None:
        return
    mounted = {mount.point for mount in facts.mounts}
    for point in plan["mounts"]:
        if point not in mounted:
            yield Difference(point, "mounted", "not mounted")
