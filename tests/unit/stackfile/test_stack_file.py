"""Stack files by name and path: found, read, and refused with the line of each finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputError
from rackwright.stackfile.load import find_stack_file, load_stack


def test_a_stack_is_found_by_name_and_by_path(stacks: Path) -> None:
    """`lab`, or any file."""
    file = stacks / "Pulumi.lab.yaml"
    assert find_stack_file("lab", stacks) == file
    assert find_stack_file(str(file), Path("/nowhere")) == file


@pytest.mark.parametrize(
    ("asked", "hint"), [("lap", "did you mean `lab`?"), ("./lab.yaml", "path of a stack file"), ("lab.yml", "path of a stack file")]
)
def test_a_stack_that_is_not_there(stacks: Path, asked: str, hint: str) -> None:
    """With the nearest name."""
    with pytest.raises(InputError) as missing:
        find_stack_file(asked, stacks)
    assert hint in missing.value.hint


@pytest.mark.parametrize(
    ("text", "rule", "path"),
    [
        ("", "yaml-empty", "Pulumi.lab.yaml"),
        ("a: [", "yaml-syntax", "Pulumi.lab.yaml:2:1"),
        ("- a\n", "missing-key", "Pulumi.lab.yaml"),
        ("target: {kind: lab}\n", "missing-key", "Pulumi.lab.yaml"),
        ("config:\n  rackwright:clutser: {}\n", "missing-key", "Pulumi.lab.yaml: config"),
        ("config: {}\nconfig: {}\n", "yaml-repeated-key", "Pulumi.lab.yaml:2:1"),
    ],
)
def test_a_file_without_a_description(stacks: Path, text: str, rule: str, path: str) -> None:
    """Each with the place that is wrong."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(text)
    loaded = load_stack(file)
    assert loaded.cluster is None
    assert (loaded.findings[0].rule, loaded.findings[0].path) == (rule, path)


@pytest.mark.parametrize(
    ("line", "cause", "hint"),
    [
        ("scheduler: {kind: kubernetes, version: 1.30}", "found `1.30`, which is read as 1.3", 'quotes: "1.30"'),
        (
            "storage: {fs: {kind: nfs, mount: /x, size: 1GiB, mode: 0755}}",
            "0755 is not a file mode, which is read as 493",
            "quotes",
        ),
        ("rolling: {max_unavailable: 1e-3}", "1e-3", ""),
    ],
    ids=["version", "octal-mode", "exponent"],
)
def test_number_is_quoted_as_written(stacks: Path, line: str, cause: str, hint: str) -> None:
    """A message that shows 493 for `0755` sends the reader to a text that the file does not contain."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(f"{file.read_text()}    {line}\n")
    findings = [finding for finding in load_stack(file).findings if finding.is_error]
    assert [cause in finding.cause and hint in finding.hint for finding in findings] == [True], findings


def test_findings_name_line_of_file(stacks: Path) -> None:
    """Of the value, or of the mapping in which it is missing."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(file.read_text().replace("{count: 2, gpus", "{cuont: 2, gpus") + "    users:\n      alice:\n        shell: bash\n")
    loaded = load_stack(file)
    lines = {finding.path: loaded.at_line(finding).line for finding in loaded.findings}
    assert lines == {"groups.worker.count": 7, "groups.worker.cuont": 7, "users.alice.uid": 9, "users.alice.shell": 10}
    assert str(loaded.at_line(loaded.findings[-1])).startswith("users.alice.shell (line 10): ")


_PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXktdjEAAAAA"


@pytest.mark.parametrize(
    "line",
    [
        f'users: {{alice: {{uid: 2001, ssh_keys: "{_PRIVATE}"}}}}',
        f'users: {{alice: {{uid: 2001, shell: "{_PRIVATE}"}}}}',
        f'users: {{"{_PRIVATE}": {{uid: 2001}}}}',
        f'time_zone: "{_PRIVATE}"',
        'time_zone: "PuTTY-User-Key-File-3: ssh-ed25519\\nEncryption: none\\nb3BlAAAA"',
    ],
    ids=["keys", "shell", "name", "other-field", "putty"],
)
def test_private_key_is_never_shown(stacks: Path, line: str) -> None:
    """Findings are printed, and recorded by those who run the command."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(f"{file.read_text()}    {line}\n")
    found = load_stack(file).findings
    assert found
    assert not any("b3Bl" in text for finding in found for text in (finding.path, finding.cause, finding.hint))


def test_a_repeated_key_refuses_an_otherwise_good_file(stacks: Path) -> None:
    """Which of the two applies is undefined; the fields are judged all the same."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(file.read_text() + "      worker: {count: 3, cuont: 3}\n")
    loaded = load_stack(file)
    assert loaded.cluster is None
    assert [finding.rule for finding in loaded.findings] == ["yaml-repeated-key", "unknown-key"]
