"""rackwright.cluster.k8s: what it applies and deletes, against a stand-in for the official client and its server."""

from __future__ import annotations

import copy
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import server_side_apply as applying
from ansible_collections.rackwright.cluster.plugins.modules import k8s as objects


class NotFoundError(Exception):
    """As the client's."""


class ResourceNotFoundError(Exception):
    """As the client's."""


class DynamicApiError(Exception):
    """As the client's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason

    def summary(self) -> str:
        return f"because of {self.reason}"


class Answer:
    """As the client's: a dictionary that is asked for."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def to_dict(self) -> Any:
        return copy.deepcopy(self.found)


def key(kind: str, name: str, namespace: str | None = None) -> tuple[str, str | None, str]:
    return (kind, namespace, name)


class Server:
    """Objects by kind, namespace and name; an object that is applied is merged into what is there."""

    def __init__(self) -> None:
        self.kinds = {"ConfigMap", "Node", "Namespace"}
        self.live: dict[tuple[str, str | None, str], dict[str, Any]] = {}
        self.patches: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.errors: list[DynamicApiError] = []
        self.read_errors: list[DynamicApiError] = []
        self.delete_errors: list[DynamicApiError] = []
        self.registers_at = 0
        self.looks = 0
        self.resources = SimpleNamespace(get=self.kind)

    def kind(self, api_version: str, kind: str) -> Any:
        if kind not in self.kinds:
            raise ResourceNotFoundError(kind)
        return Resource(self, kind)

    def put(self, kind: str, name: str, namespace: str | None = None, *, ours: bool = True, **more: Any) -> None:
        labels = {"app.kubernetes.io/managed-by": "rackwright"} if ours else {}
        metadata = {"name": name, "labels": labels, "resourceVersion": "1", "managedFields": [{"time": "t0"}]}
        self.live[key(kind, name, namespace)] = {"metadata": {**metadata, **({"namespace": namespace} if namespace else {})}, **more}

    def patch(self, kind: Any, body: dict[str, Any], name: str, namespace: str | None, **asked: Any) -> Answer:
        self.patches.append(asked)
        if self.errors:
            raise self.errors.pop(0)
        before = self.live.get(key(kind.kind, name, namespace), {})
        after = {**before, **body, "status": {"seen": len(self.patches)}}
        after["metadata"] = {**before.get("metadata", {}), **body["metadata"], "resourceVersion": str(len(self.patches) + 1)}
        if ("dryRun", "All") not in asked["query_params"]:
            self.live[key(kind.kind, name, namespace)] = after
        return Answer(after)


