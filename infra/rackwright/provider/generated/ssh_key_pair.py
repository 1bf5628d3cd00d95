"""An SSH key pair made once: a host's identity before the host exists, or the key that opens the stack."""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers.ssh_key_pair import generate
from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class SshKeyPair(Resource):
    """Inputs: comment. Outputs: `public_key` (one authorized_keys line), `private_key` (OpenSSH, secret)."""

    token: ClassVar[str] = "rackwright:secret:SshKeyPair"
    required: ClassVar[tuple[str, ...]] = ("comment",)
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"comment"})

    def preview_outputs(self, news: Properties) -> Properties:
        """Nobody knows a key before it is made."""
        return {**news, "public_key": UNKNOWN, "private_key": Secret(UNKNOWN)}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Make an Ed25519 pair."""
        public, private = generate(news["comment"])
        return LiveResource(operation.name, {**news, "public_key": public, "private_key": Secret(private)})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """It lives in the state only; whoever wrote it to a disk removes it there."""
