"""What a resource of this provider is: five calls of its life, plain values in and out.

The wire, secrets, partial failures and the engine's protocol stay in `servicer`; a resource sees plain dictionaries.
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
    """Whether this refresh leaves configuration and behaviour alone: the stack says so, or who runs it."""
    return "resources" in (inputs.get("options", {}).get("refresh"), os.environ.get(REFRESH_SCOPE_ENV))


@dataclass(frozen=True)
class RequestContext:
    """One call on one resource: who asks, and where its progress goes."""

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
    """An input that cannot work: which one and why."""

    property: str
    reason: str


@dataclass(frozen=True)
class LiveResource:
    """A resource that exists; with `reasons`, it exists but is not good (a partial failure the engine remembers)."""

    id: str
    outputs: Properties
    reasons: tuple[str, ...] = ()
    inputs: Properties | None = None
    """The inputs as found on the real thing; None where they are as recorded."""


@dataclass(frozen=True)
class RecordedState:
    """What the engine has on record: the inputs of the last run and what came out of it."""

    id: str
    inputs: Properties
    outputs: Properties
    reasons: tuple[str, ...] = field(default=())


class Resource:
    """A resource type. Subclasses say what their token is and override the calls they need."""

    token: ClassVar[str]
    replace_on_changes: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose change needs a new resource."""
    ignore_changes: ClassVar[frozenset[str]] = frozenset()
    """Inputs that matter to new resources only: a change leaves existing ones alone."""
    required: ClassVar[tuple[str, ...]] = ()

    def check(self, news: Properties) -> list[CheckFailure]:
        """Findings about the inputs; unknown values are accepted."""
        return [CheckFailure(name, "is missing") for name in self.required if news.get(name) is None]

    def apply_defaults(self, news: Properties) -> Properties:
        """The inputs with their defaults filled in."""
        return news

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """What changes between the record and the new inputs."""
        return diff_properties(state.inputs, news, replace_on=self.replace_on_changes, ignore=self.ignore_changes)

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add what an `up` without a refresh has to repair. Must be cheap: every `up` and `preview` waits for it."""
        return found

    def preview_outputs(self, news: Properties) -> Properties:
        """The outputs a preview can know."""
        return dict(news)

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Make it, or adopt what a run that died left behind."""
        raise NotImplementedError

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """The live truth; None when it is gone."""
        return LiveResource(state.id, state.outputs)

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Bring it to the new inputs in place."""
        raise NotImplementedError

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove it; removing what is gone already is fine."""


def text(properties: Mapping[str, Any], name: str) -> str:
    """A text property; empty when absent."""
    value = properties.get(name)
    return "" if value is None else str(value)
