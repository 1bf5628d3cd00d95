"""docs/troubleshooting.md is what the catalogue of checks makes of it, and no check is without a symptom."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import troubleshooting
from rackwright.catalog.checks import acceptance, checks
from rackwright.catalog.symptoms import symptoms
from rackwright.cli.commands import COMMANDS


def test_the_page_is_made_from_the_catalogue():
    """`make docs` writes it."""
    assert troubleshooting.PAGE.read_text(encoding="utf-8") == troubleshooting.page()


def test_every_subject_stands_under_one_symptom():
    named = Counter(subject for symptom in symptoms() for subject in symptom.checks)
    assert named == Counter({spec.subject for spec in checks().values()})


def test_every_phase_of_the_acceptance_stands_under_one_symptom():
    named = Counter(phase for symptom in symptoms() for phase in symptom.acceptance)
    assert named == Counter({spec.subject for spec in acceptance().values()})


def test_every_check_is_on_the_page_with_what_to_do():
    text = troubleshooting.page()
    assert [key for key in checks() if f"| `{key}`" not in text] == []
    assert [key for key in acceptance() if f"| `{key}` |" not in text] == []


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda symptom: symptom.title)
def test_a_symptom_says_where_to_look(symptom):
    assert symptom.notice
    assert len(symptom.look_first) >= 3


def test_commands_that_the_page_names_exist():
    named = set(re.findall(r"`rackwright (\w+)", troubleshooting.page()))
    assert named <= set(COMMANDS)
