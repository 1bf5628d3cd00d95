"""A recorded time: when a stack was created, from which its expiry is computed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class StaticTime(Resource):
    """No inputs. Output: `at`, ISO 8601 in UTC, whole seconds; it never changes."""

    token: ClassVar[str] = "rackwright:time:Static"

    def preview_outputs(self, news: Properties) -> Properties:
        """Return `at` as unknown."""
        return {**news, "at": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Record the current time."""
        return LiveResource(operation.name, {**news, "at": datetime.now(UTC).isoformat(timespec="seconds")})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the time exists in the state only."""
