"""The provider over its own protocol: partial failures, secrets and mistakes as the engine sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from rackwright.drivers.supervision import Lifetime
from rackwright.errors import RackwrightError
from rackwright.provider import registry
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.engine_log import EngineLog
from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret, decode, encode
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource
from rackwright.provider.protocol.servicer import ProviderServicer

_URN = "urn:pulumi:unit::rackwright::rackwright:unit:Thing::thing"


class Thing(Resource):
    """A resource whose behaviour each test sets."""

    token: ClassVar[str] = "rackwright:unit:Thing"
    required: ClassVar[tuple[str, ...]] = ("wanted",)
    behave: ClassVar[Callable[[Properties], LiveResource]]

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """What the test says."""
        return type(self).behave(news)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """What the test says."""
        return type(self).behave(state.outputs)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[..., Any]:
    """Calls one method of a served provider."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(registry, "resource", lambda token: Thing() if token == Thing.token else None)

    def make(method: str, request: Any) -> Any:
        async def run() -> Any:
            server = grpc.aio.server()
            provider_pb2_grpc.add_ResourceProviderServicer_to_server(ProviderServicer(EngineLog(""), Lifetime()), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                try:
                    return await getattr(provider_pb2_grpc.ResourceProviderStub(channel), method)(request)
                finally:
                    await server.stop(0)

        return asyncio.run(run())

    return make


def _create(properties: Properties, *, preview: bool = False) -> provider_pb2.CreateRequest:
    return provider_pb2.CreateRequest(urn=_URN, properties=encode(properties), preview=preview)


def test_a_missing_input_is_a_finding_not_an_exception(call: Callable[..., Any]) -> None:
    answer = call("Check", provider_pb2.CheckRequest(urn=_URN, news=encode({})))
    assert [(failure.property, failure.reason) for failure in answer.failures] == [("wanted", "is missing")]


def test_an_unknown_input_is_accepted_by_check(call: Callable[..., Any]) -> None:
    assert not call("Check", provider_pb2.CheckRequest(urn=_URN, news=encode({"wanted": UNKNOWN}))).failures


def test_a_secret_input_stays_a_secret_through_check_and_create(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Thing, "behave", staticmethod(lambda news: LiveResource("id", {**news, "copy": f"<{news['wanted']}>"})), raising=False
    )
    checked = call("Check", provider_pb2.CheckRequest(urn=_URN, news=encode({"wanted": Secret("swordfish")})))
    assert decode(checked.inputs) == {"wanted": Secret("swordfish")}
    made = call("Create", _create({"wanted": Secret("swordfish")}))
    assert decode(made.properties) == {"wanted": Secret("swordfish"), "copy": Secret("<swordfish>")}


def test_a_resource_that_is_not_good_is_a_partial_failure_with_redacted_reasons(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Thing, "behave", staticmethod(lambda news: LiveResource("id", {"ok": False}, init_errors=("no swordfish here",))), raising=False
    )
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        call("Create", _create({"wanted": Secret("swordfish")}))
    detail = dict(raised.value.trailing_metadata() or ())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(detail)  # type: ignore[arg-type]
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert (failed.id, list(failed.reasons), decode(failed.properties)) == ("id", ["no [secret] here"], {"ok": False})
    assert decode(failed.inputs) == {"wanted": Secret("swordfish")}


def test_a_persons_mistake_is_told_without_a_traceback(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(news: Properties) -> LiveResource:
        raise RackwrightError("the range is taken", hint="choose another")

    monkeypatch.setattr(Thing, "behave", staticmethod(refuse), raising=False)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        call("Create", _create({"wanted": 1}))
    assert raised.value.details() == "the range is taken\n  choose another"


def test_what_is_gone_reads_as_empty(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thing, "behave", staticmethod(lambda outputs: None), raising=False)
    answer = call("Read", provider_pb2.ReadRequest(urn=_URN, id="id", inputs=encode({"wanted": 1}), properties=encode({"wanted": 1})))
    assert answer.id == ""


def test_read_returns_the_recorded_inputs_so_that_the_state_keeps_them(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thing, "behave", staticmethod(lambda outputs: LiveResource("id", outputs)), raising=False)
    answer = call(
        "Read", provider_pb2.ReadRequest(urn=_URN, id="id", inputs=encode({"wanted": Secret("swordfish")}), properties=encode({}))
    )
    assert decode(answer.inputs) == {"wanted": Secret("swordfish")}


def test_an_unknown_resource_type_is_named(call: Callable[..., Any]) -> None:
    with pytest.raises(
        grpc.aio.AioRpcError, match=r"rackwright:no:Such is not a resource .*run `pulumi destroy` with the version that created the stack"
    ):
        call("Create", provider_pb2.CreateRequest(urn=_URN.replace("unit:Thing", "no:Such")))


def test_diff_includes_live_changes(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped(self: Thing, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        return found.with_change(f"status of {stack}")

    monkeypatch.setattr(Thing, "add_live_changes", stopped)
    same = encode({"wanted": 1})
    answer = call("Diff", provider_pb2.DiffRequest(urn=_URN, id="thing", olds=same, old_inputs=same, news=same))
    assert list(answer.diffs) == ["status of unit"]


@pytest.mark.parametrize("busy", [True, False])
def test_cancel_of_busy_provider_leaves_mark(call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    """The engine cancels idle plugins, too, when a run has ended."""
    mark = tmp_path / "cancelled"
    monkeypatch.setenv("RACKWRIGHT_CANCELLED", str(mark))

    class Cancelled(ProviderServicer):
        async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
            async def work() -> None:
                await self.Cancel(empty_pb2.Empty(), None)

            await (self._guarded(context, self._operation(request), work, locked=False) if busy else work())
            return provider_pb2.CreateResponse(id="thing")

    monkeypatch.setitem(globals(), "ProviderServicer", Cancelled)
    call("Create", _create({}))
    assert mark.exists() is busy
