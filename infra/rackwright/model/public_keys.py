"""SSH public keys: decoded, not only matched, so that a truncated key is found before a machine refuses it."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from typing import Final, NamedTuple

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
_FLAGS: Final = ("agent-forwarding", "port-forwarding", "pty", "user-rc", "x11-forwarding")
_OPTIONS: Final = frozenset(
    {"cert-authority", "restrict", "no-touch-required", "verify-required", *_FLAGS, *(f"no-{flag}" for flag in _FLAGS)}
)
_VALUED: Final = frozenset({"command", "environment", "expiry-time", "from", "permitlisten", "permitopen", "principals", "tunnel"})
"""Options before a key; sshd ignores a line with another one (sshd(8), AUTHORIZED_KEYS FILE FORMAT)."""
_OPTION: Final = re.compile(r'(?P<name>[A-Za-z0-9-]+)(?P<value>="(?:[^"\\]|\\.)*")?(?:,|(?=[ \t])|$)')
_SECRET: Final = re.compile(r"PRIVATE KEY|PuTTY-User-Key-File|Private-Lines:|b3BlbnNzaC1rZXktdjE")
"""Marks of a private key: PEM and OpenSSH, PuTTY, and the base64 of OpenSSH's magic `openssh-key-v1` (PROTOCOL.key)."""
_RFC4716: Final = "---- BEGIN SSH2 PUBLIC KEY ----"
_PEM: Final = {"-----BEGIN PUBLIC KEY-----": "PKCS8", "-----BEGIN RSA PUBLIC KEY-----": "PEM"}
_PRINT: Final = re.compile(r"(?:SHA256:[A-Za-z0-9+/]{43}=?|MD5:[0-9a-f:]+|(?:[0-9a-f]{2}:){15}[0-9a-f]{2})")


class KeyLine(NamedTuple):
    """A line of authorized_keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT)."""

    options: str
    kind: str
    """Type of the key, such as ssh-ed25519; empty if the line ends before."""
    blob: str
    """Base64; empty if the line ends before."""
    comment: str


def split_line(line: str) -> KeyLine:
    """Return the parts of a line. Quoted values of options can hold blanks, and words like those of a key.

    >>> split_line('command="ssh-add -l",restrict ssh-ed25519 AAAA alice, at home')
    KeyLine(options='command="ssh-add -l",restrict', kind='ssh-ed25519', blob='AAAA', comment='alice, at home')
    """
    text, options = line.strip(), ""
    if not is_type(text.split(maxsplit=1)[0] if text else ""):
        end = _end_of_options(text)
        options, text = text[:end], text[end:]
    words = [*text.split(maxsplit=2), "", "", ""]
    return KeyLine(options, words[0], words[1], words[2].strip())


def is_type(word: str) -> bool:
    """Return whether a word has the form of a key's type, known or not."""
    return re.fullmatch(r"(ssh|ecdsa|sk-ssh|sk-ecdsa|webauthn-sk-ecdsa|rsa|x509v3)-[A-Za-z0-9@.-]+", word) is not None


def _end_of_options(text: str) -> int:
    """Return the length of the first word, in which a blank inside of double quotes is no end."""
    quoted, index = False, 0
    while index < len(text) and (quoted or not text[index].isspace()):
        if text[index] == "\\" and text[index + 1 : index + 2] == '"':
            index += 1
        elif text[index] == '"':
            quoted = not quoted
        index += 1
    return index


def is_secret(text: str) -> bool:
    """Return whether a text holds a private key, or the beginning of one."""
    return _SECRET.search(text) is not None


def fault_of(key: str) -> str | None:
    """Return what is wrong with a line of authorized_keys, as the end of a sentence, or None."""
    text = key.strip()
    if is_secret(text):
        return "is a private key: keep it secret, and replace it if this file was shared"
    if form := _fault_of_form(text):
        return form
    line = split_line(text)
    return _fault_of_options(line.options) or _fault_of_type(line.kind) or _fault_of_blob(line.kind, line.blob)


def _fault_of_form(text: str) -> str | None:
    """Return what a text is instead of one line of type and base64."""
    if text.startswith(_RFC4716):
        return "is a public key in the format of RFC 4716: convert it with `ssh-keygen -i -f FILE`"
    for mark, name in _PEM.items():
        if text.startswith(mark):
            return f"is a public key in PEM format: convert it with `ssh-keygen -i -m {name} -f FILE`"
    if text.startswith("-----BEGIN CERTIFICATE"):
        return "is an X.509 certificate, which OpenSSH does not accept"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return f"has {len(lines)} lines, but each key is an item of the list"
    if text.startswith("#"):
        return "is a comment, and no public key"
    if _PRINT.fullmatch(text.split(" ")[0] if text else ""):
        return "is the fingerprint of a key, and not the key"
    return None if len(text.split()) > 1 else "is not a public key"


def fingerprint(key: str) -> str | None:
    """Return the SHA-256 fingerprint of a public key as `ssh-keygen -l` prints it, without padding; None if the data is not base64."""
    try:
        blob = base64.b64decode(split_line(key).blob, validate=True)
    except ValueError:
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=") if blob else None


def _fault_of_options(text: str) -> str | None:
    """Return the first option that sshd does not know, or whose value is missing or superfluous."""
    place = 0
    while place < len(text):
        found = _OPTION.match(text, place)
        if found is None:
            return f"has options that cannot be read, at `{text[place : place + 40]}`"
        name = found["name"].lower()
        if name not in _OPTIONS | _VALUED:
            what = "is neither an option of authorized_keys nor a key type that sshd accepts"
            return f"`{found['name'][:40]}` {what}"
        if (found["value"] is not None) is not (name in _VALUED):
            needs = "needs a value in double quotes" if name in _VALUED else "takes no value"
            return f"option `{name}` {needs}"
        place = found.end()
    return None


def _fault_of_type(kind: str) -> str | None:
    if "-cert-v0" in kind:
        return "is a certificate: enter the key that it certifies (the file without -cert in its name)"
    if kind == "ssh-dss":
        return "is a DSA key, which OpenSSH has refused since release 7.0: create an Ed25519 key"
    if not kind:
        return "is not a public key: the type and the key after the options are missing"
    return None if kind in KEY_TYPES else f"`{kind[:40]}` is not a key type that sshd accepts"


def _fault_of_blob(kind: str, text: str) -> str | None:
    """Decode the base64 part of a key (RFC 4253, 6.6) and compare its type with the one in front of it."""
    try:
        blob = base64.b64decode(text, validate=True)
        (length,) = struct.unpack(">I", blob[:4])
    except (ValueError, struct.error):
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
