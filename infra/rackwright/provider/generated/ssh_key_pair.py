"""An SSH key pair made once: a host's identity before the host exists, or the key that opens the stack."""

from __future__ import annotations

from typing import ClassVar

from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret
from rackwright.provider.protocol.resource import Made, Operation, Resource, State


class KeyPair(Resource):
    """Inputs: comment. Outputs: `public_key` (one authorized_keys line), `private_key` (OpenSSH, secret)."""

    token: ClassVar[str] = "rackwright:secret:KeyPair"
    required: ClassVar[tuple[str, ...]] = ("comment",)
    only_at_creation: ClassVar[frozenset[str]] = frozenset({"comment"})

    def foresee(self, news: Properties) -> Properties:
        """Nobody knows a key before it is made."""
        return {**news, "public_key": UNKNOWN, "private_key": Secret(UNKNOWN)}

    async def create(self, operation: Operation, news: Properties) -> Made:
        """Make an Ed25519 pair."""
        public, private = generate(news["comment"])
        return Made(operation.name, {**news, "public_key": public, "private_key": Secret(private)})

    async def delete(self, operation: Operation, state: State) -> None:
        """It lives in the state only; whoever wrote it to a disk removes it there."""


def generate(comment: str) -> tuple[str, str]:
    """A fresh Ed25519 pair: (public line, private key in OpenSSH's format)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()).decode()
    return f"{public} {comment}", private
