"""An SSH key pair that is generated once: the host key of a host that does not exist yet, or the login key of the stack."""

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
        """Return the inputs with unknown keys."""
        return {**news, "public_key": UNKNOWN, "private_key": Secret(UNKNOWN)}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Generate an Ed25519 pair."""
        public, private = generate(news["comment"])
        return LiveResource(operation.name, {**news, "public_key": public, "private_key": Secret(private)})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the key exists in the state only. The code that writes a key to a disk removes the file."""
