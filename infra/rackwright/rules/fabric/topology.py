"""The fabric: known switches in sufficient number, a port for each node, and a simulation that can run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rackwright.catalog import gpus
from rackwright.catalog.compatibility import has_nvlink_rack
from rackwright.catalog.site import hint_to_add
from rackwright.catalog.switches import Switch, Use, links_worth, switches
from rackwright.derive.fabric import (
    gpus_of,
    groups_of,
    hcas_of,
    manages_apart,
    measures_of,
    nodes_of,
    places_of,
    port_of,
    rails_of,
    switch_of,
)
from rackwright.derive.fabric_layout import compute_layout
from rackwright.model.fabric.switches import DEFAULT_SWITCH, Fabric, FabricKind
from rackwright.model.finding import Severity, did_you_mean, did_you_mean_model
from rackwright.model.groups import MAX_NODES, Role
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.targets.lab import LabOs
from rackwright.model.targets.vm import VmTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_LAYER: Final = {FabricKind.INFINIBAND: "InfiniBand", FabricKind.ROCE: "Ethernet"}
_ORDERED: Final = re.compile(r"m?(?P<model>(?:qm|sn|sb|sx|cs|q)[0-9]+c?)(?:-[a-z0-9-]+)?")
"""NVIDIA's ordering numbers: M, the model, and a suffix for power supplies and air flow (MSN2700-CS2F; SN2000 user manual, ordering)."""
_LONGEST: Final = 31
"""Characters of a simulated HCA's name, `worker0 mlx5_0` (ibsim 0.12: SIM_HOST)."""
_DESCRIPTION: Final = 64
"""Bytes of NodeDescription (InfiniBand Architecture Specification, volume 1, 14.2.5.2; Linux: IB_DEVICE_NODE_DESC_MAX)."""
_WITHOUT_BLOCKS: Final = ("debian-12", "ubuntu-22.04", "rocky-9")
"""Releases whose Slurm has no topology/block; it came with 23.11."""


def _declared(case: RuleContext) -> Fabric | None:
    """Return the fabric if its switch is known; rule fabric-switch reports an unknown one."""
    fabric = case.cluster.fabric
    return fabric if fabric is not None and switch_of(fabric) is not None else None


@rule("fabric-target")
def fabric_target(case: RuleContext) -> Iterator[Violation]:
    """A cloud has its own cabling."""
    if case.cluster.fabric is not None and case.cluster.target.costs_money:
        yield Violation("fabric", "EC2 has its own fabric", "remove it; `target.instances.*.efa` connects instances to EC2's fabric")


@rule("fabric-switch")
def fabric_switch(case: RuleContext) -> Iterator[Violation]:
    """The model determines ports and rate."""
    fabric = case.cluster.fabric
    if fabric is None:
        return
    layer, use = _LAYER[fabric.kind], Use.SIMULATION if isinstance(case.cluster.target, VmTarget) else Use.COMPUTE
    fitting = [name for name, row in switches().items() if row.use is use and row.link_layer == layer]
    if not fitting:  # rule vm-rdma reports the kind
        return
    name = fabric.switch or DEFAULT_SWITCH[fabric.kind]
    known = switches().get(name)
    if known is None:
        ordered = _ORDERED.fullmatch(name)
        meant = ordered["model"] if ordered and ordered["model"] in fitting else None
        hint = f"did you mean `{meant}`?" if meant else did_you_mean_model(name, fitting, hint_to_add("switches", name))
        yield Violation("fabric.switch", f"switch `{name}` is not in the catalogue", hint)
    elif name not in fitting:
        yield Violation("fabric.switch", _unfit(known, layer, use), f"use one of {', '.join(fitting)}")


def _unfit(switch: Switch, layer: str, use: Use) -> str:
    """Return why a fabric cannot consist of this switch."""
    if use is Use.SIMULATION:
        return f"{switch.product} is hardware, and target vm simulates its switches"
    if switch.use is Use.SIMULATION:
        return f"{switch.product} exists between virtual machines only"
    what = f"an {switch.link_layer} switch" if switch.use is Use.COMPUTE else "a switch for management"
    return f"{switch.product} is {what}, but the fabric is {layer}"


@rule("fabric-rate")
def fabric_rate(case: RuleContext) -> Iterator[Violation]:
    """A port is used whole, also by a slower HCA, or is split, if the switch can split it."""
    fabric = _declared(case)
    switch = switch_of(fabric) if fabric else None
    if fabric is None or switch is None or (fabric.rate is None and fabric.split is None):
        return
    if switch.use is Use.SIMULATION:  # rule vm-rdma has the reason for its rates
        return
    port = port_of(fabric)
    if port is None:
        yield _unserved(fabric, switch)
    elif port.rate != switch.speed and _simulates(case):
        yield Violation("fabric.rate", "the simulated fabric has no split ports", "remove it; target hosts can have them")


