"""Stack files as text: what is read, and what is said about what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.errors import InputError
from rackwright.model.finding import has_errors
from rackwright.stackfile import yaml_reader


def said(text: str) -> list[tuple[str, str]]:
    """Rule and path of each finding."""
    return [(finding.rule, finding.path) for finding in yaml_reader.parse(text, "Pulumi.lab.yaml")[1]]


@each_row(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("22:30", "22:30"),
        ("2026-12-01", "2026-12-01"),
        ("12", 12),
        ("-3", -3),
        ("0x1f", 31),
        ("0777", 511),
        ("0o17", 15),
        ("08", 8),
        ("1e3", 1000),
        ("1_000", 1000),
        ("0b11", 3),
        ("0X1f", 31),
        ("-0o17", -15),
        ("1.0", 1),
        ("1.30", 1.3),
        (".5", 0.5),
        ("1:30.5", "1:30.5"),
        ("52:54:00:12:34:56", "52:54:00:12:34:56"),
        ("y", "y"),
        ("0", 0),
        ("1.5", 1.5),
        ("~", None),
        ("10.77.0.0/24", "10.77.0.0/24"),
        ("5GiB", "5GiB"),
        ("'12'", "12"),
    ],
)
def test_words_are_read_as_the_engine_reads_them(text: str, value: object) -> None:
    """The program gets its configuration from the engine, `rackwright validate` from the file: both must see the same."""
    data, findings = yaml_reader.parse(f"key: {text}", "x")
    assert not has_errors(findings)
    assert data["key"] == value
    assert type(data["key"]) is type(value)


def test_aliases_and_merged_mappings_work() -> None:
    """People use them to say a thing once."""
    data, findings = yaml_reader.parse("a: &a {cpus: 4, memory: 2GiB}\nb: {<<: *a, cpus: 8}\n", "x")
    assert findings == []
    assert data["b"] == {"cpus": 8, "memory": "2GiB"}


def test_a_key_written_twice_is_a_finding() -> None:
    """YAML readers take the last one and say nothing."""
    assert said("config:\n  a: 1\n  b: {c: 1, c: 2}\n  a: 3\n") == [
        ("yaml-repeated-key", "Pulumi.lab.yaml:4:3"),
        ("yaml-repeated-key", "Pulumi.lab.yaml:3:13"),
    ]


@each_row(
    ("text", "path"),
    [
        ("a: [1, 2\nb: 3\n", "Pulumi.lab.yaml:2:2"),
        ("a:\n\tb: 1\n", "Pulumi.lab.yaml:2:1"),
        ("a: 'x\n", "Pulumi.lab.yaml:2:1"),
        ("a: *nobody\n", "Pulumi.lab.yaml:1:4"),
        ("a: !!python/object:os.system 1\n", "Pulumi.lab.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "Pulumi.lab.yaml:2:1"),
        ("a: !!int ''\n", "Pulumi.lab.yaml:1:4"),
        ("a: !!bool maybe\n", "Pulumi.lab.yaml:1:4"),
        ("a: !!timestamp soon\n", "Pulumi.lab.yaml:1:4"),
        ("a: {!!binary aGk=: 1}\n", "Pulumi.lab.yaml:1:5"),
        ("a: !!set {b, c}\n", "Pulumi.lab.yaml:1:4"),
        ("a: !vault x\n", "Pulumi.lab.yaml:1:4"),
        ("a: {~: 1}\n", "Pulumi.lab.yaml:1:5"),
        ("a: {true: 1}\n", "Pulumi.lab.yaml:1:5"),
        (f"a: {'9' * 5000}\n", "Pulumi.lab.yaml:1:4"),
        ("a: 1\nb: \0\n", "Pulumi.lab.yaml:2:4"),
    ],
)
def test_broken_yaml_is_one_finding_with_its_place(text: str, path: str) -> None:
    """Line and column, as editors count them."""
    assert said(text) == [("yaml-syntax", path)]


@each_row(
    ("text", "hint"),
    [
        ("a:\n\tb: 1\n", "spaces"),
        ("a:\n  b: 1\n\u00a0\u00a0c: 2\n  d: 3\n", "non-breaking blank (U+00A0)"),
        ("a: 1\nb\uff1a 2\nc: 3\n", "full-width colon"),
        ("a: 1\nlevel:smoke\n", "blank after the colon: `level: smoke`"),
        ("a: 1\n<<<<<<< HEAD\nb: 1\n", "conflict that git left"),
        ("a: {{ level }}\n", "stack files are not rendered"),
        ("a: 1\n---\nb: 2\n", "one document"),
        ("a: fan: broken\n", "in quotes if it contains a colon"),
        ("a: {b: fan: broken}\n", "close the bracket"),
        ("a: @b\n", "in quotes"),
        ("a: *\n", "`*` begins an alias"),
        ("a: *b\n", "define the anchor"),
        ('a: "C:\\keys"\n', "single quotes"),
        ("a: 'b\n", "close the quote"),
        ("a: {[b]: c}\n", "text as the key"),
        ("a: !vault x\n", "remove the tag"),
    ],
    ids=[
        "tab",
        "non-breaking-blank",
        "full-width-colon",
        "no-blank-after-colon",
        "git-conflict",
        "template",
        "two-documents",
        "colon-in-value",
        "colon-in-flow",
        "reserved-character",
        "empty-alias",
        "unknown-alias",
        "backslash",
        "open-quote",
        "list-as-key",
        "tag",
    ],
)
def test_syntax_error_has_hint_of_its_kind(text: str, hint: str) -> None:
    """The place alone does not say what to write."""
    (finding,) = yaml_reader.parse(text, "x")[1]
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("text", "rule", "path", "cause"),
    [
        ("a: b\u00a0\n", "yaml-character", "x:1:4", "non-breaking blank (U+00A0)"),
        ("a: b\nc: d\u200b\n", "yaml-character", "x:2:4", "zero-width space (U+200B)"),
        ("a: \u201cb\u201d\n", "yaml-character", "x:1:4", "typographic quotes"),
        ("a: {uid: 02001}\n", "yaml-number", "x:1:10", "`02001` is an octal number: 1025"),
        ("a: 089\n", "yaml-number", "x:1:4", "read as the number 89"),
    ],
)
def test_misleading_text_is_finding(text: str, rule: str, path: str, cause: str) -> None:
    """The value differs from what the file shows."""
    found = {(finding.rule, finding.path): finding.cause for finding in yaml_reader.parse(text, "x")[1]}
    assert cause in found[rule, path]


@pytest.mark.parametrize("text", ['a: "b\u00a0c"\n', "a: b  # \u00a0\n", "a: '0755'\n", "a: 0\n", "a: 00\n", "a: K\u00f6ln\n"])
def test_quoted_text_and_comments_are_not_misleading(text: str) -> None:
    """Quotes mean the characters in them."""
    assert yaml_reader.parse(text, "x")[1] == []


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 200_000,
        "a: " + "[" * 5000 + "]" * 5000,
        "a: " + "{a: " * 300 + "1" + "}" * 300,
        "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300))]),
    ],
    ids=["open", "lists", "mappings", "aliases"],
)
def test_deep_nesting_is_finding(text: str) -> None:
    """PyYAML composes by recursion: without a limit, the process would end."""
    (finding,) = yaml_reader.parse(text, "x")[1]
    assert finding.cause == "the file is nested too deep"


def test_aliases_cannot_fill_the_memory() -> None:
    """Nine lines that stand for a billion values are refused at once."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))]
    assert said("\n".join(lines)) == [("yaml-size", "Pulumi.lab.yaml")]


