"""Host keys that somebody vouches for: a file of fingerprints, or of keys as known_hosts and ssh-keyscan write them."""

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
    """The fingerprints by the name or address they are given for, and lines that are none; `file` starts the paths of findings."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        shown = _fingerprint(words[1:])
        if shown is None:
            hint = "a name or an address, then SHA256:…, or type and key as in known_hosts"
            findings.append(Finding(Severity.ERROR, "fingerprint", f"{file}:{number}", "is no name with a fingerprint", hint))
            continue
        for name in words[0].split(","):
            known[re.sub(r"\[(.+)\](:[0-9]+)?", r"\1", name)].add(shown)
    return {name: frozenset(shown) for name, shown in known.items()}, findings


def _fingerprint(words: list[str]) -> str | None:
    """What the rest of a line gives: a fingerprint among its words, or that of the key it holds."""
    printed = next((word.rstrip("=") for word in words if _PRINT.fullmatch(word.rstrip("="))), None)
    if printed is not None or len(words) < 2:
        return printed
    try:
        blob = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