def _unserved(fabric: Fabric, switch: Switch) -> Violation:
    """Return why the ports of a switch cannot serve HCAs of the declared rate and split."""
    parts = ", ".join(f"{rate} (split in {number})" for rate, number in switch.splits.items())
    have = f"ports of {switch.product} have {switch.speed}"
    if fabric.split is not None and switch.port_at(fabric.rate) is not None:
        wanted = next((rate for rate, number in switch.splits.items() if number == fabric.split), None)
        hint = f"use `rate: {wanted}`" if wanted else "remove it"
        return Violation("fabric.split", f"{have}; {fabric.rate or switch.speed} does not split a port in {fabric.split}", hint)
    meant = next((name for name in _spellings(fabric.rate or "") if switch.port_at(name, fabric.split)), None)
    if meant is not None:
        return Violation("fabric.rate", f"`{fabric.rate}` is not the name of a rate", f"write `{meant}`")
    split = f", or {parts}" if parts else ", and no source says that they can be split"
    hint = f"use {' or '.join(switch.splits)}, or remove it" if parts else "remove it, or use a switch whose ports can be split"
    slower = f"; a lower speed of whole ports is possible, too, like {'HDR' if switch.link_layer == 'InfiniBand' else '25GbE'}"
    return Violation("fabric.rate", f"{have}{split} (found {fabric.rate})", hint + slower)


def _spellings(rate: str) -> tuple[str, ...]:
    """Return what a rate may be meant as: hdr as HDR, 100G and 100Gbps as 100GbE."""
    number = re.fullmatch(r"([0-9]+)\s*(g|gb|gbe|gbit|gbps|gige)?", rate, re.IGNORECASE)
    return (rate.upper(), *((f"{number[1]}GbE",) if number else ()))


@rule("fabric-group-unknown")
def fabric_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """A misspelt group would be left without cables."""
    fabric = case.cluster.fabric
    if fabric is None:
        return
    named = [("fabric.groups", name) for name in fabric.groups] + [(f"fabric.dpus.{name}", name) for name in fabric.dpus]
    for path, name in named:
        if name not in case.cluster.groups:
            yield Violation(path, f"there is no group `{name}`", did_you_mean(name, case.cluster.groups))


@rule("fabric-empty")
def fabric_empty(case: RuleContext) -> Iterator[Violation]:
    """Switches without nodes have no effect."""
    fabric = case.cluster.fabric
    if fabric is not None and not fabric.groups and not groups_of(case.cluster, fabric):
        yield Violation("fabric", "no group has GPUs, so no node is connected", "list groups with `groups: […]`, or remove it")


@rule("fabric-hcas")
def fabric_hcas(case: RuleContext) -> Iterator[Violation]:
    """Every rail is a separate device."""
    fabric = case.cluster.fabric
    if fabric is None or not fabric.hcas:
        return
    if len(set(fabric.hcas)) < len(fabric.hcas):
        yield Violation("fabric.hcas", "a device is listed twice", "list one device for each rail")
    elif fabric.rails is not None and len(fabric.hcas) != fabric.rails:
        yield Violation("fabric.hcas", f"{len(fabric.hcas)} devices for {fabric.rails} rails", "list one device for each rail, in order")


@rule("fabric-hca-description")
def fabric_hca_description(case: RuleContext) -> Iterator[Violation]:
    """InfiniBand tools print the node description of an HCA, `node device`; the fabric would truncate a longer one."""
    fabric = case.cluster.fabric
    if fabric is None or fabric.kind is not FabricKind.INFINIBAND or _simulates(case):
        return
    longest = max(_descriptions(case, fabric), key=len, default="")
    if len(longest) > _DESCRIPTION:
        hint = f"shorten the group's name, or rename the device with udev: at most {_DESCRIPTION} characters together"
        yield Violation("fabric.hcas", f"`{longest}` has {len(longest)} characters, too many for a node description", hint)


@rule("fabric-rails-missing", Severity.WARNING)
def fabric_rails_missing(case: RuleContext) -> Iterator[Violation]:
    """The number of HCAs follows from the GPUs; without GPUs, the number of HCAs to buy would be a guess."""
    gpus = _gpus_with_hcas(case)
    if gpus and not any(gpus.values()):
        cause = f"no node of {', '.join(gpus)} has GPUs from which to derive the number of HCAs, so one is assumed"
        yield Violation("fabric.rails", cause, "declare `rails:`")


