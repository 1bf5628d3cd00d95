"""The mark that everything of a stack on AWS carries: made before all else, deleted after all else, and then nothing may carry it any more.

A create that was cut off, or a destroy with another account's credentials, leaves things that the engine knows nothing of and that bill.
"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, Final

from rackwright.drivers.aws import orphans
from rackwright.drivers.aws.account import Account
from rackwright.errors import RackwrightError
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

_LOOKS: Final = 4
"""Number of looks before what is left is an error. Chosen: 15 s in all; not measured on AWS."""
_PAUSE: Final = 5.0
"""Seconds between looks: AWS goes on listing what was just deleted for a moment (EC2 API reference: Eventual consistency)."""


class StackMarker(Resource):
    """Inputs: stack, region. Outputs: `account`, whose number it is. Deleting it looks for whatever still carries the stack's tag."""

    token: ClassVar[str] = "rackwright:aws:StackMarker"
    required: ClassVar[tuple[str, ...]] = ("stack", "region")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "region"})

    def preview_outputs(self, news: Properties) -> Properties:
        """A preview asks nobody."""
        return {**news, "account": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Nothing to make but the memory of whose account it is."""
        number, _ = await asyncio.to_thread(Account(news["region"]).identity)
        return LiveResource(news["stack"], {**news, "account": number})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """The last of the stack to go: fails, naming what is left."""
        stack, account = state.inputs["stack"], Account(state.inputs["region"])
        await operation.status("looking for what is left")
        await asyncio.to_thread(_prove_empty, account, stack, state.outputs.get("account"))


def _prove_empty(account: Account, stack: str, expected: object) -> None:
    number, _ = account.identity()
    if expected is not None and number != expected:
        raise RackwrightError(
            f"stack {stack} is in account {expected}, but these credentials open {number}: what they did not see may still be there",
            hint=f"use the credentials of {expected} and look with `rackwright down --by-label {stack}`",
        )
    for _ in range(_LOOKS - 1):
        if not orphans.find(account, stack).left:
            break
        time.sleep(_PAUSE)
    orphans.prove_empty(account, stack)
