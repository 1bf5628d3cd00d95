"""Every example is a valid stack file, and its paragraph says what is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rackwright.operations.stack import load_and_validate
from rackwright.plan import expand
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FOR_THE_USER = {"allow-placeholder", "image-unpinned", "machine-key-placeholder", "reservation-placeholder"}
"""Rules that name what only a user can fill in."""
LINK = re.compile(r"^\[[^]]*Pulumi\.[\w-]+\.yaml\]\(([^)]+)\): (\d+) nodes\.", re.MULTILINE)


def sections():
    """Return title -> text of the page's sections."""
    parts = re.split(r"^## (.+)$", (EXAMPLES / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def stack_of(text):
    """Return the stack file and the number of nodes that a section names."""
    ((file, nodes),) = LINK.findall(text)
    return (EXAMPLES / file).resolve(), int(nodes)


@pytest.mark.parametrize("title", sections())
class TestExample:
    def test_stack_file_has_no_errors_and_only_placeholders_to_replace(self, title):
        file, _ = stack_of(sections()[title])
        judged = load_and_validate(str(file))
        assert judged.ok, judged.findings
        assert {finding.rule for finding in judged.findings} <= FOR_THE_USER

    def test_number_of_nodes_is_that_of_the_plan(self, title):
        file, nodes = stack_of(sections()[title])
        loaded = load_and_validate(str(file)).loaded
        assert len(expand(loaded.cluster, loaded.stack).nodes) == nodes

    def test_commands_are_about_this_stack(self, title):
        text = sections()[title]
        file, _ = stack_of(text)
        stack = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
        lines = re.findall(r"^rackwright .+$", text, re.MULTILINE)
        assert lines[0].startswith("rackwright validate ")
        assert all(re.search(rf"[ /.]{stack}\b", line) for line in lines)


def test_every_stack_file_of_the_folder_has_a_section():
    described = {stack_of(text)[0] for text in sections().values()}
    assert set(EXAMPLES.rglob("*.yaml")) <= described
    assert len(described) == len(sections())


def test_no_example_repeats_a_stack():
    """A stack that exists in stacks/ is linked, not copied."""
    clusters = [load_yaml(file.read_text(encoding="utf-8"))["config"] for file in (ROOT / "stacks").glob("Pulumi.*.yaml")]
    own = list(EXAMPLES.rglob("Pulumi.*.yaml"))
    assert own and clusters
    assert not [file.name for file in own if load_yaml(file.read_text(encoding="utf-8"))["config"] in clusters]
    names = {file.name for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}
    assert not names & {file.name for file in own}


def test_addresses_and_ports_of_examples_are_free():
    """The folder is not a neighbour of stacks/, so that validation does not compare the two."""
    files = [*(ROOT / "stacks").glob("Pulumi.lab*.yaml"), *EXAMPLES.rglob("Pulumi.lab*.yaml")]
    clusters = [load_and_validate(str(file)).loaded.cluster for file in files]
    assert len({cluster.network.cidr for cluster in clusters}) == len(files)
    assert len({cluster.access.port for cluster in clusters}) == len(files)
