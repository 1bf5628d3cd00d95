"""Starts the provider: `python -m rackwright.provider ENGINE_ADDRESS` prints its port and serves until the engine exits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from rackwright.drivers.supervision import current
from rackwright.provider.protocol.engine_log import EngineLog
from rackwright.provider.protocol.servicer import ProviderServicer

_LARGEST_MESSAGE = 400 * 1024 * 1024
"""Bytes; the engine's own limit (sdk/go/common/util/rpcutil)."""


async def serve(engine: str) -> None:
    """Serve requests until the engine has exited or requests the stop."""
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", _LARGEST_MESSAGE), ("grpc.max_send_message_length", _LARGEST_MESSAGE)]
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(ProviderServicer(EngineLog(engine), current), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    watch = asyncio.create_task(current.watch_parent(stopped.set))
    await stopped.wait()
    watch.cancel()
    await current.cancel()
    await server.stop(grace=0.1)


def main() -> None:
    """Run the plugin process."""
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else ""))
    os._exit(0)


if __name__ == "__main__":
    main()
