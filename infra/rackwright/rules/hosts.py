"""Machines that exist already: one for each node, each told apart, each known by its key, each described as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.hosts import HostsTarget
from rackwright.rules.registry import Case, Complaint, rule


@rule("machine-missing")
def machine_missing(case: Case) -> Iterator[Complaint]:
    """A node on target `hosts` is a machine that somebody named."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for member in case.members:
            if member.name not in target.machines:
                hint = f"add `{member.name}: {{address: …, host_key: …}}`, or lower groups.{member.group}.count"
                yield Complaint(f"target.machines.{member.name}", "the groups declare it, and no machine is given", hint)


@rule("machine-unused")
def machine_unused(case: Case) -> Iterator[Complaint]:
    """A machine that no group declares would silently be left out."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name in target.machines:
            if name not in case.node_names:
                hint = did_you_mean(name, case.node_names)
                yield Complaint(f"target.machines.{name}", "no group declares a node of that name", hint)


@rule("machine-key-missing")
def machine_key_missing(case: Case) -> Iterator[Complaint]:
    """Whoever answers first would be trusted otherwise."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, machine in target.machines.items():
            if machine.host_key is None:
                hint = "on its console: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; write what begins with SHA256:"
                yield Complaint(f"target.machines.{name}.host_key", "is missing", hint)


@rule("machine-key-placeholder", Severity.WARNING, at_up=Severity.ERROR)
def machine_key_placeholder(case: Case) -> Iterator[Complaint]:
    """A fingerprint of one letter stands in an example until somebody writes the real one."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, machine in target.machines.items():
            if re.fullmatch(r"SHA256:(.)\1+=?", machine.host_key or ""):
                hint = "on its console: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; write what begins with SHA256:"
                yield Complaint(f"target.machines.{name}.host_key", "stands for a fingerprint that is still to be written", hint)


@rule("machine-address-twice")
def machine_address_twice(case: Case) -> Iterator[Complaint]:
    """Two names for one machine would be converged twice, each undoing the other."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        seen: dict[object, str] = {}
        for name, machine in target.machines.items():
            first = seen.setdefault(machine.address, name)
            if first != name:
                yield Complaint(f"target.machines.{name}.address", f"{machine.address} is {first}'s address, too", "give each its own")


@rule("machine-address-outside")
def machine_address_outside(case: Case) -> Iterator[Complaint]:
    """The nodes call each other by these addresses; what lies outside the network is a stranger to their firewalls."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, machine in target.machines.items():
            if machine.address not in case.cluster.network.cidr:
                cause = f"{machine.address} is not in network.cidr {case.cluster.network.cidr}"
                hint = "give the address in the cluster's network, and the one it is reached at from here as `reach:`"
                yield Complaint(f"target.machines.{name}.address", cause, hint)


@rule("via-unknown")
def via_unknown(case: Case) -> Iterator[Complaint]:
    """The way to all others has to be one of them."""
    target = case.cluster.target
    if isinstance(target, HostsTarget) and target.via is not None and target.via not in case.node_names:
        yield Complaint("target.via", f"there is no node `{target.via}`", did_you_mean(target.via, case.node_names))


@rule("capacity-undeclared")
def capacity_undeclared(case: Case) -> Iterator[Complaint]:
    """What a machine must have cannot be guessed: its adoption compares it with what is there."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, group in case.cluster.groups.items():
            for key in ("cpus", "memory"):
                if group.count and getattr(group, key) is None:
                    yield Complaint(f"groups.{name}.{key}", "is missing; these machines have as many as they have", "declare what is there")


@rule("power-saving-target")
def power_saving_target(case: Case) -> Iterator[Complaint]:
    """Slurm would ask for nodes to be stopped and started, and nobody would do it."""
    if case.cluster.target.kind != "lab" and case.cluster.scheduler.power_saving is not None:
        hint = f"remove it: nothing stops and starts nodes on target {case.cluster.target.kind} yet"
        yield Complaint("scheduler.power_saving", "works on target lab alone", hint)
