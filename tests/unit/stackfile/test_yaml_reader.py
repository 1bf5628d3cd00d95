"""Stack files as text: what is read, and what is said about what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputError
from rackwright.stackfile import yaml_reader


def said(text: str) -> list[tuple[str, str]]:
    """Rule and path of each finding."""
    return [(finding.rule, finding.path) for finding in yaml_reader.parse(text, "Pulumi.lab.yaml")[1]]


@pytest.mark.parametrize(
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
        ("08", "08"),
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
    assert findings == []
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


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: [1, 2\nb: 3\n", "Pulumi.lab.yaml:2:2"),
        ("a:\n\tb: 1\n", "Pulumi.lab.yaml:2:1"),
        ("a: 'x\n", "Pulumi.lab.yaml:2:1"),
        ("a: *nobody\n", "Pulumi.lab.yaml:1:4"),
        ("a: !!python/object:os.system 1\n", "Pulumi.lab.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "Pulumi.lab.yaml:2:1"),
    ],
)
def test_broken_yaml_is_one_finding_with_its_place(text: str, path: str) -> None:
    """Line and column, as editors count them."""
    assert said(text) == [("yaml-syntax", path)]


def test_a_tab_gets_its_own_hint() -> None:
    """The most common mistake of all, and invisible."""
    (finding,) = yaml_reader.parse("a:\n\tb: 1\n", "x")[1]
    assert "spaces" in finding.hint


def test_aliases_cannot_fill_the_memory() -> None:
    """Nine lines that stand for a billion values are refused at once."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))]
    assert said("\n".join(lines)) == [("yaml-size", "Pulumi.lab.yaml")]


def test_a_mapping_that_contains_itself_is_refused() -> None:
    """It has no end."""
    assert said("a: &a {b: *a}\n") == [("yaml-size", "Pulumi.lab.yaml")]


def test_an_empty_text_has_no_data_and_nothing_wrong() -> None:
    """That the description is missing is said by whoever needs it."""
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
