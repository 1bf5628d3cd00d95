"""Declared RDMA adapters of existing machines: each is one card, and a rail of the fabric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rackwright.derive.fabric import groups_of, hcas_of
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.targets.adapters import Adapter
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_READ: Final = "run `ibstat {device}` on the machine, or read /sys/class/infiniband/{device}/node_guid, and enter the values"
_NOBODY: Final = re.compile(r"0x(0{16}|f{16})|(00:){5}00|(ff:){5}ff")
"""Zeros are those of a virtual function without a GUID, ones those of a card without a configuration."""
_GLOBAL: Final = ("port_guid", "node_guid", "mac")
"""Identities that no other machine may have."""


@rule("adapter-identity")
def adapter_identity(case: RuleContext) -> Iterator[Violation]:
    """An entry without any identity, or with that of no card, identifies nothing."""
    for path, device, adapter in _declared(case):
        given = adapter.model_dump(exclude_none=True)
        if not given:
            yield Violation(path, "has neither a GUID nor an address", _READ.format(device=device))
        for field, value in given.items():
            if _NOBODY.fullmatch(value):
                yield Violation(f"{path}.{field}", f"{value} belongs to no card", _READ.format(device=device))
            elif field == "mac" and int(value[:2], 16) & 1:
                yield Violation(f"{path}.{field}", f"{value} is a group address", _READ.format(device=device))


@rule("adapter-identity-twice")
def adapter_identity_twice(case: RuleContext) -> Iterator[Violation]:
    """Two adapters with one GUID cannot be distinguished in the fabric: one of the entries is a copy."""
    seen: dict[tuple[str, str], str] = {}
    for path, device, adapter in _declared(case):
        machine = path.removesuffix(f".adapters.{device}")
        for field, value in adapter.model_dump(exclude_none=True).items():
            kind = field if field in _GLOBAL else f"{field} of {machine}"
            first = seen.setdefault((kind, value), path)
            if first != path:
                hint = f"correct one of them: {_READ.format(device=device)}"
                yield Violation(f"{path}.{field}", f"{value} is also that of {first.removeprefix('target.machines.')}", hint)


@rule("adapter-without-rail", Severity.WARNING)
def adapter_without_rail(case: RuleContext) -> Iterator[Violation]:
    """An adapter under another name than a rail's is not used to identify the rail."""
    fabric, target = case.cluster.fabric, case.cluster.target
    if fabric is None or not isinstance(target, HostsTarget):
        return
    hcas, groups = hcas_of(case.cluster, fabric), frozenset(groups_of(case.cluster, fabric))
    for name in (member.name for member in case.members if member.group in groups):
        for device in target.adapters_of(name):
            if device not in hcas:
                hint = f"{did_you_mean(device, hcas)}; remove the entry if it is no rail, or list the device in `fabric.hcas`"
                yield Violation(f"target.machines.{name}.adapters.{device}", "is not a rail of the fabric", hint)


def _declared(case: RuleContext) -> Iterator[tuple[str, str, Adapter]]:
    """Yield path, device and identity of every adapter that a machine declares."""
    target = case.cluster.target
    for key, machine in target.machines.items() if isinstance(target, HostsTarget) else ():
        for device, adapter in (machine.adapters or {}).items():
            yield f"target.machines.{key}.adapters.{device}", device, adapter