@rule("fabric-rails-mismatch")
def fabric_rails_mismatch(case: RuleContext) -> Iterator[Violation]:
    """All nodes of a fabric have the same rails, and the largest number would be an assumption for the others."""
    gpus = _gpus_with_hcas(case)
    if any(gpus.values()) and len(set(gpus.values())) > 1:
        (first, most), *others = gpus.items()
        cause = ", ".join((f"{most} GPUs in a node of {first}", *(f"{count} of {name}" for name, count in others)))
        hint = "declare the `rails` or `hcas` that all groups have, or exclude the groups that differ with `groups`"
        yield Violation("fabric.rails", cause, hint)


def _gpus_with_hcas(case: RuleContext) -> dict[str, int]:
    """Return group -> GPUs per node, for groups whose HCAs follow from their GPUs."""
    fabric = case.cluster.fabric
    return {} if fabric is None or fabric.rails is not None or fabric.hcas else gpus_of(case.cluster, fabric)


@rule("fabric-too-large")
def fabric_too_large(case: RuleContext) -> Iterator[Violation]:
    """Three levels of switches have a maximum: each core connects to every pod."""
    fabric = _declared(case)
    switch = switch_of(fabric) if fabric else None
    if fabric is None or switch is None or measures_of(case.cluster, fabric, switch) is not None:
        return
    nodes, rails = nodes_of(case.cluster, fabric), rails_of(case.cluster, fabric)
    most = _most_nodes(case, fabric)
    blocking = "non-blocking" if fabric.oversubscription == 1 else f"at {fabric.oversubscription:g}:1"
    cause = f"three levels of {switch.product} carry {most} nodes of {rails} rails {blocking}, not {nodes}"
    own = " (the subnet manager's own HCA takes a port of every leaf)" if manages_apart(case.cluster, fabric) else ""
    hint = f"use `max_nodes: {most}` or fewer nodes" if most else "use fewer rails, or a switch with more ports"
    yield Violation("fabric.max_nodes", cause + own, f"{hint}, or a higher `oversubscription`")


def _most_nodes(case: RuleContext, fabric: Fabric) -> int:
    """Return the maximum number of nodes of the fabric."""
    switch = switch_of(fabric)
    assert switch is not None
    port = port_of(fabric)
    split = port.links if port else 1
    low, high = 0, min(MAX_NODES, switch.ports**3 * split)
    while low < high:
        middle = (low + high + 1) // 2
        fits = compute_layout(
            ports=switch.ports,
            rails=rails_of(case.cluster, fabric),
            nodes=middle,
            oversubscription=fabric.oversubscription,
            topology=fabric.topology,
            spare=int(manages_apart(case.cluster, fabric)),
            split=split,
            worth=links_worth(switch.rate_gbps, port.gbps) if port else 1,
        )
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


@rule("fabric-node-out-of-range")
def fabric_node_out_of_range(case: RuleContext) -> Iterator[Violation]:
    """A node beyond the planned size has no port."""
    fabric = case.cluster.fabric
    if fabric is None:
        return
    nodes = nodes_of(case.cluster, fabric)
    for name, first in places_of(case.cluster, fabric).items():
        count = case.cluster.groups[name].count
        if count and first + count > nodes:
            cause = f"group {name} ends at place {first + count}, but the fabric is planned for {nodes} nodes"
            hint = (
                f"use {first + count}, which moves cables of an existing fabric; or, before the first `up`, reserve fewer places: each "
                "group has as many as its `reserved_addresses` (64 for workers)"
            )
            yield Violation("fabric.max_nodes", cause, hint)


@rule("fabric-subnet-manager")
def fabric_subnet_manager(case: RuleContext) -> Iterator[Violation]:
    """Without a subnet manager no InfiniBand port becomes active."""
    fabric = case.cluster.fabric
    name = fabric.subnet_manager if fabric else None
    if fabric is None or name is None:
        return
    if fabric.kind is FabricKind.ROCE:
        yield Violation("fabric.subnet_manager", "Ethernet has no subnet manager", "remove it")
    elif name not in case.node_names:
        yield Violation("fabric.subnet_manager", f"no group declares a node {name}", did_you_mean(name, case.node_names))
    elif any(member.name == name and not member.is_in for member in case.members):
        yield Violation("fabric.subnet_manager", f"{name} is out", "use a node that is in")


@rule("fabric-subnet-manager-missing")
def fabric_subnet_manager_missing(case: RuleContext) -> Iterator[Violation]:
    """An unmanaged switch runs no subnet manager, and without one no port becomes active."""
    fabric = _declared(case)
    switch = switch_of(fabric) if fabric else None
    if fabric is None or switch is None or fabric.kind is FabricKind.ROCE or fabric.subnet_manager is not None:
        return
    if switch.subnet_manager is False and switch.link_layer == _LAYER[fabric.kind] and not _simulates(case):
        cause = f"is missing: {switch.product} cannot run the subnet manager"
        yield Violation("fabric.subnet_manager", cause, "set the node that runs it, for example login0")


