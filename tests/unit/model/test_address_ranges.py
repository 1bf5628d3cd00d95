"""Ranges of addresses in a stack file."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from rackwright.model.address_range import parse_range


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.77.0.8-10.77.0.15", "10.77.0.8-10.77.0.15"),
        ("10.77.0.8 - 10.77.0.15", "10.77.0.8-10.77.0.15"),
        ("10.77.0.8/29", "10.77.0.8-10.77.0.15"),
        ("10.77.0.8", "10.77.0.8-10.77.0.8"),
    ],
)
def test_range_is_written_in_one_form(text: str, found: str) -> None:
    assert str(parse_range(text)) == found and parse_range(parse_range(text)) == parse_range(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.77.0.15-10.77.0.8", "write 10.77.0.8-10.77.0.15"),
        ("10.77.0.9/29", "write first-last"),
        ("10.77.0.8-15", "write first-last"),
        ("fd00::8-fd00::f", "write first-last"),
        (8, "write first-last"),
    ],
    ids=["reversed", "host-bits", "short", "ipv6", "number"],
)
def test_other_text_is_refused_with_a_hint(text: object, said: str) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        parse_range(text)
    assert said in (refused.value.context or {})["hint"]
