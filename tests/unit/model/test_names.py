"""Formats of names in stack files."""

from __future__ import annotations

import pytest

from rackwright.model.names import is_label


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("a", True),
        ("lab-2", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("Lab", False),
        ("2lab", False),
        ("lab-", False),
        ("", False),
        ("a_b", False),
    ],
)
def test_labels(text: str, good: bool) -> None:
    """RFC 1123 allows a digit first; then `node 10` and `node1 0` could not be distinguished."""
    assert is_label(text) is good
