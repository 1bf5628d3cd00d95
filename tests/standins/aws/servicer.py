"""The resource provider protocol between the engine and the `aws` provider, implemented by the table of resource types."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc
from botocore.exceptions import BotoCoreError, ClientError
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from rackwright.errors import RackwrightError
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind, diff_properties
from rackwright.provider.protocol.property_values import decode, encode, unwrap_secrets
from rackwright.provider.protocol.redaction import Redactor, restore_secret_marks
from standins.aws import life, naming, schema
from standins.aws.account import Account, configured
from standins.aws.functions import FUNCTIONS
from standins.aws.kind import ResourceType, Unsupported
from standins.aws.registry import KINDS
from standins.aws.state import Properties

VERSION: Final = "7.51.1"
"""The pulumi_aws whose provider this replaces; another version of the package requests a plugin that does not exist."""

_THREADS: Final = 32
_PROPERTY_DIFF: Final = {change: getattr(provider_pb2.PropertyDiff, change.name) for change in PropertyDiffKind}
Result = TypeVar("Result")


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the engine; boto3 blocks, so each call has a thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS)
        self._account: Account | None = None
        self._redact = Redactor()

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Return exactly the version that the package requires, so that the engine accepts the plugin."""
        return plugin_pb2.PluginInfo(version=VERSION)

    async def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Accept the configuration."""
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Accept changed settings; none of them replaces a resource."""
        return _answer(diff_properties(unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(decode(request.news))))

    async def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        """Set the account."""
        self._account = configured(unwrap_secrets(decode(request.args)))
        await self._do(context, self._account.demand_allowed)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Do nothing: running calls end within seconds."""
        return empty_pb2.Empty()

    async def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Add a generated name, and return pulumi_aws's type errors."""
        kind, news = await self._kind(request, context), decode(request.news)
        self._redact.learn(news)
        olds, logical = unwrap_secrets(decode(request.olds)), request.urn.split("::")[-1]
        plain = naming.fill_in(kind.autoname, logical, request.randomSeed, olds, unwrap_secrets(news))
        found = await self._do(context, lambda: schema.shape(kind.token).failures(plain))
        failures = [provider_pb2.CheckFailure(property=one.property, reason=self._redact(one.reason)) for one in found]
        return provider_pb2.CheckResponse(inputs=encode(restore_secret_marks(plain, news)), failures=failures)

    async def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Compare inputs with inputs: outputs contain AWS's own values, and would always differ."""
        kind = await self._kind(request, context)
        return _answer(life.difference(kind, unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(decode(request.news))))

    async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        """Create the resource, or preview its outputs."""
        kind, news = await self._kind(request, context), decode(request.properties)
        plain = unwrap_secrets(news)
        account = self._at(plain)
        if request.preview:
            expected = await self._do(context, lambda: life.foreseen(account, kind, plain))
            return provider_pb2.CreateResponse(properties=self._sealed(expected, news))
        made = await self._do(context, lambda: life.create(account, kind, plain))
        return provider_pb2.CreateResponse(id=made.ident, properties=self._sealed(made.outputs, news))

    async def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        """Return live inputs and outputs; an empty response means that the resource does not exist."""
        kind, inputs, outputs = await self._kind(request, context), decode(request.inputs), decode(request.properties)
        self._redact.learn({**outputs, **inputs})
        plain = unwrap_secrets(inputs)
        account = self._at(plain)
        found = await self._do(context, lambda: life.read(account, kind, request.id, plain))
        if found is None:
            return provider_pb2.ReadResponse()
        live = encode(self._redact.seal(restore_secret_marks(found.inputs, inputs)))
        return provider_pb2.ReadResponse(id=found.ident, properties=self._sealed(found.outputs, {**outputs, **inputs}), inputs=live)

    async def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        """Update the resource in place, or preview that."""
        kind, news = await self._kind(request, context), decode(request.news)
        self._redact.learn(news)
        olds, plain = unwrap_secrets(decode(request.old_inputs)), unwrap_secrets(news)
        account = self._at(plain)
        if request.preview:
            before = unwrap_secrets(decode(request.olds))
            changed = [path.split(".")[0].split("[")[0] for path in life.difference(kind, olds, plain).changes]
            await self._do(context, lambda: life.demand_changeable(kind, changed))
            return provider_pb2.UpdateResponse(properties=self._sealed(life.foreseen_change(account, kind, before, plain), news))
        found = await self._do(context, lambda: life.update(account, kind, request.id, olds, plain))
        return provider_pb2.UpdateResponse(properties=self._sealed(found.outputs, news))

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Delete the resource by its recorded inputs."""
        kind, inputs = await self._kind(request, context), unwrap_secrets(decode(request.old_inputs))
        account = self._at(inputs)
        await self._do(context, lambda: life.delete(account, kind, request.id, inputs))
        return empty_pb2.Empty()

    async def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        """Call a function."""
        function = FUNCTIONS.get(request.tok)
        if function is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in for the aws provider has no function {request.tok}")
        assert function is not None
        arguments = unwrap_secrets(decode(request.args))
        account = self._at(arguments)
        found = await self._do(context, lambda: {**function(account, arguments), "region": account.region})
        return provider_pb2.InvokeResponse(**{"return": encode(found)})  # type: ignore[arg-type]

    async def _kind(self, request: Any, context: Any) -> ResourceType:
        token = request.urn.split("::")[2].split("$")[-1]
        kind = KINDS.get(token)
        if kind is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in for the aws provider has no resource {token}")
        assert kind is not None
        return kind

    def _at(self, inputs: Properties) -> Account:
        assert self._account is not None, "the engine configures a provider before it uses it"
        return self._account.at(inputs.get("region") if isinstance(inputs.get("region"), str) else None)

    def _sealed(self, outputs: Properties, recorded: Properties) -> Any:
        """Return outputs with every value that contains a secret marked, `tagsAll` and the like, too."""
        return encode(self._redact.seal(restore_secret_marks(outputs, recorded)))

    async def _do(self, context: Any, call: Callable[[], Result]) -> Result:
        """Return the call's result; turn an exception into a message."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except (ClientError, BotoCoreError, RackwrightError, Unsupported, ValueError) as error:
            message = str(error)
        except Exception as error:
            message = f"{type(error).__name__}: {error}\nthis is a defect of the stand-in:\n{traceback.format_exc()}"
        await context.abort(grpc.StatusCode.UNKNOWN, self._redact(message))
        raise AssertionError("abort returned")


def _answer(found: DiffResult) -> provider_pb2.DiffResponse:
    some = bool(found.changes)
    return provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if some else provider_pb2.DiffResponse.DIFF_NONE,
        replaces=found.replaces,
        diffs=list(found.changes),
        deleteBeforeReplace=found.delete_before_replace,
        hasDetailedDiff=True,
        detailedDiff={
            path: provider_pb2.PropertyDiff(kind=_PROPERTY_DIFF[change], inputDiff=True) for path, change in found.changes.items()
        },
    )
