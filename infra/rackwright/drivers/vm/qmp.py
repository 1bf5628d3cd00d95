"""Commands to a running QEMU over its QMP socket. Blocking calls; the socket accepts one client at a time.

QEMU documentation: Machine Emulator, QMP Protocol Specification.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from rackwright.drivers.vm.command_line import QMP
from rackwright.errors import RackwrightError, UndeterminedError

_ANSWER: Final = 10.0
"""Seconds for an answer. QEMU answers from its main loop, also while it emulates; only a suspended process takes long."""


class Qmp:
    """A connection to a machine's QEMU. Events are read and dropped."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name

    def execute(self, command: str, **arguments: Any) -> Any:
        """Return the result of a command. Raises RackwrightError with QEMU's reason, UndeterminedError without an answer."""
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
            self._stream.flush()
            while "event" in (answer := self._read()):
                pass
        except (OSError, ValueError) as error:
            raise UndeterminedError(f"{self._name}: QEMU does not respond to {command}: {error or 'no answer'}", hint=_HINT) from None
        if "error" in answer:
            raise RackwrightError(f"{self._name}: {command}: {answer['error'].get('desc', answer['error'])}")
        return answer.get("return")

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise ValueError("the connection was closed")
        return cast(dict[str, Any], json.loads(line))


_HINT: Final = "its process may be suspended or about to end; run the command again"


@contextmanager
def connect(folder: Path) -> Iterator[Qmp]:
    """Yield a connection to the machine of a folder. Raises UndeterminedError if it does not respond.

    The path of a socket is limited to 107 bytes (unix(7)), that of a folder is not.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER)
            try:
                connection.connect(f"/proc/self/fd/{descriptor}/{QMP}")
            except OSError as error:
                raise UndeterminedError(f"{folder.name}: QEMU does not accept commands: {error.strerror}", hint=_HINT) from None
            with connection.makefile("rwb") as stream:
                client = Qmp(cast(BinaryIO, stream), folder.name)
                try:
                    client._read()
                except (OSError, ValueError) as error:
                    raise UndeterminedError(f"{folder.name}: QEMU does not respond: {error or 'no greeting'}", hint=_HINT) from None
                client.execute("qmp_capabilities")
                yield client
    finally:
        os.close(descriptor)
