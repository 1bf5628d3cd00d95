"""Tunnel from this machine to the API of a stack's Kubernetes: a local port, each connection forwarded by ssh through a node.

The tunnel is open while this process runs, which is as long as the engine's operation. It leads to the API only: any user of this
machine may connect to the port and reaches what is reachable there without it, a server that requires a certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import asdict, dataclass
from typing import Final

from rackwright.errors import RackwrightError
from rackwright.inventory import paths

HERE: Final = "127.0.0.1"
_CHUNK: Final = 65536
"""Maximum bytes per read: the capacity of a pipe and the default limit of an asyncio stream (pipe(7); asyncio, StreamReader)."""
_TAKEN: Final = 3.0
"""Seconds during which the port may still be bound by the previous operation, whose plugin is exiting."""


@dataclass(frozen=True)
class ApiEndpoint:
    """The API's endpoint as seen from the node that forwards connections, and the local port of the tunnel."""

    port: int
    through: str
    endpoint: str


_open: dict[str, tuple[ApiEndpoint, asyncio.Server]] = {}


def recorded(stack: str) -> ApiEndpoint | None:
    """Return the stack's recorded endpoint, or None if its API was never reached."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return ApiEndpoint(**json.loads(paths.api_tunnel(stack).read_text(encoding="utf-8")))
    return None


async def record(stack: str, api: ApiEndpoint) -> None:
    """Record the endpoint for later operations, and open the tunnel."""
    paths.prepare(stack)
    paths.api_tunnel(stack).write_text(json.dumps(asdict(api)) + "\n", encoding="utf-8")
    await open_tunnel(stack)


async def forget(stack: str) -> None:
    """Close the tunnel and delete its record."""
    paths.api_tunnel(stack).unlink(missing_ok=True)
    if stack in _open:
        _open.pop(stack)[1].close()


async def open_tunnel(stack: str) -> None:
    """Listen on the port, if the stack has an endpoint and no process listens yet."""
    api = recorded(stack)
    if api is None or (stack in _open and _open[stack][0] == api):
        return
    if stack in _open:
        _open.pop(stack)[1].close()
    _open[stack] = (api, await _listen(stack, api))


async def _listen(stack: str, api: ApiEndpoint) -> asyncio.Server:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await _carry(stack, api, reader, writer)

    deadline = asyncio.get_running_loop().time() + _TAKEN
    while True:
        try:
            return await asyncio.start_server(carry, HERE, api.port)
        except OSError as error:
            if asyncio.get_running_loop().time() > deadline:
                cause = f"{HERE}:{api.port}, the tunnel to its Kubernetes API, cannot be opened: {error.strerror}"
                raise RackwrightError(cause, path=f"stack {stack}", hint="stop the process that listens on this port") from None
        await asyncio.sleep(0.1)


async def _carry(stack: str, api: ApiEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one connection until either side closes it."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = ["ssh", "-F", str(paths.ssh_config(stack)), "-W", api.endpoint, api.through]
    ssh = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=null)
    assert ssh.stdin is not None and ssh.stdout is not None
    there, back = asyncio.create_task(_copy(reader, ssh.stdin)), asyncio.create_task(_copy(ssh.stdout, writer))
    try:
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copying in (there, back):
            copying.cancel()
        writer.close()
        with contextlib.suppress(ProcessLookupError):
            ssh.kill()
        await ssh.wait()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
