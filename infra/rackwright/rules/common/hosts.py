"""Existing machines: one for each node, each unique, identified by its host key and described correctly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rackwright.model import ranges
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.hostlists import compressed
from rackwright.model.network import meaning_in
from rackwright.model.public_keys import fault_of, fingerprint
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_OF_ONE: Final = ("ssh_address", "host_key", "serial", "label", "adapters")
"""Fields whose values must be unique."""
_IPV6: Final = 6
"""Version field of an IPv6 packet (RFC 8200, section 3)."""
_PLACEHOLDER: Final = re.compile(r"SHA256:(PLACEHOLDER.*|(.)\2+=?)")


@rule("machine-missing")
def machine_missing(case: RuleContext) -> Iterator[Violation]:
    """A node on target `hosts` is an existing machine of the list."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for group in case.cluster.groups:
            missing = [one.name for one in case.members if one.group == group and one.name not in target.machine_by_node]
            if missing:
                cause = f"the groups declare the node, but no machine is assigned{_and_others(missing)}"
                hint = f"add `{compressed(missing)}: {{address: …}}`, or lower groups.{group}.count"
                yield Violation(f"target.machines.{missing[0]}", cause, hint)


@rule("machine-unused")
def machine_unused(case: RuleContext) -> Iterator[Violation]:
    """A machine that belongs to no group would be omitted without a message."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for key in target.machines:
            unused = [name for name in ranges.names(key) if name not in case.node_names]
            if unused:
                which = f"no group declares a node {unused[0]}" if ranges.is_range(key) else "no group declares a node of this name"
                more = f", nor {len(unused) - 1} more of the range" if len(unused) > 1 else ""
                yield Violation(f"target.machines.{key}", which + more, did_you_mean(unused[0], case.node_names))


@rule("machine-key-missing", Severity.WARNING, level_on_deploy=Severity.ERROR)
def machine_key_missing(case: RuleContext) -> Iterator[Violation]:
    """Without the key, the first host that answers would be trusted."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        missing = [name for name, machine in target.machine_by_node.items() if machine.host_key is None]
        if missing:
            hint = (
                "run `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on its console and enter the value that begins with SHA256:, "
                f"or compare the value with the output of `rackwright hosts scan {case.stack} --write`"
            )
            yield Violation(f"target.machines.{missing[0]}.host_key", f"is missing{_and_others(missing)}", hint)


def _and_others(names: Sequence[str]) -> str:
    """Return the rest of a cause that the first of the machines shares with others: one finding, not one for each machine.

    >>> _and_others(["worker0", "worker1", "worker2"]), _and_others(["worker0"])
    (', as for worker[1-2]', '')
    """
    return f", as for {compressed(names[1:])}" if len(names) > 1 else ""


@rule("machine-key-placeholder", Severity.WARNING, level_on_deploy=Severity.ERROR)
def machine_key_placeholder(case: RuleContext) -> Iterator[Violation]:
    """A fingerprint of one repeated letter, or named PLACEHOLDER, is the placeholder of an example."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        waiting = [name for name, machine in target.machines.items() if _PLACEHOLDER.fullmatch(machine.host_key or "")]
        if waiting:
            more = f", as in {len(waiting) - 1} more entries" if len(waiting) > 1 else ""
            hint = f"run `rackwright hosts scan {case.stack}` and compare each key with `ssh-keygen -lf` on the machine's console"
            yield Violation(f"target.machines.{waiting[0]}.host_key", f"is a placeholder{more}", hint)


@rule("machine-key-invalid")
def machine_key_invalid(case: RuleContext) -> Iterator[Violation]:
    """A damaged key equals the key of no machine, so that the first login fails."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, machine in target.machines.items():
            fault = fault_of(machine.host_key) if machine.host_key and not _is_fingerprint(machine.host_key) else None
            if fault:
                hint = "copy /etc/ssh/ssh_host_ed25519_key.pub from the machine's console: type and base64, on one line"
                yield Violation(f"target.machines.{name}.host_key", fault, hint)


@rule("machine-key-twice")
def machine_key_twice(case: RuleContext) -> Iterator[Violation]:
    """Clones of one disk have the same host key: the owner of one of them can impersonate the others."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        seen: dict[str, str] = {}
        for name, machine in target.machines.items():
            key = machine.host_key or ""
            known = key.rstrip("=") if _is_fingerprint(key) else fingerprint(key)
            if known is None or _PLACEHOLDER.fullmatch(key):
                continue
            first = seen.setdefault(known, name)
            if first != name:
                hint = f"if {name} is a clone: `rm /etc/ssh/ssh_host_*; ssh-keygen -A` on its console, restart sshd, enter the new key"
                yield Violation(f"target.machines.{name}.host_key", f"is also the host key of {first}", hint)


def _is_fingerprint(host_key: str) -> bool:
    return host_key.startswith("SHA256:")


@rule("per-machine-field-in-range")
def per_machine_field_in_range(case: RuleContext) -> Iterator[Violation]:
    """The machines of a range share settings, but each has its own key, name and number."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for key, machine in target.machines.items():
            for field in _OF_ONE:
                if ranges.is_range(key) and getattr(machine, field) is not None:
                    hint = f"declare it for each machine, like `{ranges.names(key)[0]}: {{{field}: …}}`"
                    yield Violation(f"target.machines.{key}.{field}", "must be unique for each machine", hint)


