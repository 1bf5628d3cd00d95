"""`drift.ignore`: each entry has a reason and a last day."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import ValidationError

from rackwright.model.drift import DriftPolicy, IgnoreRule

ENTRY = {"subject": "gpu.count_matches_plan", "reason": "board 5 is at the maker", "until": "2027-01-31"}


@pytest.mark.parametrize("day", ["2027-01-31", "2027-01-31T00:00:00Z", "2027-01-31 00:00:00 +0000 UTC", date(2027, 1, 31)])
def test_a_day_is_one_in_whatever_way_the_engine_has_rewritten_it(day: object) -> None:
    assert IgnoreRule.model_validate({**ENTRY, "until": day}).until == date(2027, 1, 31)


@pytest.mark.parametrize("missing", ["subject", "reason", "until"])
def test_an_entry_without_what_or_why_or_until_when_is_refused(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        IgnoreRule.model_validate({name: value for name, value in ENTRY.items() if name != missing})


def test_an_entry_is_about_every_node_unless_it_names_some() -> None:
    assert IgnoreRule.model_validate(ENTRY).node == "*" and DriftPolicy().ignore == ()
