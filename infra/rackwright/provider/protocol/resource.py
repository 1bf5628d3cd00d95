"""A resource of this provider: the five operations of its life, with plain values as input and output.

Wire format, secrets, partial failures and the engine's protocol belong to `servicer`; a resource gets plain dictionaries.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rackwright.drivers.pulumi import REFRESH_SCOPE_ENV
from rackwright.provider.protocol.diff import DiffResult, diff_properties
from rackwright.provider.protocol.property_values import Properties


def refreshes_resources_only(inputs: Properties) -> bool:
    """Return whether this refresh skips configuration and behaviour, because the stack or the environment requests it."""
    return "resources" in (inputs.get("options", {}).get("refresh"), os.environ.get(REFRESH_SCOPE_ENV))


@dataclass(frozen=True)
class RequestContext:
    """One call on one resource: the caller, and the destination of progress messages."""

    urn: str
    stack: str
    name: str
    preview: bool
    status: Callable[[str], Awaitable[None]]
    """Shows a line that the next one overwrites."""
    info: Callable[[str], Awaitable[None]]
    """Shows a line that stays."""
    warn: Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class CheckFailure:
    """An invalid input: its name and the reason."""

    property: str
    reason: str


@dataclass(frozen=True)
class LiveResource:
    """A resource that exists; with `init_errors`, it exists but is not healthy (a partial failure, which the engine records)."""

    id: str
    outputs: Properties
    init_errors: tuple[str, ...] = ()
    inputs: Properties | None = None
    """Inputs as read from the live resource; None where they are as recorded."""


@dataclass(frozen=True)
class RecordedState:
    """The engine's record of a resource: inputs and outputs of the last run."""

    id: str
    inputs: Properties
    outputs: Properties
    init_errors: tuple[str, ...] = field(default=())


class Resource:
    """A resource type. Subclasses define their token and override the calls that they need."""

    token: ClassVar[str]
    replace_on_changes: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose change needs a new resource."""
    ignore_changes: ClassVar[frozenset[str]] = frozenset()
    """Inputs that apply to new resources only: a change leaves existing ones as they are."""
    required: ClassVar[tuple[str, ...]] = ()

    def check(self, news: Properties) -> list[CheckFailure]:
        """Return failures of the inputs; unknown values are accepted."""
        return [CheckFailure(name, "is missing") for name in self.required if news.get(name) is None]

    def apply_defaults(self, news: Properties) -> Properties:
        """Return the inputs with their defaults filled in."""
        return news

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return the changes between the record and the new inputs."""
        return diff_properties(state.inputs, news, replace_on=self.replace_on_changes, ignore=self.ignore_changes)

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add differences that an `up` without a refresh must repair. Must be fast: every `up` and `preview` waits for this."""
        return found

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the outputs that a preview can determine."""
        return dict(news)

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create the resource, or adopt one that a killed run left."""
        raise NotImplementedError

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the live state, or None for a deleted resource."""
        return LiveResource(state.id, state.outputs)

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Apply the new inputs in place."""
        raise NotImplementedError

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Delete the resource; deleting one that does not exist succeeds."""


def text(properties: Mapping[str, Any], name: str) -> str:
    """Return a text property, empty when absent."""
    value = properties.get(name)
    return "" if value is None else str(value)
