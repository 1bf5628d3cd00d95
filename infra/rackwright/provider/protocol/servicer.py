"""The resource provider protocol: decodes requests into plain values for the resources, encodes results and partial failures."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import any_pb2, empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from rackwright import __version__
from rackwright.drivers import api_tunnel
from rackwright.drivers.supervision import Lifetime, leave_mark
from rackwright.errors import RackwrightError
from rackwright.operations.stack_lock import StackLock
from rackwright.provider import registry
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind
from rackwright.provider.protocol.engine_log import EngineLog
from rackwright.provider.protocol.property_values import Properties, decode, encode, unwrap_secrets
from rackwright.provider.protocol.redaction import Redactor, restore_secret_marks
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

Result = TypeVar("Result")
_KINDS = {
    PropertyDiffKind.ADD: provider_pb2.PropertyDiff.ADD,
    PropertyDiffKind.ADD_REPLACE: provider_pb2.PropertyDiff.ADD_REPLACE,
    PropertyDiffKind.DELETE: provider_pb2.PropertyDiff.DELETE,
    PropertyDiffKind.DELETE_REPLACE: provider_pb2.PropertyDiff.DELETE_REPLACE,
    PropertyDiffKind.UPDATE: provider_pb2.PropertyDiff.UPDATE,
    PropertyDiffKind.UPDATE_REPLACE: provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class ProviderServicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the engine's requests; independent of any single resource type."""

    def __init__(self, log: EngineLog, lifetime: Lifetime) -> None:
        self._log = log
        self._lifetime = lifetime
        self._redact = Redactor()
        self._locks: dict[str, StackLock] = {}
        self._under_way = 0

    async def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        """Accept secrets as such, so that derived outputs can be marked here."""
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    async def Attach(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Connect to a debugger's engine instead of the one on the command line."""
        self._log.attach(request.address)
        return empty_pb2.Empty()

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Return the plugin's version."""
        return plugin_pb2.PluginInfo(version=__version__)

    async def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Accept any configuration: the provider has none of its own."""
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Report no changes: the provider has no configuration of its own."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        """Return the provider's capabilities.

        Open a tunnel to a Kubernetes API: Pulumi's provider for it connects before any call arrives here.
        """
        stack = request.urn.split("::")[0].removeprefix("urn:pulumi:")
        if stack:
            await self._open_way(stack)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        """End every child now; the calls that wait for a child report its end."""
        if self._under_way:  # The engine cancels idle plugins, too, when a run has ended.
            leave_mark()
        await self._lifetime.cancel()
        return empty_pb2.Empty()

    async def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Return the inputs with defaults, and the failures."""
        resource, news = await self._open(request, context), decode(request.news)
        self._redact.learn(news)
        plain = unwrap_secrets(news)
        failures = [
            provider_pb2.CheckFailure(property=found.property, reason=self._redact(found.reason)) for found in resource.check(plain)
        ]
        return provider_pb2.CheckResponse(inputs=encode(restore_secret_marks(resource.apply_defaults(plain), news)), failures=failures)

    async def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Return a detailed diff between the record and the new inputs."""
        resource = await self._open(request, context)
        state = RecordedState(request.id, unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(decode(request.olds)))
        found = resource.diff(state, unwrap_secrets(decode(request.news)))
        operation = self._operation(request)
        live = await self._guarded(context, operation, lambda: resource.add_live_changes(operation.stack, state, found), locked=False)
        return _diff_response(live)

    async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        """Create the resource, or preview its outputs."""
        resource, news = await self._open(request, context), decode(request.properties)
        self._redact.learn(news)
        if request.preview:
            return provider_pb2.CreateResponse(
                properties=encode(restore_secret_marks(resource.preview_outputs(unwrap_secrets(news)), news))
            )
        operation = self._operation(request)
        made = await self._guarded(context, operation, lambda: resource.create(operation, unwrap_secrets(news)))
        outputs = await self._settle(context, made, news)
        return provider_pb2.CreateResponse(id=made.id, properties=outputs)

    async def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        """Return the live state; an empty response means that the resource does not exist."""
        resource = await self._open(request, context)
        inputs, outputs = decode(request.inputs), decode(request.properties)
        self._redact.learn(inputs)
        self._redact.learn(outputs)
        operation = self._operation(request)
        state = RecordedState(request.id, unwrap_secrets(inputs), unwrap_secrets(outputs))
        made = await self._guarded(context, operation, lambda: resource.read(operation, state), locked=False)
        if made is None:
            return provider_pb2.ReadResponse()
        found = inputs if made.inputs is None else restore_secret_marks(made.inputs, inputs)
        settled = await self._settle(context, made, {**outputs, **found}, inputs=found)
        return provider_pb2.ReadResponse(id=made.id, properties=settled, inputs=encode(found))

    async def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        """Change the resource in place."""
        resource, news = await self._open(request, context), decode(request.news)
        self._redact.learn(news)
        if request.preview:
            return provider_pb2.UpdateResponse(
                properties=encode(restore_secret_marks(resource.preview_outputs(unwrap_secrets(news)), news))
            )
        operation = self._operation(request)
        state = RecordedState(request.id, unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(decode(request.olds)))
        made = await self._guarded(context, operation, lambda: resource.update(operation, state, unwrap_secrets(news)))
        return provider_pb2.UpdateResponse(properties=await self._settle(context, made, news))

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Remove the resource."""
        resource = await self._open(request, context)
        self._redact.learn(decode(request.old_inputs))
        operation = self._operation(request)
        state = RecordedState(request.id, unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(decode(request.properties)))
        await self._guarded(context, operation, lambda: resource.delete(operation, state))
        return empty_pb2.Empty()

    async def _open(self, request: Any, context: Any) -> Resource:
        token = request.urn.split("::")[2].split("$")[-1]
        resource = registry.resource(token)
        if resource is None:
            cause = f"{token} is not a resource of this version of rackwright"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{cause}: run `pulumi destroy` with the version that created the stack")
        assert resource is not None
        return resource

    async def _open_way(self, stack: str) -> None:
        """Open the tunnel of a stack.

        Only warn on failure: calls that need it fail with their own error, other stacks and resources do not need it.
        """
        try:
            await api_tunnel.open_tunnel(stack)
        except RackwrightError as error:
            await self._log.warn("", str(error))

    def _operation(self, request: Any) -> RequestContext:
        urn = request.urn
        stack, name = urn.split("::")[0].removeprefix("urn:pulumi:"), urn.split("::")[-1]

        async def status(text: str) -> None:
            await self._log.status(urn, self._redact(text))

        async def info(text: str) -> None:
            await self._log.info(urn, self._redact(text))

        async def warn(text: str) -> None:
            await self._log.warn(urn, self._redact(text))

        return RequestContext(urn, stack, name, preview=False, status=status, info=info, warn=warn)

    async def _guarded(
        self, context: Any, operation: RequestContext, call: Callable[[], Awaitable[Result]], *, locked: bool = True
    ) -> Result:
        """Return the call's result; turn every error into a message, without a traceback for errors of the user."""
        self._under_way += 1
        try:
            if locked:
                await self._lock(operation.stack)
            return await call()
        except RackwrightError as error:
            await self._fail(context, str(error))
        except Exception as error:
            await self._fail(context, f"{type(error).__name__}: {error}\nthis is a defect of rackwright:\n{traceback.format_exc()}")
        finally:
            self._under_way -= 1

    async def _fail(self, context: Any, message: str) -> NoReturn:
        await context.abort(grpc.StatusCode.UNKNOWN, self._redact(message))
        raise AssertionError("abort returned")

    async def _lock(self, stack: str) -> None:
        if stack not in self._locks:
            self._locks[stack] = StackLock(stack)
        await self._locks[stack].hold()

    async def _settle(self, context: Any, made: LiveResource, recorded: Properties, inputs: Properties | None = None) -> Any:
        """Return the outputs as a struct; report an unhealthy resource as a partial failure."""
        outputs = encode(self._redact.seal(restore_secret_marks(made.outputs, recorded)))
        if made.init_errors:
            failed = provider_pb2.ErrorResourceInitFailed(
                id=made.id,
                properties=outputs,
                reasons=[self._redact(reason) for reason in made.init_errors],
                inputs=encode(inputs or recorded),
            )
            await _abort_with_detail(context, self._redact(made.init_errors[0]), failed)
        return outputs


async def _abort_with_detail(context: Any, message: str, detail: provider_pb2.ErrorResourceInitFailed) -> NoReturn:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=message, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError("abort returned")


def _diff_response(difference: DiffResult) -> provider_pb2.DiffResponse:
    some = bool(difference.changes)
    return provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if some else provider_pb2.DiffResponse.DIFF_NONE,
        replaces=difference.replaces,
        diffs=list(difference.changes),
        deleteBeforeReplace=difference.delete_before_replace,
        hasDetailedDiff=True,
        detailedDiff={path: provider_pb2.PropertyDiff(kind=_KINDS[change], inputDiff=True) for path, change in difference.changes.items()},
    )
