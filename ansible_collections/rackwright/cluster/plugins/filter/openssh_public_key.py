"""Derive the public half of an SSH key from the private one: a second copy in the secrets could differ."""

from __future__ import annotations

from collections.abc import Callable

from ansible.errors import AnsibleFilterError


def openssh_public_key(private: str) -> str:
    """Return type and base64 of the public key of an unencrypted OpenSSH key; errors never contain the key."""
    from cryptography.hazmat.primitives import serialization

    try:
        public = serialization.load_ssh_private_key(private.encode(), password=None).public_key()
    except (ValueError, TypeError):
        raise AnsibleFilterError("not a private key in OpenSSH format - run `rackwright up` to pass the stack's own key again") from None
    return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


DOCUMENTATION = r"""
name: openssh_public_key
short_description: Public half of a private SSH key
description: Returns type and base64 of the public key, without a comment.
positional: _input
options:
  _input: {type: str, required: true, description: Unencrypted private key in OpenSSH format.}
"""

EXAMPLES = r"""
host_public_key: "{{ host_private_key | rackwright.cluster.openssh_public_key }}"
"""

RETURN = r"""
_value: {type: str, description: "Type and base64, as C(ssh-ed25519 AAAA…)."}
"""


class FilterModule:
    """Provide the filter `openssh_public_key`."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filters by name."""
        return {"openssh_public_key": openssh_public_key}
