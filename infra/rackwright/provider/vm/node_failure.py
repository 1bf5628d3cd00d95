"""The reason why a virtual machine does not respond over SSH, as QEMU and the guest's console report it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from rackwright.drivers.vm import machine
from rackwright.errors import RackwrightError
from rackwright.inventory import paths

_LINES: Final = 5
"""Last lines that are quoted, of QEMU's messages and of the console each: a full console must not displace QEMU's reason."""
_CAUSES: Final = {
    machine.ABSENT: "there is no virtual machine",
    machine.STOPPED: "the virtual machine's process has ended",
    machine.PAUSED: "the virtual machine is paused",
    machine.PANICKED: "the guest's kernel panicked",
}


async def failure_of(stack: str, name: str, *, last: bool) -> str | None:
    """Return why a node cannot respond; None where the machine runs. With `last`, the console's last lines for a running one, too."""
    folder = paths.machine(stack, name)
    try:
        status = (await asyncio.to_thread(machine.look, folder)).status
    except RackwrightError as error:
        return error.cause
    if status == machine.RUNNING and not last:
        return None
    if status == machine.PANICKED and (reason := await asyncio.to_thread(machine.panic_lines, folder)):
        return f"{_CAUSES[status]}: {' | '.join(reason[-_LINES:])}"
    return (_CAUSES.get(status) or _silent(machine.process_id(folder))) + _last_lines(folder)


def _last_lines(folder: Path) -> str:
    lines = machine.last_lines(folder, _LINES)
    return "; the last lines of QEMU and its console: " + " | ".join(lines) if lines else "; QEMU and its console printed nothing"


def _silent(process: int | None) -> str:
    if process is None:  # It ended since its state was read.
        return _CAUSES[machine.STOPPED]
    return f"the virtual machine runs, and its SSH server does not respond (`kill {process}` ends it, and the next `up` starts it again)"
