"""Output of `rackwright power`: tables for people, JSON (rackwright.power/1) for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rackwright.cli.render.table import table
from rackwright.operations.power.certificates import CertificateReport
from rackwright.operations.power.control import PowerReport
from rackwright.operations.power.machines import BmcMachine

SCHEMA: Final = "rackwright.power/1"


def power_text(report: PowerReport) -> str:
    """Return one row for each machine, and the problems below."""
    rows = [[one.machine.node, one.machine.kind.value, one.machine.address, one.state.value] for one in report.machines]
    problems = [f"{one.machine.node}: {one.problem}" for one in report.machines if one.problem]
    totals = Counter(one.state.value for one in report.machines)
    summary = f"stack {report.stack}: " + ", ".join(f"{count} {state}" for state, count in sorted(totals.items()))
    return "\n\n".join(filter(None, [table(["node", "protocol", "bmc", "power"], rows), "\n".join(problems), summary]))


def power_data(report: PowerReport) -> dict[str, Any]:
    """Return the result as data."""
    machines = [
        {**_machine(one.machine), "power": one.state.value, "remarks": list(one.remarks), "problem": one.problem or None}
        for one in report.machines
    ]
    return {"schema": SCHEMA, "stack": report.stack, "action": report.action.value, "machines": machines}


def certificates_text(report: CertificateReport) -> str:
    """Return one row for each BMC, and how fingerprints are compared."""
    rows = [[one.machine.node, one.machine.address, one.fingerprint, one.comparison.value] for one in report.certificates]
    problems = [f"{one.machine.node}: {one.problem}" for one in report.certificates if one.problem]
    advice = (
        "Compare each fingerprint with the certificate in the web page of the BMC, reached over a path that you trust, or with\n"
        "`openssl x509 -noout -fingerprint -sha256` on its certificate; then declare it as `power.certificate`."
    )
    return "\n\n".join(
        filter(None, [table(["node", "bmc", "SHA-256 of the certificate", "stack file"], rows), "\n".join(problems), advice])
    )


def certificates_data(report: CertificateReport) -> dict[str, Any]:
    """Return the certificates as data."""
    machines = [
        {
            **_machine(one.machine),
            "certificate": one.fingerprint or None,
            "declared": one.machine.bmc.certificate,
            "comparison": one.comparison.value,
            "problem": one.problem or None,
        }
        for one in report.certificates
    ]
    return {"schema": SCHEMA, "stack": report.stack, "action": "certificates", "machines": machines}


def _machine(machine: BmcMachine) -> dict[str, Any]:
    return {"node": machine.node, "kind": machine.kind.value, "address": machine.address, "port": machine.bmc.own_port}
