"""The text that the demo trains on: sentences of a small grammar, the same for the same seed. Standard library only."""

from __future__ import annotations

import hashlib
import random
from typing import Final

SIZE: Final = 200_000
"""Bytes. The loss of 200 steps of 16 x 128 bytes is still falling, so that a difference between two runs shows."""
_ARTICLES: Final = ("the", "a", "every", "one")
_ADJECTIVES: Final = ("idle", "remote", "busy", "quiet", "spare", "new", "slow", "faulty")
_NOUNS: Final = ("node", "queue", "switch", "cable", "disk", "kernel", "process", "scheduler", "user", "rack")
_VERBS: Final = ("drains", "starts", "reads", "stops", "measures", "replaces", "waits for", "reports")
_PLACES: Final = ("in the rack", "behind the leaf switch", "on the login node", "before the next job", "after a reboot")
_ENDS: Final = (".", ".", ".", "?", "!")


def make_text(seed: int, size: int = SIZE) -> bytes:
    """Return that many bytes of sentences.

    >>> make_text(1, 60) == make_text(1, 600)[:60]
    True
    """
    source = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(_sentence(source))
        length += len(parts[-1])
    return "".join(parts).encode("ascii")[:size]


def respell(text: bytes) -> bytes:
    """Return the same text with another spelling of `the`: what a model of the first text has to learn again. The length stays.

    >>> respell(b"The node waits for the node. ")
    b'Teh node waits for teh node. '
    """
    return text.replace(b"the ", b"teh ").replace(b"The ", b"Teh ")


def text_digest(text: bytes) -> str:
    """Return the SHA-256 of a text, by which two runs know that they had the same."""
    return hashlib.sha256(text).hexdigest()


def _sentence(source: random.Random) -> str:
    words = [*_phrase(source), source.choice(_VERBS), *_phrase(source)]
    if source.random() < 0.4:
        words.append(source.choice(_PLACES))
    return " ".join(words).capitalize() + source.choice(_ENDS) + " "


def _phrase(source: random.Random) -> list[str]:
    middle = [source.choice(_ADJECTIVES)] if source.random() < 0.6 else []
    return [source.choice(_ARTICLES), *middle, source.choice(_NOUNS)]
