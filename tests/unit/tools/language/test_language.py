"""Listed words are found in text that users read, and nowhere else."""

from __future__ import annotations

import pytest
from language import Use, is_exempt, uses
from support.rows import each_row


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("a.py", 'told = 1\nprint("a node is told")\n', [2]),
        ("a.py", '"""First.\n\nNobody reads it.\n"""\n', [3]),
        ("a.py", "# nobody reads comments here\nnobody = told()\n", []),
        ("a.py", "x = f'{told} whoever {anew}'\n", [1]),
        ("a.md", "Whoever reads\n```\nnobody\n```\n`told` and [text](nobody.md)\nanew\n", [1, 6]),
        ("a.yml", "- name: Look anew\n  told: 1\n", [1, 2]),
        ("a.py", "x = 'retold, Nobodyness'\n", []),
        ("a.yml", "description: runs as C(nobody) or `nobody`\n", []),
        ("a.conf", "script_user nobody\nnobody:x:65534\nnobody, however, reads it\n", [3]),
        ("a.py", "x = 'the tool said nothing'\ny = 'nothing was said'\n", [1]),
        ("a.md", "HPL came to its end\nStrangers connect\nthe unmanaged node\nthe node is given\nback, or given back\n", [1, 2, 5]),
    ],
    ids=[
        "string",
        "docstring",
        "identifier and comment",
        "f-string",
        "Markdown",
        "YAML",
        "part of a word",
        "code",
        "account",
        "phrase",
        "phrases of Markdown",
    ],
)
def test_words_are_found_in_text_for_users(file: str, text: str, found: list[int]) -> None:
    assert [use.line for use in uses(file, text)] == found


def test_use_names_place_and_replacement() -> None:
    assert str(Use("a.py", 3, "Anew")) == 'a.py:3: write something else than "Anew": again'


@each_row(
    ("file", "exempt"),
    [
        ("docs/a.md", False),
        ("tests/unit/test_a.py", True),
        ("tests/README.md", False),
        ("tests/roles/README.md", True),
    ],
)
def test_last_matching_pattern_decides(file: str, exempt: bool) -> None:
    assert is_exempt(file, ["tests/*", "!tests/*.md", "tests/roles/*"]) is exempt
