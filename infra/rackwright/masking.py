"""Secrets in text: what of a secret is masked, and with what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MASK: Final = "[secret]"


def secret_parts(secrets: Iterable[str], shortest: int) -> set[str]:
    """Return every secret and each of its lines, because keys are quoted line by line.

    Parts of fewer than `shortest` characters are left out, as they would mask ordinary words, and so are the armour lines of PEM files.
    """
    parts = {part.strip() for secret in secrets for part in (secret, *secret.splitlines())}
    return {part for part in parts if len(part) >= shortest and not part.startswith("-----")}


def mask(text: str, parts: Iterable[str]) -> str:
    """Return the text with MASK in place of every part; the longest go first, so that no part is cut by a shorter one inside of it."""
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, MASK)
    return text
