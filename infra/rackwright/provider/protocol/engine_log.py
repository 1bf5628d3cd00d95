"""Progress and messages on the engine's screen."""

from __future__ import annotations

from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class EngineLog:
    """Log lines of a resource: a status line replaces the one before, other lines stay. A closed engine log raises no error."""

    def __init__(self, address: str) -> None:
        self._stub: Any = None
        if address:
            self.attach(address)

    def attach(self, address: str) -> None:
        """Connect to the engine at this address."""
        self._stub = engine_pb2_grpc.EngineStub(grpc.aio.insecure_channel(address))

    async def status(self, urn: str, text: str) -> None:
        """Log a line that the next one overwrites."""
        await self._send(urn, text, engine_pb2.INFO, ephemeral=True)

    async def info(self, urn: str, text: str) -> None:
        """Log a line that stays."""
        await self._send(urn, text, engine_pb2.INFO, ephemeral=False)

    async def warn(self, urn: str, text: str) -> None:
        """Log a warning that stays."""
        await self._send(urn, text, engine_pb2.WARNING, ephemeral=False)

    async def _send(self, urn: str, text: str, severity: engine_pb2.LogSeverity.ValueType, *, ephemeral: bool) -> None:
        if self._stub is None:
            return
        try:
            await self._stub.Log(engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=ephemeral))
        except grpc.RpcError:
            self._stub = None
