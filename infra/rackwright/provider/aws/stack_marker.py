"""The marker of a stack on AWS: created before every other resource and deleted last, when no resource may have the stack's tag any more.

An interrupted create, or a destroy with the credentials of another account, leaves resources that the engine has no record of and that
are billed.
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
"""Number of queries before leftovers are an error. Chosen: 15 s in all; not measured on AWS."""
_PAUSE: Final = 5.0
"""Seconds between queries: AWS lists a deleted resource for a moment longer (EC2 API reference: Eventual consistency)."""


class StackMarker(Resource):
    """Inputs: stack, region. Output: `account`, the account number. Delete searches for resources that still have the stack's tag."""

    token: ClassVar[str] = "rackwright:aws:StackMarker"
    required: ClassVar[tuple[str, ...]] = ("stack", "region")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "region"})

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown account; a preview sends no request."""
        return {**news, "account": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Record the number of the account that the credentials belong to."""
        number, _ = await asyncio.to_thread(Account(news["region"]).identity)
        return LiveResource(news["stack"], {**news, "account": number})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Verify that nothing with the stack's tag remains; raise an error that names each leftover."""
        stack, account = state.inputs["stack"], Account(state.inputs["region"])
        await operation.status("searching for leftovers")
        await asyncio.to_thread(_prove_empty, account, stack, state.outputs.get("account"))


def _prove_empty(account: Account, stack: str, expected: object) -> None:
    number, _ = account.identity()
    if expected is not None and number != expected:
        raise RackwrightError(
            f"stack {stack} is in account {expected}, but these credentials open {number}: resources of the other account may remain",
            hint=f"use the credentials of {expected} and run `rackwright down --by-label {stack}`",
        )
    for _ in range(_LOOKS - 1):
        if not orphans.find(account, stack).remaining:
            break
        time.sleep(_PAUSE)
    orphans.require_empty(account, stack)
