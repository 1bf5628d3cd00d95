"""Verified host keys: a file of fingerprints, or of keys in the format of known_hosts and ssh-keyscan."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import defaultdict
from typing import Final

from rackwright.model.finding import Finding, Severity

_PRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def read(text: str, file: str) -> tuple[dict[str, frozenset[str]], list[Finding]]:
    """Return the fingerprints by name or address, and findings about invalid lines, whose paths start with `file`."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        shown = _fingerprint(words[1:])
        if shown is None:
            hint = "write a name or an address, then SHA256:…, or type and key as in known_hosts"
            findings.append(Finding(Severity.ERROR, "fingerprint", f"{file}:{number}", "expected a name and a fingerprint", hint))
            continue
        for name in words[0].split(","):
            known[re.sub(r"\[(.+)\](:[0-9]+)?", r"\1", name)].add(shown)
    return {name: frozenset(shown) for name, shown in known.items()}, findings


def _fingerprint(words: list[str]) -> str | None:
    """Return the fingerprint in the rest of a line, or that of the key in it, or None."""
    printed = next((word.rstrip("=") for word in words if _PRINT.fullmatch(word.rstrip("="))), None)
    if printed is not None or len(words) < 2:
        return printed
    try:
        blob = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
