"""The reference pages are what the definitions make of them, and no definition is missing there."""

from __future__ import annotations

from pathlib import Path

import pytest

import reference
from rackwright.catalog.checks import acceptance, checks
from rackwright.cli.commands import COMMANDS
from rackwright.rules import RULES
from rackwright.stackfile.schema import schema
from reference import environment, markdown
from reference.json_types import Types, example

ROOT = Path(__file__).parents[2]
STACK_FILE = "docs/reference/stack-file.md"


@pytest.mark.parametrize("name", reference.PAGES)
def test_committed_page_is_current(name: str) -> None:
    """`make docs` writes it."""
    assert (ROOT / name).read_text(encoding="utf-8") == reference.PAGES[name]()


def test_every_reference_page_is_generated() -> None:
    assert {path.name for path in (ROOT / "docs/reference").iterdir()} == {
        Path(name).name for name in reference.PAGES if "reference" in name
    }


def test_every_command_has_a_section() -> None:
    text = reference.PAGES["docs/reference/cli.md"]()
    assert [name for name in COMMANDS if f"\n## rackwright {name}\n" not in text] == []
    assert "\n### rackwright fabric cables\n" in text


def test_every_check_has_a_row() -> None:
    text = reference.PAGES["docs/reference/checks.md"]()
    assert [key for key in (*checks(), *acceptance()) if f"\n| `{key}` |" not in text] == []


def test_every_rule_has_a_row() -> None:
    text = reference.PAGES["docs/reference/rules.md"]()
    assert [name for name in RULES if f"\n| `{name}` |" not in text] == []


def test_every_key_of_stack_files_has_a_row() -> None:
    """The rows of a section are counted, because keys such as `kind` occur in many."""
    text = reference.PAGES[STACK_FILE]()
    objects = [schema()["properties"]["config"]["properties"]["rackwright:cluster"], *schema()["$defs"].values()]
    keys = [key for one in objects for key in one.get("properties", {})]
    rows = [line for section in text.split("\n## ")[2:] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(keys)


def test_stack_file_page_states_change_policies() -> None:
    lines = reference.PAGES[STACK_FILE]().splitlines()
    (count,) = [line for line in lines if line.startswith("| `count` | integer, 0 to 4096 |")]
    assert "| required | `members` |" in count
    (fabric,) = [line for line in lines if line.startswith("| `fabric` |")]
    assert "`recable`; lab: `restart`" in fabric


def test_every_role_has_a_section() -> None:
    text = reference.PAGES["docs/reference/roles.md"]()
    names = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
    assert [name for name in names if f"\n## {name}\n" not in text] == []


def test_every_schema_has_a_section() -> None:
    text = reference.PAGES["docs/reference/documents.md"]()
    found = [path.name for path in (ROOT / "infra").rglob("*.schema.json") if path.name != "stack.schema.json"]
    assert len(found) >= 6
    assert [name for name in found if f"[{name}](" not in text] == []


def test_environment_variables_are_described() -> None:
    assert environment.used() == set(environment.described())


def test_variables_for_users_have_a_default() -> None:
    rows = environment.described()
    assert [name for name, row in rows.items() if (row["for"] in ("user", "test")) != ("default" in row)] == []


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"type": "string"}, "string"),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "integer, at least 1"),
        ({"type": "integer", "minimum": 0, "maximum": 9}, "integer, 0 to 9"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, above 0"),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, "list of `red`, `blue`"),
        ({"patternProperties": {"^a$": {"$ref": "#/$defs/Part"}}, "type": "object"}, "mapping of name to [Part](#part)"),
        ({"const": None}, "`null`"),
        ({"type": ["string", "null"], "format": "date"}, "string, date or null"),
    ],
)
def test_type_of_a_schema(node: dict[str, object], text: str) -> None:
    definitions = {"Colour": {"enum": ["red", "blue"]}, "Part": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    assert Types(definitions, lambda name, _: f"[{name}](#{name.lower()})").text(node) == text


def test_example_of_an_alternative() -> None:
    assert example({"anyOf": [{"type": "string", "examples": ["2GiB"]}, {"type": "null"}]}) == "for example `2GiB`"


def test_table_refuses_a_row_of_another_width() -> None:
    with pytest.raises(ValueError, match="expected 2"):
        list(markdown.table(("a", "b"), [("1",)]))


def test_cell_shows_what_markdown_would_hide() -> None:
    assert markdown.cell("<unit>|* of\n{node}: `systemctl status <unit>`") == r"&lt;unit>\|\* of the node: `systemctl status <unit>`"
