"""Verified host keys: a file of fingerprints, or of keys in the format of known_hosts, ssh-keyscan (also -H and -D) or ssh-keygen -l."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from rackwright.model.finding import Finding, Severity

_PRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def read(text: str, file: str) -> tuple[dict[str, frozenset[str]], list[Finding]]:
    """Return the fingerprints by name or address, and findings about invalid lines, whose paths start with `file`."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        # A certificate authority signs keys and is none; a revoked key confirms nothing: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
        if not words or words[0].startswith(("#", "@")):
            continue
        if words[1:3] == ["IN", "SSHFP"] and words[4:5] == ["1"]:  # SHA-1, which ssh-keyscan -D prints beside SHA-256
            continue
        names, shown = _listed(words) if words[0].isdigit() else (words[0], _fingerprint(words[1:]))
        if shown is None:
            hint = "write a name or an address, then SHA256:…, or type and key as in known_hosts"
            findings.append(Finding(Severity.ERROR, "fingerprint", f"{file}:{number}", "expected a name and a fingerprint", hint))
            continue
        for name in names.split(","):
            known[re.sub(r"\[(.+)\](:[0-9]+)?", r"\1", name)].add(shown)
    return {name: frozenset(shown) for name, shown in known.items()}, findings


def find(known: Mapping[str, frozenset[str]], names: Iterable[str]) -> frozenset[str] | None:
    """Return the fingerprints of the first name that the file has, also in hashed form; None if it has none of them."""
    for name in names:
        if name in known:
            return known[name]
        found = [shown for hashed, shown in known.items() if is_hash_of(hashed, name)]
        if found:
            return frozenset().union(*found)
    return None


def is_hash_of(hashed: str, name: str) -> bool:
    """Return whether `|1|salt|digest` is the HMAC-SHA1 of a name, both in base64: ssh-keygen(1), -H."""
    if not hashed.startswith("|1|"):
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hashed.split("|")[2:])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def _listed(words: list[str]) -> tuple[str, str | None]:
    """Return name and fingerprint of a line of `ssh-keygen -l`: bits, fingerprint, name or comment, type in parentheses."""
    name = words[2].rpartition("@")[2] if len(words) > 2 and not words[2].startswith("(") else ""
    return name, _fingerprint(words[1:2]) if name and name != "no" else None  # `no comment`


def _fingerprint(words: list[str]) -> str | None:
    """Return the fingerprint in the rest of a line, or that of the key in it, or None."""
    printed = next((word.rstrip("=") for word in words if _PRINT.fullmatch(word.rstrip("="))), None)
    if printed is not None or len(words) < 2:
        return printed
    if words[0:2] == ["IN", "SSHFP"]:  # algorithm, type 2 for SHA-256, hexadecimal digits: RFC 6594
        hexadecimal = words[4] if len(words) > 4 and words[3] == "2" else ""
        return _text(bytes.fromhex(hexadecimal)) if re.fullmatch(r"[0-9A-Fa-f]{64}", hexadecimal) else None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except ValueError:
        return None
    return _text(hashlib.sha256(blob).digest())


def _text(digest: bytes) -> str:
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
