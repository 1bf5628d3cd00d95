"""The public half of an SSH key, told from the private one on the controller: a second copy in the secrets could disagree with it."""

from __future__ import annotations

from collections.abc import Callable

from ansible.errors import AnsibleFilterError


def public_half(private: str) -> str:
    """Type and base64 of an unencrypted key in OpenSSH's format; an error never shows any of it."""
    from cryptography.hazmat.primitives import serialization

    try:
        public = serialization.load_ssh_private_key(private.encode(), password=None).public_key()
    except (ValueError, TypeError):
        raise AnsibleFilterError("not a private key in OpenSSH format - run `rackwright up` to pass the stack's own key again") from None
    return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


class FilterModule:
    """The filter `rackwright_public_half`."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Filters by name."""
        return {"rackwright_public_half": public_half}
