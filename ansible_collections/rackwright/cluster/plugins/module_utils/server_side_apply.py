"""Apply objects to a Kubernetes cluster with server-side apply: rackwright owns the declared fields only, fields of others stay.

Needs python3-kubernetes on the controller where it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks

MANAGER = "rackwright"
TOO_MANY_REQUESTS = 429
"""HTTP status of an API server that is overloaded, or that has just started and still reads its objects."""
OURS = "app.kubernetes.io/managed-by=rackwright"


class ObjectsError(Exception):
    """A cluster error: place, problem, hint."""


def told(found: dict[str, Any]) -> str:
    """Return kind, namespace and name of an object."""
    metadata = found["metadata"]
    return f"{found['kind']} {metadata['namespace'] + '/' if metadata.get('namespace') else ''}{metadata['name']}"


def bare(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object without fields that change at every read."""
    metadata = {
        key: value for key, value in found.get("metadata", {}).items() if key not in ("managedFields", "resourceVersion", "generation")
    }
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}


def is_temporary(error: Any) -> bool:
    """Return whether the same request can succeed later."""
    return bool(error.status >= 500 or error.status == TOO_MANY_REQUESTS)


def refusal(error: Any) -> str:
    """Return status, reason and message of an error of the API server."""
    return f"{error.status} {error.reason}: {error.summary()}"


class Applying:
    """Server-side apply of one task's objects."""

    def __init__(self, client: Any, check: bool, timeout: int) -> None:
        self.client = client
        self.check = check
        self.timeout = timeout
        self.applied: list[str] = []
        self.pruned: list[str] = []
        self.absent: list[str] = []

    def apply(self, wanted: dict[str, Any]) -> None:
        """Apply one object."""
        kind = self._kind(wanted)
        if kind is None:  # an earlier object defines its kind, which check mode did not apply
            self.applied.append(told(wanted))
            return
        metadata = wanted["metadata"]
        before = (
            self._registered(kind, metadata["name"])
            if wanted["kind"] == "Node"
            else self._get(kind, metadata["name"], metadata.get("namespace"))
        )
        if before is None and wanted["kind"] == "Node":
            self.absent.append(metadata["name"])
            return
        if before is None and self.check:
            self.applied.append(told(wanted))
            return
        after = self._send(kind, wanted, dry=self.check)
        if before is None or bare(before) != bare(after):
            self.applied.append(told(wanted))

    def prune(self, kind: dict[str, str], wanted: list[dict[str, Any]]) -> None:
        """Delete rackwright's objects of a kind that are no longer declared. An unknown kind has none."""
        resource = self.known(kind)
        if resource is None:
            return
        named = {(one["metadata"].get("namespace"), one["metadata"]["name"]) for one in wanted if one["kind"] == kind["kind"]}
        for found in self.ask(kind["kind"], lambda: resource.get(label_selector=OURS)).to_dict()["items"]:
            metadata = found["metadata"]
            if (metadata.get("namespace"), metadata["name"]) in named or metadata.get("deletionTimestamp"):
                continue
            self.pruned.append(told({"kind": kind["kind"], **found}))
            self.delete({**kind, **found})

    def delete(self, found: dict[str, Any]) -> None:
        """Delete an object of the cluster, which may be gone already; nothing in check mode."""
        from kubernetes.dynamic.exceptions import NotFoundError

        resource, metadata = self.known(found), found["metadata"]
        if self.check:
            return
        try:
            self.ask(told(found), lambda: resource.delete(name=metadata["name"], namespace=metadata.get("namespace")))
        except NotFoundError:
            return

    def ask(self, subject: str, request: Callable[[], Any]) -> Any:
        """Return the answer to a request, which is repeated while the API server, or a webhook that it calls, is not ready.

        Raise ObjectsError with the subject after the timeout.
        """
        from kubernetes.dynamic.exceptions import DynamicApiError

        refused = ""
        for _ in ticks(time.monotonic() + self.timeout):
            try:
                return request()
            except DynamicApiError as error:
                if not is_temporary(error):
                    raise
                refused = refusal(error)
        hint = "check the API server and its webhooks (`kubectl get --raw /readyz?verbose`)"
        raise ObjectsError(f"{subject}: after {self.timeout} s the API server still answers {refused} - {hint}")

    def found(self, wanted: dict[str, Any]) -> dict[str, Any] | None:
        """Return an object of the cluster; None if it does not exist."""
        kind = self.known(wanted)
        return None if kind is None else self._get(kind, wanted["metadata"]["name"], wanted["metadata"].get("namespace"))

    def known(self, wanted: dict[str, Any]) -> Any:
        """Return the resource of a kind; None if the cluster does not have it."""
        from kubernetes.dynamic.exceptions import ResourceNotFoundError

        try:
            return self.client.resources.get(api_version=wanted["apiVersion"], kind=wanted["kind"])
        except ResourceNotFoundError:
            return None

    def _kind(self, wanted: dict[str, Any]) -> Any:
        """Return the resource of a kind as `known` does, but wait for a new definition. Raise ObjectsError after the timeout."""
        for _ in ticks(time.monotonic() + (0 if self.check else self.timeout)):
            found = self.known(wanted)
            if found is not None or self.check:
                return found
        raise ObjectsError(f"{wanted['apiVersion']} {wanted['kind']}: unknown kind in this cluster")

    def _registered(self, kind: Any, name: str) -> dict[str, Any] | None:
        """Return a node, and wait for its registration; None after the timeout."""
        found = self._get(kind, name, None)
        for _ in ticks(time.monotonic() + (0 if self.check else self.timeout)):
            if found is not None:
                break
            found = self._get(kind, name, None)
        return found

    def _get(self, kind: Any, name: str, namespace: str | None) -> dict[str, Any] | None:
        from kubernetes.dynamic.exceptions import NotFoundError

        try:
            found: dict[str, Any] = self.ask(f"{kind.kind} {name}", lambda: kind.get(name=name, namespace=namespace)).to_dict()
        except NotFoundError:
            return None
        return found

    def _send(self, kind: Any, wanted: dict[str, Any], *, dry: bool) -> dict[str, Any]:
        """Apply the object, or dry-run it; return the result of the server."""
        from kubernetes.dynamic.exceptions import DynamicApiError

        metadata = wanted["metadata"]
        try:
            done = self.ask(
                told(wanted),
                lambda: self.client.patch(
                    kind,
                    body=wanted,
                    name=metadata["name"],
                    namespace=metadata.get("namespace"),
                    content_type="application/apply-patch+yaml",
                    field_manager=MANAGER,
                    force=True,
                    query_params=[("fieldManager", MANAGER), ("force", "true"), *([("dryRun", "All")] if dry else [])],
                ),
            )
        except DynamicApiError as error:
            raise ObjectsError(f"{told(wanted)}: {refusal(error)}") from None
        found: dict[str, Any] = done.to_dict()
        return found
