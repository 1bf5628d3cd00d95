"""The BMCs of a stack's machines, as the stack file declares them, with their passwords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackwright.drivers.bmc.access import BmcLogin, PowerControl
from rackwright.errors import InputError
from rackwright.model import ranges
from rackwright.model.finding import did_you_mean
from rackwright.model.targets.bmc import Bmc, BmcKind
from rackwright.model.targets.hosts import HostsTarget
from rackwright.operations.stack import load_and_validate

_ABOUT_CERTIFICATES = frozenset({"bmc-certificate-missing"})
"""Rules that a stack file may violate while the certificates of its BMCs are read."""


@dataclass(frozen=True, slots=True)
class BmcMachine:
    """A machine with its BMC."""

    node: str
    bmc: Bmc

    @property
    def kind(self) -> BmcKind:
        """Return the protocol."""
        assert self.bmc.kind is not None  # Rule bmc-incomplete.
        return self.bmc.kind

    @property
    def address(self) -> str:
        """Return the address."""
        assert self.bmc.address is not None  # Rule bmc-incomplete.
        return self.bmc.address


def load_machines(name_or_path: str, nodes: Sequence[str], *, certificates: bool = False) -> tuple[str, list[BmcMachine]]:
    """Return the stack's name and the named machines in the order of the stack file, without names all machines with a BMC.

    certificates: whether BMCs without a declared certificate are accepted.
    Raises InputError for errors in the stack file, another target, an unknown node and a machine without a BMC.
    """
    judged = load_and_validate(name_or_path)
    accepted = _ABOUT_CERTIFICATES if certificates else frozenset()
    errors = [finding for finding in judged.findings if finding.is_error and finding.rule not in accepted]
    if errors or judged.loaded.cluster is None:
        raise InputError("\n".join(map(str, errors)))
    target, where = judged.loaded.cluster.target, f"stack {judged.loaded.stack}"
    if not isinstance(target, HostsTarget):
        hint = "use `rackwright up` and `rackwright down` for machines that rackwright creates"
        raise InputError(f"target {target.kind} has no BMCs (expected target hosts)", path=where, hint=hint)
    found = {name: bmc for name in target.machine_by_node if (bmc := target.bmc_of(name)) is not None}
    if not found:
        raise InputError("no machine declares `power`", path=where, hint="declare the BMC of each machine (docs/targets/hosts.md)")
    wanted = _expanded(nodes) or list(found)
    for name in wanted:
        if name not in target.machine_by_node:
            raise InputError(f"there is no machine `{name}`", path=where, hint=did_you_mean(name, target.machine_by_node))
        if name not in found:
            raise InputError(f"{name} declares no BMC", path=where, hint=f"declare target.machines.{name}.power")
    return judged.loaded.stack, [BmcMachine(name, bmc) for name, bmc in found.items() if name in wanted]


def connect(machine: BmcMachine) -> PowerControl:
    """Return the control of a machine's power. Raises InputError if its password cannot be read."""
    login = _login(machine)
    if machine.kind is BmcKind.IPMI:
        from rackwright.drivers.bmc.ipmi import IpmiPower

        return IpmiPower(login)
    from rackwright.drivers.bmc.redfish import RedfishPower  # sushy takes a while to import.

    return RedfishPower(login)


def _expanded(nodes: Sequence[str]) -> list[str]:
    """Return names, with those of ranges like worker[0-3]."""
    return [name for key in nodes for name in (ranges.names(key) if ranges.is_range(key) else [key])]


def _login(machine: BmcMachine) -> BmcLogin:
    bmc = machine.bmc
    return BmcLogin(
        machine.node, machine.address, bmc.own_port, bmc.username or "", _password(machine), bmc.system, bmc.certificate, bmc.ca_file
    )


def _password(machine: BmcMachine) -> str:
    file = machine.bmc.password_file or ""
    try:
        lines = Path(file).expanduser().read_text(encoding="utf-8").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        hint = "write the password alone into the file, with mode 0600"
        raise InputError(f"{file} cannot be read: {reason}", path=f"{machine.node}: power.password_file", hint=hint) from None
    if len(lines) != 1:
        raise InputError(
            f"{file} has {len(lines)} lines (expected one, the password)",
            path=f"{machine.node}: power.password_file",
            hint="write the password alone into the file",
        )
    return lines[0].strip()
