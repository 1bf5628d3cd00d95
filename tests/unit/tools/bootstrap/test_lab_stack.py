"""What the checks read of a stack file without a YAML package."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.machine_checks.lab_stack import ASSUMED_NODES, entries, parse_stack, read_stack
from rackwright.yaml_loader import load_yaml

CHECKOUT = Path(__file__).resolve().parents[4]
COMMITTED = sorted(path.name.split(".")[1] for path in (CHECKOUT / "stacks").glob("Pulumi.lab*.yaml"))


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_stack_reads_like_yaml(name: str) -> None:
    text = (CHECKOUT / "stacks" / f"Pulumi.{name}.yaml").read_text()
    cluster = load_yaml(text)["config"]["rackwright:cluster"]
    stack = read_stack(CHECKOUT, name)
    assert stack.counted_nodes == sum(group["count"] for group in cluster["groups"].values())
    assert stack.ports == (cluster["access"]["port"],)
    assert stack.listen == cluster["access"]["bind_address"]
    assert stack.is_kubernetes is (cluster["scheduler"]["kind"] == "kubernetes")


BLOCK = """
config:
  rackwright:cluster:
    target:
      kind: lab
    access:
      bind_address: "0.0.0.0"   # on every address
      port: 2300
    groups:
      login:
        count: 2
        roles: [login, controller]
      worker:
        gpus: {model: h100, count: 8}
        count: 3
    users:
      alice:
        groups: [research]
    scheduler:
      drain_timeout: 2m
      kind: kubernetes
"""
FLOW = """
config:
  rackwright:cluster:
    groups: {login: {count: 1}, worker: {gpus: {count: 8}, count: 5}}
    scheduler: {drain_timeout: 5m, kind: slurm}
"""


def test_block_mapping_is_counted() -> None:
    stack = parse_stack("x", BLOCK)
    assert (stack.counted_nodes, stack.is_kubernetes, stack.ports, stack.listen) == (5, True, (2300, 2301), "0.0.0.0")
    assert stack.nodes_text == "5 nodes"


def test_flow_mapping_is_counted() -> None:
    stack = parse_stack("x", FLOW)
    assert (stack.counted_nodes, stack.is_kubernetes, stack.ports) == (6, False, (2222,))


def test_flow_mapping_over_lines_is_counted() -> None:
    assert parse_stack("x", FLOW.replace("{login: {count: 1}, ", "{login: {count: 1},\n      ")).counted_nodes == 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "config:\n  rackwright:cluster:\n    groups: *shared\n",
        "config:\n  rackwright:cluster:\n    groups:\n      login: {roles: [login]}\n",
        FLOW.replace("count: 5", "count: five"),
        "- not\n- a mapping\n",
    ],
)
def test_nodes_are_assumed_when_not_countable(text: str) -> None:
    stack = parse_stack("x", text)
    assert stack.counted_nodes is None
    assert stack.nodes == ASSUMED_NODES
    assert "assumed" in stack.nodes_text


def test_entries_are_empty_when_indentation_is_broken() -> None:
    assert entries("  a: 1\n b: 2\n") == {}
