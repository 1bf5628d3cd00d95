"""A moment that is remembered: when a stack was made, so that its end can be told from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class StaticTime(Resource):
    """No inputs. Outputs: `at`, ISO 8601 in UTC, whole seconds; it never changes."""

    token: ClassVar[str] = "rackwright:time:Static"

    def preview_outputs(self, news: Properties) -> Properties:
        """Nobody knows it before it comes."""
        return {**news, "at": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Now."""
        return LiveResource(operation.name, {**news, "at": datetime.now(UTC).isoformat(timespec="seconds")})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """It lives in the state only."""