class Resource:
    """One kind."""

    def __init__(self, server: Server, kind: str) -> None:
        self.server, self.kind = server, kind

    def get(self, name: str = "", namespace: str | None = None, label_selector: str = "") -> Answer:
        if self.server.read_errors:
            raise self.server.read_errors.pop(0)
        if label_selector:
            label, value = label_selector.split("=")
            found = [one for where, one in self.server.live.items() if where[0] == self.kind]
            return Answer({"items": [one for one in found if one["metadata"].get("labels", {}).get(label) == value]})
        self.server.looks += 1
        if self.kind == "Node" and self.server.looks == self.server.registers_at:
            self.server.put("Node", name)
        if key(self.kind, name, namespace) not in self.server.live:
            raise NotFoundError(name)
        return Answer(self.server.live[key(self.kind, name, namespace)])

    def delete(self, name: str, namespace: str | None) -> None:
        if key(self.kind, name, namespace) not in self.server.live:
            raise NotFoundError(name)
        self.server.deleted.append(name)
        del self.server.live[key(self.kind, name, namespace)]
        if self.server.delete_errors:
            raise self.server.delete_errors.pop(0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The stand-in, in the place of python3-kubernetes."""
    made = Server()
    names = ("kubernetes", "kubernetes.config", "kubernetes.dynamic", "kubernetes.dynamic.exceptions", "kubernetes.client")
    parts: dict[str, Any] = {name: ModuleType(name) for name in names}
    parts["kubernetes.config"].load_kube_config = lambda config_file: None
    parts["kubernetes.dynamic"].DynamicClient = lambda client: made
    parts["kubernetes.client"].api_client = SimpleNamespace(ApiClient=lambda: None)
    for error in (NotFoundError, ResourceNotFoundError, DynamicApiError):
        setattr(parts["kubernetes.dynamic.exceptions"], error.__name__, error)
    parts["kubernetes"].config, parts["kubernetes"].dynamic = parts["kubernetes.config"], parts["kubernetes.dynamic"]
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setattr(applying.time, "monotonic", iter(range(10**6)).__next__)  # each look is a second, in the module as in its clock
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return made


def wanted(name: str, kind: str = "ConfigMap", namespace: str | None = "research", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


class TestApplied:
    def test_as_ours_on_the_servers_side(self, run: Any, server: Server) -> None:
        told = run(objects, {"objects": [wanted("a", data={"x": "1"})]})
        assert told["applied"] == ["ConfigMap research/a"] and told["changed"]
        (asked,) = server.patches
        assert asked["content_type"] == "application/apply-patch+yaml" and asked["field_manager"] == "rackwright" and asked["force"]

    @pytest.mark.parametrize(("status", "refused"), [(429, False), (500, False), (503, False), (403, True)])
    def test_server_that_has_just_started_is_asked_again(self, run: Any, server: Server, status: int, refused: bool) -> None:
        server.read_errors = [DynamicApiError(status, "storage is (re)initializing")] * 3
        server.errors = [DynamicApiError(status, "storage is (re)initializing")]
        told = run(objects, {"objects": [wanted("a")], "prune": [{"apiVersion": "v1", "kind": "ConfigMap"}]})
        assert told["failed"] is refused and told.get("changed", False) is not refused
        assert server.read_errors == [] or refused

    def test_deletion_whose_answer_was_lost_is_complete(self, run: Any, server: Server) -> None:
        server.put("ConfigMap", "old", "research")
        server.delete_errors = [DynamicApiError(504, "Gateway Timeout")]
        told = run(objects, {"objects": [], "prune": [{"apiVersion": "v1", "kind": "ConfigMap"}]})
        assert not told["failed"] and told["pruned"] == ["ConfigMap research/old"] and server.deleted == ["old"]

    def test_server_that_stays_overloaded_is_named(self, run: Any, server: Server) -> None:
        server.read_errors = [DynamicApiError(429, "Too Many Requests")] * 1000
        told = run(objects, {"objects": [wanted("a")], "timeout": 30})
        assert told["failed"] and "ConfigMap a: after 30 s the API server still answers 429 Too Many" in told["msg"]

    def test_what_is_so_already_is_no_change(self, run: Any, server: Server) -> None:
        run(objects, {"objects": [wanted("a", data={"x": "1"})]})
        told = run(objects, {"objects": [wanted("a", data={"x": "1"})]})
        assert not told["changed"] and not told["failed"] and len(server.patches) == 2
        assert run(objects, {"objects": [wanted("a", data={"x": "2"})]})["applied"] == ["ConfigMap research/a"]

    def test_check_mode_asks_the_server(self, run: Any, server: Server) -> None:
        server.put("ConfigMap", "a", "research", data={"x": "1"})
        before = copy.deepcopy(server.live)
        told = run(objects, {"objects": [wanted("a", data={"x": "2"}), wanted("new")]}, check=True)
        assert told["applied"] == ["ConfigMap research/a", "ConfigMap research/new"] and server.live == before
        assert [("dryRun", "All") in asked["query_params"] for asked in server.patches] == [True]

    def test_a_kind_that_comes_with_an_object_before_it(self, run: Any, server: Server) -> None:
        asked = {"objects": [wanted("q", kind="Queue")]}
        assert run(objects, asked, check=True)["applied"] == ["Queue research/q"]
        told = run(objects, asked)
        assert told["failed"] and "v1 Queue: unknown kind in this cluster" in told["msg"]

    def test_a_refusal_is_told_at_once(self, run: Any, server: Server) -> None:
        server.errors = [DynamicApiError(422, "Invalid")]
        told = run(objects, {"objects": [wanted("a"), wanted("b")]})
        assert told["failed"] and told["msg"] == "ConfigMap research/a: 422 Invalid: because of Invalid" and len(server.patches) == 1

    def test_a_server_that_is_busy_is_asked_again(self, run: Any, server: Server) -> None:
        server.errors = [DynamicApiError(503, "busy"), DynamicApiError(500, "starting")]
        assert run(objects, {"objects": [wanted("a")]})["applied"] == ["ConfigMap research/a"] and len(server.patches) == 3

    def test_one_that_stays_busy_is_told(self, run: Any, server: Server) -> None:
        server.errors = [DynamicApiError(503, "busy")] * 99
        assert "503 busy" in run(objects, {"objects": [wanted("a")], "timeout": 5})["msg"]

    def test_without_the_client_it_says_what_is_missing(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "kubernetes", None)
        told = run(objects, {"objects": []})
        assert told["failed"] and told["msg"].startswith("python3-kubernetes: ")


class TestNodes:
    def test_one_that_registers_late_is_waited_for(self, run: Any, server: Server) -> None:
        server.registers_at = 4
        told = run(objects, {"objects": [wanted("w1", kind="Node", namespace=None, spec={})]})
        assert told["applied"] == ["Node w1"] and told["absent"] == []

    def test_one_that_never_does_is_told_and_the_rest_goes_on(self, run: Any, server: Server) -> None:
        told = run(objects, {"objects": [wanted("w1", kind="Node", namespace=None), wanted("a")], "timeout": 5})
        assert told["absent"] == ["w1"] and told["applied"] == ["ConfigMap research/a"] and not told["failed"]
        assert server.looks > 3

    def test_check_mode_does_not_wait(self, run: Any, server: Server) -> None:
        told = run(objects, {"objects": [wanted("w1", kind="Node", namespace=None)]}, check=True)
        assert told["absent"] == ["w1"] and server.looks <= 3


class TestPruned:
    KIND = {"apiVersion": "v1", "kind": "ConfigMap"}

    @pytest.fixture
    def full(self, server: Server) -> Server:
        server.put("ConfigMap", "a", "research")
        server.put("ConfigMap", "a", "vision")
        server.put("ConfigMap", "old", "research")
        server.put("ConfigMap", "theirs", "research", ours=False)
        server.put("Namespace", "other")
        server.put("ConfigMap", "going", "research")
        server.live[key("ConfigMap", "going", "research")]["metadata"]["deletionTimestamp"] = "t"
        return server

    def test_only_what_is_ours_and_no_longer_said(self, run: Any, full: Server) -> None:
        told = run(objects, {"objects": [wanted("a")], "prune": [self.KIND]})
        assert told["pruned"] == ["ConfigMap vision/a", "ConfigMap research/old"] and full.deleted == ["a", "old"]
        assert key("ConfigMap", "theirs", "research") in full.live and key("Namespace", "other") in full.live
        assert key("ConfigMap", "a", "research") in full.live

    def test_check_mode_only_tells(self, run: Any, full: Server) -> None:
        told = run(objects, {"objects": [wanted("a")], "prune": [self.KIND]}, check=True)
        assert told["changed"] and len(told["pruned"]) == 2 and full.deleted == []

    def test_of_a_kind_that_is_not_there_yet_nothing_is(self, run: Any, server: Server) -> None:
        assert not run(objects, {"objects": [], "prune": [{"apiVersion": "x/v1", "kind": "Queue"}]}, check=True)["changed"]
