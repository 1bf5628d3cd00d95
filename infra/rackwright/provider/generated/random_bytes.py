"""Random bytes that are generated once and stored as a secret: the munge key, database passwords."""

from __future__ import annotations

import base64
import secrets
from typing import ClassVar

from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret
from rackwright.provider.protocol.resource import CheckFailure, LiveResource, RecordedState, RequestContext, Resource

_MOST = 65_536
"""Maximum number of bytes. Chosen: far above the longest in use (the MUNGE key, 1024), far below a size that burdens the state."""


class RandomBytes(Resource):
    """Inputs: length. Outputs: `base64` and, for passwords, `hex`, both secret."""

    token: ClassVar[str] = "rackwright:secret:RandomBytes"
    required: ClassVar[tuple[str, ...]] = ("length",)
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"length"})

    def check(self, news: Properties) -> list[CheckFailure]:
        """Return a failure for a length that is not positive."""
        length = news.get("length")
        if length is not None and length != UNKNOWN and not (isinstance(length, int) and 0 < length <= _MOST):
            return [CheckFailure("length", f"{length} is not a number of bytes between 1 and {_MOST}")]
        return super().check(news)

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with unknown bytes."""
        return {**news, "base64": Secret(UNKNOWN), "hex": Secret(UNKNOWN)}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Generate the bytes with the kernel's generator."""
        drawn = secrets.token_bytes(news["length"])
        return LiveResource(operation.name, {**news, "base64": Secret(base64.b64encode(drawn).decode()), "hex": Secret(drawn.hex())})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the bytes exist in the state only."""
