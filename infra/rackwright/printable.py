"""Texts from nodes in a form that a terminal shows and does not act on: names of jobs, comments and reasons are whatever users write."""

from __future__ import annotations

import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t")


def printable(text: str) -> str:
    r"""Return a text with control characters, marks of direction and halves of surrogate pairs in Python's notation.

    Line feeds and tabs stay, and a space of any width becomes a space.

    >>> printable("a\x1b[31mb\u202e\udcff\u00a0c\n")
    'a\\x1b[31mb\\u202e\\udcff c\n'
    """
    return "".join(character if character.isprintable() or character in _KEPT else _shown(character) for character in text)


def _shown(character: str) -> str:
    return " " if unicodedata.category(character) == "Zs" else character.encode("unicode_escape").decode("ascii")