@rule("fabric-subnet-size", Severity.WARNING)
def fabric_subnet_size(case: RuleContext) -> Iterator[Violation]:
    """The subnet manager of a switch supports a limited number of nodes."""
    fabric = _declared(case)
    switch = switch_of(fabric) if fabric else None
    if fabric is None or switch is None or fabric.subnet_manager is not None or switch.subnet_manager_nodes is None:
        return
    nodes = sum(case.cluster.groups[name].count for name in groups_of(case.cluster, fabric))
    hcas = nodes * rails_of(case.cluster, fabric)
    if hcas > switch.subnet_manager_nodes:
        cause = f"{hcas} HCAs, but the subnet manager in {switch.product} serves {switch.subnet_manager_nodes} nodes"
        yield Violation("fabric.subnet_manager", cause, "set the node that manages the subnet, or run UFM")


@rule("fabric-simulation")
def fabric_simulation(case: RuleContext) -> Iterator[Violation]:
    """A node runs the simulator and the subnet manager; only InfiniBand can be simulated, names have a maximum length."""
    fabric = case.cluster.fabric
    if fabric is None or not _simulates(case):
        return
    if fabric.kind is FabricKind.ROCE:
        yield Violation("fabric.kind", "only InfiniBand can be simulated", "use `kind: infiniband`, or target hosts")
    elif fabric.subnet_manager is None:
        yield Violation(
            "fabric.subnet_manager", "is missing: the simulated fabric runs on a node", "set a node that is not a worker, like login0"
        )
    if case.cluster.target.os is LabOs.DEBIAN_12:
        yield Violation("target.os", "ibsim 0.10 of Debian 12 reports NDR as SDR", "use `os: debian-13`, or remove the fabric")
    longest = max(_descriptions(case, fabric), key=len, default="")
    if len(longest) > _LONGEST:
        yield Violation("fabric.hcas", f"`{longest}` is too long for the name of a simulated HCA", f"use at most {_LONGEST} characters")


def _simulates(case: RuleContext) -> bool:
    """Return whether ibsim simulates the fabric. Virtual machines have links that carry frames."""
    return "fabric" in case.cluster.target.simulated and not isinstance(case.cluster.target, VmTarget)


def _descriptions(case: RuleContext, fabric: Fabric) -> Iterator[str]:
    """Return the names of all HCAs, including that of a subnet manager that is no node of the fabric."""
    hcas, groups = hcas_of(case.cluster, fabric), frozenset(groups_of(case.cluster, fabric))
    yield from (f"{member.name} {hca}" for member in case.members if member.group in groups for hca in hcas)
    if manages_apart(case.cluster, fabric):
        yield f"{fabric.subnet_manager} {hcas[0]}"


@rule("fabric-nvlink-domain")
def fabric_nvlink_domain(case: RuleContext) -> Iterator[Violation]:
    """Slurm needs topology/block for NVLink domains."""
    fabric = case.cluster.fabric
    if fabric is None or fabric.nvlink_domain is None:
        return
    for member in case.with_role(Role.CONTROLLER):
        release = case.cluster.target.os_of(member.name)
        if release in _WITHOUT_BLOCKS:
            cause = f"Slurm of {release} on {member.name} has no topology/block"
            yield Violation("fabric.nvlink_domain", cause, "use a system with Slurm 23.11 or newer: debian-13, ubuntu-24.04")


@rule("fabric-nvlink-domain-missing", Severity.WARNING)
def fabric_nvlink_domain_missing(case: RuleContext) -> Iterator[Violation]:
    """Without the number of nodes that share the NVLink of a rack, no IMEX is installed, and jobs between these nodes cannot use NVLink."""
    cluster, fabric = case.cluster, case.cluster.fabric
    declared = fabric is not None and fabric.nvlink_domain is not None
    if declared or cluster.software is None or case.kubernetes or not isinstance(cluster.target, HostsTarget):
        return
    known = gpus()
    joined = [member for member in case.members if member.gpus and (gpu := known.get(member.gpus.model)) and has_nvlink_rack(gpu)]
    for group in sorted({member.group for member in joined}):
        if sum(member.group == group for member in joined) > 1:
            cause = (
                f"NVLink joins GPUs of several nodes of {group}, and the number of nodes in a rack is not declared: IMEX is not installed"
            )
            yield Violation(
                "fabric.nvlink_domain", cause, "declare it, for example `nvlink_domain: 18` for GB200 NVL72 with 4 GPUs in a node"
            )
