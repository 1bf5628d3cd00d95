"""Derive the public half of an SSH key from the private one: a second copy in the secrets could differ."""

from __future__ import annotations

from collections.abc import Callable

from ansible.errors import AnsibleFilterError


def public_half(private: str) -> str:
    """Return type and base64 of the public key of an unencrypted OpenSSH key; errors never contain the key."""
    from cryptography.hazmat.primitives import serialization

    try:
        public = serialization.load_ssh_private_key(private.encode(), password=None).public_key()
    except (ValueError, TypeError):
        raise AnsibleFilterError("not a private key in OpenSSH format - run `rackwright up` to pass the stack's own key again") from None
    return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


class FilterModule:
    """Provide the filter `rackwright_public_half`."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filters by name."""
        return {"rackwright_public_half": public_half}
