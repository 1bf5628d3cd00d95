"""Certificates of BMCs: what each presents, compared with the stack file. Sends no password."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rackwright.drivers.bmc.certificate import fetch_fingerprint
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.model.targets.bmc import BmcKind
from rackwright.operations.power.machines import BmcMachine, load_machines


class Comparison(StrEnum):
    """The presented certificate compared with `power.certificate`."""

    SAME = "as declared"
    OTHER = "not the declared one"
    UNDECLARED = "not declared"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PresentedCertificate:
    """The certificate of one BMC."""

    machine: BmcMachine
    fingerprint: str = ""
    problem: str = ""

    @property
    def comparison(self) -> Comparison:
        """Return how it compares with the stack file."""
        if not self.fingerprint:
            return Comparison.UNKNOWN
        if self.machine.bmc.certificate is None:
            return Comparison.UNDECLARED
        return Comparison.SAME if self.fingerprint == self.machine.bmc.certificate else Comparison.OTHER


@dataclass(frozen=True, slots=True)
class CertificateReport:
    """The certificates of a stack's BMCs."""

    stack: str
    certificates: tuple[PresentedCertificate, ...]

    @property
    def exit_code(self) -> int:
        """Return 0, 1 if a certificate is not the declared one, 3 if a BMC presents none."""
        found = {one.comparison for one in self.certificates}
        if Comparison.UNKNOWN in found:
            return UndeterminedError.exit_code
        return RackwrightError.exit_code if Comparison.OTHER in found else 0


def read_certificates(stack: str, nodes: Sequence[str]) -> CertificateReport:
    """Return the certificates that BMCs present. Raises InputError as `load_machines`, and if no named BMC has Redfish."""
    name, machines = load_machines(stack, nodes, certificates=True)
    redfish = [machine for machine in machines if machine.kind is BmcKind.REDFISH]
    if not redfish:
        raise InputError("none of the BMCs has kind redfish: IPMI has no certificates", path=f"stack {name}", hint="name other machines")
    try:
        return CertificateReport(name, tuple(asyncio.run(_read_all(redfish))))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {name}") from None


async def _read_all(machines: Sequence[BmcMachine]) -> list[PresentedCertificate]:
    return await asyncio.gather(*map(_read, machines))


async def _read(machine: BmcMachine) -> PresentedCertificate:
    try:
        return PresentedCertificate(machine, await fetch_fingerprint(machine.node, machine.address, machine.bmc.own_port))
    except RackwrightError as error:
        return PresentedCertificate(machine, problem=error.cause)
