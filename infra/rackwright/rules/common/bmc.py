"""BMCs of existing machines: complete, each unique, reached over verified TLS, and not mistaken for the machines themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.targets.bmc import Bmc, BmcKind
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_REQUIRED: Final = {
    "kind": "declare `kind: redfish`, or `kind: ipmi` for a BMC without Redfish",
    "address": "enter the address of the BMC, or the first one of the range; IPv4 addresses count up",
    "username": "enter the user of the BMC, here or in target.power",
    "password_file": "write the password alone into a file with mode 0600, and enter its path here or in target.power",
}
_REDFISH_ONLY: Final = ("system", "certificate", "ca_file")


def _bmcs(case: RuleContext) -> Iterator[tuple[str, str, Bmc]]:
    """Yield name, path and BMC of every machine that declares one."""
    target = case.cluster.target
    if isinstance(target, HostsTarget):
        for name in target.machine_by_node:
            bmc = target.bmc_of(name)
            if bmc is not None:
                yield name, _path(target, name), bmc


def _path(target: HostsTarget, name: str) -> str:
    """Return the path of a machine's BMC: in its own entry, or in that of its range."""
    own = target.machines.get(name)
    key = name if own is not None and own.power is not None else target.range_of.get(name, name)
    return f"target.machines.{key}.power"


@rule("bmc-incomplete")
def bmc_incomplete(case: RuleContext) -> Iterator[Violation]:
    """Without protocol, address and login, `rackwright power` cannot reach the BMC."""
    reported: set[str] = set()
    for _, path, bmc in _bmcs(case):
        for field, hint in _REQUIRED.items():
            where = f"{path}.{field}"
            if getattr(bmc, field) is None and where not in reported:
                reported.add(where)
                yield Violation(where, "is missing", hint)


@rule("bmc-certificate-missing")
def bmc_certificate_missing(case: RuleContext) -> Iterator[Violation]:
    """Without a pin or an authority, any machine of the management network could pose as the BMC and would get its password."""
    reported: set[str] = set()
    for _, path, bmc in _bmcs(case):
        if bmc.kind is BmcKind.REDFISH and not bmc.certificate and not bmc.ca_file and path not in reported:
            reported.add(path)
            hint = (
                f"run `rackwright power {case.stack} certificates`, compare each fingerprint with the web page of the BMC, "
                "and enter it as `certificate:`; or enter your own authority as `ca_file:`"
            )
            yield Violation(f"{path}.certificate", "is missing, and so is `ca_file`: the BMC would not be authenticated", hint)


@rule("bmc-certificate-shared", Severity.WARNING)
def bmc_certificate_shared(case: RuleContext) -> Iterator[Violation]:
    """BMCs that share a certificate share its key: the owner of one of them can pose as the others."""
    seen: dict[str, str] = {}
    for _, path, bmc in _bmcs(case):
        if bmc.kind is BmcKind.REDFISH and bmc.certificate:
            first = seen.setdefault(bmc.certificate, path)
            if first != path:
                hint = "replace the vendor's certificate by one of the BMC's own, in its web page, and enter the new fingerprint"
                yield Violation(f"{path}.certificate", f"is also the certificate of {first}", hint)


@rule("bmc-setting-unused", Severity.WARNING)
def bmc_setting_unused(case: RuleContext) -> Iterator[Violation]:
    """IPMI has no certificates and no systems: the settings would promise a protection that it does not have."""
    target = case.cluster.target
    if not isinstance(target, HostsTarget):
        return
    for _, path, bmc in _bmcs(case):
        declared = target.machines[path.removeprefix("target.machines.").removesuffix(".power")].power
        for field in _REDFISH_ONLY:
            if bmc.kind is BmcKind.IPMI and declared is not None and getattr(declared, field) is not None:
                yield Violation(f"{path}.{field}", "has no effect with kind ipmi", "remove it, or use `kind: redfish`")


@rule("bmc-shared")
def bmc_shared(case: RuleContext) -> Iterator[Violation]:
    """Two machines with one BMC: a command for one of them would turn off the other. One BMC may serve several Redfish systems."""
    seen: dict[tuple[str, int, str], str] = {}
    for name, path, bmc in _bmcs(case):
        if bmc.address is None:
            continue
        first = seen.setdefault((bmc.address.lower(), bmc.own_port, bmc.system or ""), name)
        if first != name:
            hint = "enter the address of this machine's own BMC; for a chassis with one BMC, declare the `system` of each machine"
            yield Violation(f"{path}.address", f"{bmc.address} of {name} is also the BMC of {first}", hint)


@rule("bmc-address-is-machine")
def bmc_address_is_machine(case: RuleContext) -> Iterator[Violation]:
    """A BMC has an address of its own: at the machine's address the operating system answers, which is gone after the first `off`."""
    target = case.cluster.target
    if not isinstance(target, HostsTarget):
        return
    taken = {str(machine.address): name for name, machine in target.machine_by_node.items() if machine.address}
    taken |= {machine.ssh_address.lower(): name for name, machine in target.machine_by_node.items() if machine.ssh_address}
    for _, path, bmc in _bmcs(case):
        owner = taken.get((bmc.address or "").lower())
        if owner is not None:
            hint = "enter the address of the management port: `ipmitool lan print` on the machine shows it"
            yield Violation(f"{path}.address", f"{bmc.address} is the address of the machine {owner}", hint)


@rule("bmc-password-file", Severity.WARNING)
def bmc_password_file(case: RuleContext) -> Iterator[Violation]:
    """`rackwright power` would fail when it is needed. A user who only validates may lack the files."""
    for path, problem in case.secret_problems.items():
        if path.startswith("target.") and case.slurm.power_saving is None:  # Otherwise rule power-saving-password.
            yield Violation(path, problem, "write the password alone into the file, with mode 0600, or correct the path")
