"""The hardware of a running stack's nodes, compared with the plan."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright.drivers import power
from rackwright.drivers.hardware_runner import run_hardware
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_slurm, require_up
from rackwright.report.hardware.changes import compare
from rackwright.report.hardware.document import SCHEMA, Section, with_changes
from rackwright.report.verdict import Verdict


@dataclass(frozen=True, slots=True)
class HardwareReport:
    """A report in the format rackwright.hardware/4, and its JSON text."""

    report: dict[str, Any]
    text: str

    @property
    def verdict(self) -> Verdict:
        """Return whether the hardware is as planned."""
        return Verdict(self.report["verdict"])


def query_hardware(stack: str, section: Section, *, in_jobs: bool, since: Path | None = None) -> HardwareReport:
    """Query the hardware of all nodes; with `in_jobs`, query workers from inside a Slurm job, as a user's program sees them.

    `since`: an earlier report, with which the new one is compared.
    Raises InputError if the stack is not up, without Slurm and with `in_jobs`, or if `since` is not a report of the stack;
    UndeterminedError at Ctrl-C and if no report is written.
    """
    earlier = read_report(stack, since) if since is not None else None
    require_up(stack)
    if in_jobs:
        require_slurm(stack, "--in-job")
    try:
        status, file, output = asyncio.run(_run(stack, section, in_jobs=in_jobs))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {stack}") from None
    if status == InputError.exit_code:
        raise InputError(output.strip())
    if not file.exists():
        raise UndeterminedError(f"the hardware query wrote no report; output: {output.strip() or 'none'}", path=f"stack {stack}")
    text = file.read_text(encoding="utf-8")
    report = json.loads(text)
    if earlier is None:
        return HardwareReport(report, text)
    report = with_changes(report, compare(earlier, report))
    return HardwareReport(report, json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def read_report(stack: str, file: Path) -> dict[str, Any]:
    """Return an earlier report of a stack. Raises InputError for a file that is none."""
    hint = f"create a report with `rackwright hardware {stack} --json > {file}`"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", path=str(file), hint=hint) from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise InputError(f"is not a hardware report with identities (expected {SCHEMA}, found {schema})", path=str(file), hint=hint)
    if found["stack"] != stack:
        raise InputError(f"is a report of stack {found['stack']} (expected {stack})", path=str(file), hint=hint)
    return dict(found)


async def _run(stack: str, section: Section, *, in_jobs: bool) -> tuple[int, Path, str]:
    """Query the nodes while they are powered on; return exit status, report path and output."""
    paths.prepare(stack)
    async with power.wake_nodes(stack, power.from_inventory(paths.inventory(stack))):
        return await run_hardware(stack, section.value, in_jobs=in_jobs)
