"""Texts of users in a form that a terminal shows."""

from __future__ import annotations

import doctest

import pytest
from support.rows import each_row

from rackwright import printable


def test_examples_in_docstrings_hold():
    assert doctest.testmod(printable).failed == 0


@pytest.mark.parametrize("text", ["", "worker0: 8 GPUs", "Büro, Привет, 東京", "a\tb\nc", "✓ ≤ 5 µs"])
def test_ordinary_text_stays(text):
    assert printable.printable(text) == text


@each_row(
    "character", [chr(code) for code in (*range(32), *range(127, 160), 0x202E, 0x2066, 0xFEFF, 0xD800, 0xDFFF) if chr(code) not in "\n\t"]
)
def test_characters_that_a_terminal_obeys_are_shown(character):
    shown = printable.printable(f"a{character}b")
    assert shown.isprintable() and shown.isascii() and len(shown) > 3
