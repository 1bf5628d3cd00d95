"""SSH public keys: decoded, not only matched, so that a truncated key is found before a machine refuses it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from typing import Final

KEY_TYPES: Final = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
"""Types of plain keys that sshd of the supported systems accepts (sshd_config(5): PubkeyAcceptedAlgorithms)."""
RSA_BITS: Final = 2048
"""NIST SP 800-131A revision 2, table 2; Rocky Linux 9 refuses shorter keys (crypto-policies: RequiredRSASize)."""


def fault_of(key: str) -> str | None:
    """Return what is wrong with a public key, as the end of a sentence, or None; `key`: one line of type, base64 and comment."""
    words = key.split()
    if "PRIVATE KEY" in key:
        return "is a private key: keep it secret, and replace it if this file was shared"
    if len(key.strip().splitlines()) != 1 or len(words) < 2:
        return "is not a public key"
    return _fault_of_type(words[0]) or _fault_of_blob(words[0], words[1])


def fingerprint(key: str) -> str | None:
    """Return the SHA-256 fingerprint of a public key as `ssh-keygen -l` prints it, without padding; None if the data is not base64."""
    words = key.split()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, binascii.Error):
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _fault_of_type(kind: str) -> str | None:
    if "-cert-v0" in kind:
        return "is a certificate: enter the key that it certifies (the file without -cert in its name)"
    if kind == "ssh-dss":
        return "is a DSA key, which OpenSSH has refused since release 7.0: create an Ed25519 key"
    return None if kind in KEY_TYPES else f"`{kind[:40]}` is not a key type that sshd accepts"


def _fault_of_blob(kind: str, text: str) -> str | None:
    """Decode the base64 part of a key (RFC 4253, 6.6) and compare its type with the one in front of it."""
    try:
        blob = base64.b64decode(text, validate=True)
        (length,) = struct.unpack(">I", blob[:4])
    except (binascii.Error, struct.error):
        return "is damaged: the data after the type is not base64, or was truncated"
    inner = blob[4 : 4 + length]
    if inner != kind.encode():
        named = f" ({inner.decode('ascii')})" if inner.decode("ascii", "replace") in KEY_TYPES else ""
        return f"is damaged: the key{named} does not match its type"
    return _fault_of_numbers(kind, text)


def _fault_of_numbers(kind: str, text: str) -> str | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        decoded = load_ssh_public_key(f"{kind} {text}".encode())
    except (ValueError, UnsupportedAlgorithm):
        return "is damaged: the key was truncated, or data was added to it"
    if isinstance(decoded, RSAPublicKey) and decoded.key_size < RSA_BITS:
        return f"is an RSA key of {decoded.key_size} bits (expected at least {RSA_BITS}): create an Ed25519 key"
    return None
