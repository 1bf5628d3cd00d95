"""A resource provider for these tests: `rackwright:test:Thing`, whose create can fail or take long. Inputs: name, fails, waits (a file)."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class Things(provider_pb2_grpc.ResourceProviderServicer):
    async def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="0.0.1")

    async def CheckConfig(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request, context):
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request, context):
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    async def Check(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    async def Diff(self, request, context):
        same = request.olds == request.news
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE if same else provider_pb2.DiffResponse.DIFF_SOME)

    async def Create(self, request, context):
        if request.properties.fields["fails"].bool_value:
            await context.abort(grpc.StatusCode.UNKNOWN, "the thing would not be made")
        waits = request.properties.fields["waits"].string_value
        if waits and not request.preview:
            Path(waits).touch()
            while Path(waits).exists():
                await asyncio.sleep(0.05)
        return provider_pb2.CreateResponse(id="thing", properties=request.properties)

    async def Read(self, request, context):
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def Update(self, request, context):
        return provider_pb2.UpdateResponse(properties=request.news)

    async def Delete(self, request, context):
        return empty_pb2.Empty()

    async def Cancel(self, request, context):
        return empty_pb2.Empty()


async def serve() -> None:
    server = grpc.aio.server()
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Things(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    parent = os.getppid()
    while not stopped.is_set() and os.getppid() == parent:
        await asyncio.sleep(0.05)
    os._exit(0)


if len(sys.argv) > 1:
    asyncio.run(serve())
