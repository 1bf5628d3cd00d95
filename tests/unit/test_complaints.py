"""docs/complaints.md claims nothing that does not exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from support.rows import each_row

from rackwright.catalog import checks
from rackwright.inventory import paths
from rackwright.rules import RULES

_ROOT = paths.project_root()
_TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"\b(rule|check|test) `([^`]+)`")
_REPORTED = re.compile(r"[A-Za-z0-9_-]+#[0-9]+")
LINES = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in (_ROOT / "docs" / "complaints.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| the complaint |")
]


def functions_of_tests() -> frozenset[str]:
    """Names of all test functions."""
    texts = (file.read_text(encoding="utf-8") for file in _TESTS.rglob("test_*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


@cache
def known() -> dict[str, frozenset[str]]:
    """Names by their kind; read by the test, for each worker collects."""
    return {"rule": frozenset(RULES), "check": frozenset(checks.checks()), "test": functions_of_tests()}


@each_row("line", LINES, ids=[line[0][:60] for line in LINES])
def test_a_complaint_is_answered_by_something_that_exists(line: tuple[str, ...]) -> None:
    """A rule, a check or a test by its name; or the words that there is none, and why."""
    _, reported, here = line
    named = _NAMED.findall(here)
    assert _REPORTED.search(reported) or "README" in reported
    assert named or "Not here" in here
    assert [f"{kind} {name}" for kind, name in named if name not in known()[kind]] == []


def test_every_name_says_what_it_is() -> None:
    """A name without its kind would not be verified."""
    loose = [word for line in LINES for word in re.findall(r"`[^`]+`", _NAMED.sub("", line[2]))]
    assert set(loose) <= {"`up`"}


def test_the_page_has_every_subject_users_complain_about() -> None:
    """Eleven of them were found in more than one system."""
    assert len(LINES) >= 45
    assert len({issue for line in LINES for issue in _REPORTED.findall(line[1])}) >= 60
