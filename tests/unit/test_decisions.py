"""Every decision record is in the index and has the parts of the template."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from support.rows import each_row

FOLDER = Path(__file__).parents[2] / "docs/adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
REQUIRED = ("Context", "Decision", "Consequences")
UNUSED = {17}
"""Numbers without a record; the index says why."""
STATUS = re.compile(
    r"^\*\*Status:\*\* (?P<status>accepted, (?P<date>\d{4}-\d\d-\d\d)"
    r"(?:; (?:amended in \w+ \d{4} \([^)]+\)|replaced by \[ADR \d+\]\((?P<by>[\w-]+\.md)\)))?)\."
)


def read(record):
    return record.read_text(encoding="utf-8")


def title_of(record):
    return re.match(r"# \d{4}: (.+)\n", read(record))[1]


def status_of(record):
    return STATUS.match(read(record).split("\n", 3)[2])


def index_rows():
    return re.findall(r"^\| \[(\d{4})\]\(([\w-]+\.md)\) \| (.+?) \| (.+?) \|$", read(FOLDER / "README.md"), re.MULTILINE)


def test_the_index_lists_every_record_with_title_and_status():
    assert index_rows() == [(record.name[:4], record.name, title_of(record), status_of(record)["status"]) for record in RECORDS]


def test_numbers_are_used_once_and_without_gaps():
    numbers = [int(record.name[:4]) for record in RECORDS]
    assert len(numbers) == len(set(numbers))
    assert set(range(1, max(numbers) + 1)) - set(numbers) == UNUSED
    assert [int(number) for number in re.findall(r"^\| (\d{4}) \| not used \|", read(FOLDER / "README.md"), re.MULTILINE)] == sorted(UNUSED)


@each_row("record", RECORDS, ids=lambda record: record.name[:4])
class TestRecord:
    def test_title_has_the_number_of_the_file(self, record):
        assert read(record).startswith(f"# {record.name[:4]}: ")

    def test_status_has_a_date_and_its_successor_exists(self, record):
        status = status_of(record)
        assert status, "expected a line like `**Status:** accepted, 2026-11-26.` below the title"
        date.fromisoformat(status["date"])
        assert not status["by"] or f"({record.name})" in read(FOLDER / status["by"]), "the successor does not name this record"

    def test_it_has_the_headings_of_the_template(self, record):
        headings = re.findall(r"^## (.+)$", read(record), re.MULTILINE)
        assert [heading for heading in headings if heading in REQUIRED] == list(REQUIRED)

    def test_no_part_is_empty(self, record):
        parts = re.split(r"^## .+$", read(record), flags=re.MULTILINE)[1:]
        assert all(part.strip() for part in parts)


def test_the_template_has_the_required_headings():
    headings = re.findall(r"^## (.+)$", read(FOLDER / "template.md"), re.MULTILINE)
    assert [heading for heading in headings if heading in REQUIRED] == list(REQUIRED)
