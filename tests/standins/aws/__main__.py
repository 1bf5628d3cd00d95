"""The plugin process: `python -m standins.aws ENGINE_ADDRESS`; prints its port, serves until the engine leaves."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from standins.aws.servicer import Servicer

_LARGEST_MESSAGE: Final = 400 * 1024 * 1024
"""Bytes; the engine's own limit (sdk/go/common/util/rpcutil)."""
_POLL_SECONDS: Final = 0.5
"""Seconds between reads of the parent: an engine killed by SIGKILL sends no message."""
_NOBODYS: Final = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true"}


async def serve() -> None:
    """Serve until the engine has exited or requests the stop."""
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", _LARGEST_MESSAGE), ("grpc.max_send_message_length", _LARGEST_MESSAGE)]
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    stopped, parent = asyncio.Event(), os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    while not stopped.is_set() and os.getppid() == parent:
        await asyncio.sleep(_POLL_SECONDS / 5)
    os._exit(0)


def main() -> None:
    """Remove all credentials and profiles from the environment, then serve."""
    for name in [name for name in os.environ if name.startswith("AWS_") and "ENDPOINT_URL" not in name and "REGION" not in name]:
        del os.environ[name]
    os.environ.update(_NOBODYS)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
