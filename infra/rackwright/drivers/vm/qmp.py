"""Commands to a running QEMU over its QMP socket, by the QEMU project's own client. Blocking calls, for threads without an event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from qemu.qmp import QMPClient, QMPError
from qemu.qmp.qmp_client import ExecuteError

from rackwright.drivers.vm.command_line import QMP
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.time_limits import slowness

_ANSWER: Final = 10.0
"""Seconds for an answer, longer on a slow machine. QEMU answers from its main loop, also while it emulates; a suspended one does not."""


def execute(folder: Path, command: str, **arguments: Any) -> Any:
    """Return the result of a command. Raises RackwrightError with QEMU's reason, UndeterminedError without an answer."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        # The path of a socket is limited to 107 bytes (unix(7)), that of a folder is not.
        return asyncio.run(_execute(f"/proc/self/fd/{descriptor}/{QMP}", command, arguments))
    except ExecuteError as error:
        raise RackwrightError(f"{folder.name}: {command}: {error}") from None
    except (QMPError, OSError, TimeoutError) as error:
        cause = f"{folder.name}: QEMU does not respond to {command}: {str(error) or 'no answer in time'}"
        raise UndeterminedError(cause, hint="its process may be suspended or about to end; run the command again") from None
    finally:
        os.close(descriptor)


async def _execute(socket: str, command: str, arguments: dict[str, Any]) -> Any:
    client = QMPClient("rackwright")
    client.logger.disabled = True  # What matters is raised.
    async with asyncio.timeout(_ANSWER * slowness()):
        await client.connect(socket)
        try:
            return await client.execute(command, arguments or None)
        finally:
            await client.disconnect()