def test_a_mapping_that_contains_itself_is_refused() -> None:
    """It has no end."""
    assert said("a: &a {b: *a}\n") == [("yaml-size", "Pulumi.lab.yaml")]


def test_an_empty_text_has_no_data_and_nothing_wrong() -> None:
    """The command that needs the description reports that it is missing."""
    assert yaml_reader.parse("# nothing\n", "x") == (None, [])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing and unreadable files are bad input; text in another encoding is a finding."""
    with pytest.raises(InputError, match="file does not exist"):
        yaml_reader.read(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        yaml_reader.read(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("a: ü".encode("latin-1"))
    assert [finding.rule for finding in yaml_reader.read(latin)[1]] == ["yaml-syntax"]
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 1_000_001)
    assert [finding.rule for finding in yaml_reader.read(large)[1]] == ["yaml-size"]


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        ("a: b\n".encode("utf-16"), "file is UTF-16, not UTF-8"),
        ("a: b\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ("a: b\n".encode("utf-32"), "file is UTF-32"),
        (b"a: b\nc: K\xf6ln\n", "in line 2"),
        (b"a: b\r\nc: d\r\n", ""),
        (b"\xef\xbb\xbfa: b\n", ""),
    ],
    ids=["utf-16", "utf-16-without-mark", "utf-32", "latin-1", "crlf", "byte-order-mark"],
)
def test_encodings(tmp_path: Path, raw: bytes, cause: str) -> None:
    """Editors of other systems write them."""
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_bytes(raw)
    data, findings = yaml_reader.read(file)
    assert [finding.rule for finding in findings] == ["yaml-syntax"] * bool(cause)
    assert cause in (findings[0].cause if findings else "")
    assert (data or {}).get("a") == (None if cause else "b")