@rule("machine-range-overlap")
def machine_range_overlap(case: RuleContext) -> Iterator[Violation]:
    """With two ranges for one machine, its settings are ambiguous."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        seen: dict[str, str] = {}
        for key in (key for key in target.machines if ranges.is_range(key)):
            shared = [name for name in ranges.names(key) if seen.setdefault(name, key) != key]
            if shared:
                cause = f"{shared[0]} is also in {seen[shared[0]]}"
                yield Violation(f"target.machines.{key}", cause, "use disjoint ranges; a single machine's entry may override its range")


@rule("machine-address-missing")
def machine_address_missing(case: RuleContext) -> Iterator[Violation]:
    """A machine without an address is unreachable."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, machine in target.machine_by_node.items():
            if machine.address is None:
                hint = "add the address, or the first address of the range (`worker[0-63]: {address: 10.20.0.11}` counts up)"
                yield Violation(f"target.machines.{name}.address", "is missing", hint)


@rule("duplicate-machine-address")
def duplicate_machine_address(case: RuleContext) -> Iterator[Violation]:
    """Two names for one machine would be converged twice, each undoing the other."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        seen: dict[object, str] = {}
        for name, machine in target.machine_by_node.items():
            first = seen.setdefault(machine.address, name)
            if first != name and machine.address is not None:
                yield Violation(
                    _address(target, name), f"{machine.address} is also the address of {first}", "use a separate address for each machine"
                )


@rule("machine-address-outside-network")
def machine_address_outside_network(case: RuleContext) -> Iterator[Violation]:
    """The nodes reach each other at these addresses; their firewalls reject addresses outside the network."""
    target, cidr = case.cluster.target, case.cluster.network.cidr
    if isinstance(target, HostsTarget):
        complained: set[str] = set()
        for name, machine in target.machine_by_node.items():
            path = _address(target, name)
            if machine.address is not None and machine.address not in cidr and path not in complained:
                complained.add(path)
                hint = (
                    "enter the address in the cluster's network, and as `ssh_address:` the address at which this machine reaches the node"
                )
                yield Violation(path, f"{machine.address} of {name} is not in network.cidr {cidr}", hint)


@rule("machine-address-unusable")
def machine_address_unusable(case: RuleContext) -> Iterator[Violation]:
    """No machine can have the first and the last address of a network: they name the network and its broadcast."""
    target, cidr = case.cluster.target, case.cluster.network.cidr
    if not isinstance(target, HostsTarget):
        return
    for name, machine in target.machine_by_node.items():
        meaning = meaning_in(cidr, machine.address) if machine.address is not None else None
        if meaning:
            yield Violation(
                _address(target, name), f"{machine.address} of {name} is the {meaning} of {cidr}", "enter the address of the machine itself"
            )


def _address(target: HostsTarget, name: str) -> str:
    """Return the path of a machine's address: in its own entry, or in that of its range."""
    own = target.machines.get(name)
    key = name if own is not None and own.address is not None else target.range_of.get(name, name)
    return f"target.machines.{key}.address"


@rule("jump-host-unknown")
def jump_host_unknown(case: RuleContext) -> Iterator[Violation]:
    """The jump host of all machines must be one of them."""
    target = case.cluster.target
    if isinstance(target, HostsTarget) and target.jump_host is not None and target.jump_host not in case.node_names:
        yield Violation("target.jump_host", f"there is no node `{target.jump_host}`", did_you_mean(target.jump_host, case.node_names))


@rule("ssh-address-not-admitted")
def ssh_address_not_admitted(case: RuleContext) -> Iterator[Violation]:
    """The packet filter of a machine ends the access over IPv6 that it was configured through."""
    target = case.cluster.target
    if not isinstance(target, HostsTarget):
        return
    admitted = any(network.version == _IPV6 for network in case.cluster.access.allowed_cidrs)
    for name, machine in target.machines.items():
        if machine.ssh_address is None or ":" not in machine.ssh_address:
            continue
        if target.jump_host not in (None, name):
            cause = f"behind the jump host {target.jump_host}, machines admit SSH from its IPv4 address only"
            yield Violation(f"target.machines.{name}.ssh_address", cause, "omit it: the jump host uses `address`")
        elif not admitted:
            cause = "access.allowed_cidrs admits no IPv6 network: the firewall would end the access"
            hint = "add the network of this machine to access.allowed_cidrs, like [0.0.0.0/0, 2001:db8::/64]"
            yield Violation(f"target.machines.{name}.ssh_address", cause, hint)


@rule("capacity-undeclared")
def capacity_undeclared(case: RuleContext) -> Iterator[Violation]:
    """The capacity of a machine cannot be guessed: its adoption compares the declared capacity with the real one."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name, group in case.cluster.groups.items():
            for key in ("cpus", "memory"):
                if group.count and getattr(group, key) is None:
                    yield Violation(f"groups.{name}.{key}", "is missing: target hosts cannot set it", "declare what the machines have")
