"""Port GUIDs from `ibstat` on many nodes, as pdsh and clush print it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.report.fabric.adapter_ports import read_node_ports

TEXT = (Path(__file__).parent / "captured" / "node-ports" / "good.txt").read_text(encoding="utf-8")
GUIDS = {"worker0/mlx5_0": 0x946DAE0300F01234, "worker1/mlx5_0": 0x946DAE0300F05678}


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "\n".join(sorted(TEXT.splitlines(), key=lambda line: line.split(":")[0], reverse=True)),
        "\n".join(line for pair in zip(TEXT.splitlines()[:17], TEXT.splitlines()[17:], strict=True) for line in pair),
        TEXT.replace("worker0:", "worker0.example.org:") + "worker2: bash: line 1: ibstat: command not found\n",
    ],
)
def test_ports_belong_to_the_preceding_node(text):
    """In any order of the nodes, and with interleaved lines of several nodes."""
    assert read_node_ports(text).guids == GUIDS


def test_second_port_and_node_guid_are_ignored():
    second = "worker0: \tPort 2:\nworker0: \t\tPort GUID: 0x946dae0300f01235\n"
    found = read_node_ports(
        TEXT.replace("worker1: CA", f"{second}worker1: CA").replace("worker0: \tNode GUID: 0x946d", "worker0: \tNode GUID: 0x1111")
    )
    assert found.guids == GUIDS


def test_virtual_functions_have_no_port():
    found = read_node_ports(TEXT.replace("worker0: \tCA type: MT4129", "worker0: \tCA type: MT4126"))
    assert (found.guids, found.virtual) == ({"worker1/mlx5_0": GUIDS["worker1/mlx5_0"]}, {"worker0/mlx5_0"})


@pytest.mark.parametrize(
    "text", ["", "worker0: bash: ibstat: command not found\n", "CA 'mlx5_0'\n\tPort 1:\n\t\tPort GUID: 0x946dae0300f01234\n"]
)
def test_text_without_node_or_port_is_refused(text):
    with pytest.raises(ValueError, match="no port GUID of a node"):
        read_node_ports(text)
