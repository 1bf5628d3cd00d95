"""Shared and system directories compared with the defaults of distributions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.directories import OWNERSHIP
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured" / "directories"
GOOD = (FOLDER / "good.txt").read_text(encoding="utf-8")
NODE = SimpleNamespace(name="worker0")


def judged(text, groups=("nodes", "slurm")):
    """Run the check on an answer of a node of these groups."""
    members = dict.fromkeys(groups, ("worker0",))
    place = SimpleNamespace(node={"name": "worker0"}, declared=SimpleNamespace(members=lambda group: members.get(group, ())))
    run = SimpleNamespace(context=lambda _: place)
    test_node.test_directories_match_defaults(run, NODE, lambda probe: probe.read(CommandOutput(out=text)), expect := Expect())
    return expect


@pytest.mark.parametrize("case", ["good", "good-rocky"])
def test_distribution_defaults_pass(case):
    assert judged((FOLDER / f"{case}.txt").read_text(encoding="utf-8")).compared == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("1777 root /tmp", "777 root /tmp", "expected /tmp: root 1777, found /tmp: root 0777"),
        ("1777 root /dev/shm", "1777 daemon /dev/shm", "found /dev/shm: daemon 1777"),
        ("1777 root /var/tmp", "755 root /var/tmp", "found /var/tmp: root 0755"),
        ("1777 root /tmp", "3777 root /tmp", "found /tmp: root 3777"),
        ("755 root /etc\n", "775 root /etc\n", "expected /etc: root 0555 to 0755, found /etc: root 0775"),
        ("755 root /etc\n", "750 root /etc\n", "found /etc: root 0750"),
        ("755 root /etc/slurm", "777 root /etc/slurm", "expected /etc/slurm: root or slurm 0555 to 0755"),
        ("700 munge /etc/munge", "755 munge /etc/munge", "expected /etc/munge: munge 0500 to 0700, found /etc/munge: munge 0755"),
        ("700 munge /etc/munge", "700 root /etc/munge", "found /etc/munge: root 0700"),
        ("700 munge /etc/munge\n", "", "found /etc/munge: missing"),
        ("700 munge /etc/munge\n", "700 munge /etc/munge\n700 munge /run/munge\n", "expected /run/munge: munge or root 0711 to 0755"),
        ("700 munge /etc/munge\n", "700 munge /etc/munge\n777 munge /run/munge\n", "found /run/munge: munge 0777"),
        ("700 munge /etc/munge\n", "700 munge /etc/munge\n755 alice /run/munge\n", "found /run/munge: alice 0755"),
        ("1777 root /tmp\n", "", "found /tmp: missing"),
    ],
)
def test_each_deviation_is_named(before, after, words):
    assert before in GOOD
    with pytest.raises(Mismatch, match=words):
        judged(GOOD.replace(before, after))


@pytest.mark.parametrize("line", ["755 root /etc/slurm\n", "1777 root /run/lock\n", "755 root /etc/sudoers.d\n"])
def test_optional_directories_may_be_missing(line):
    assert judged(GOOD.replace(line, "")).compared == 1


def test_directory_owned_by_slurm_passes():
    assert judged(GOOD.replace("755 root /etc/slurm", "755 slurm /etc/slurm")).compared == 1


def test_nodes_without_slurm_check_only_system_directories():
    place = SimpleNamespace(
        node={"name": "worker0"}, declared=SimpleNamespace(members=lambda group: ("worker0",) if group == "nodes" else ())
    )
    assert "munge" not in OWNERSHIP.command_at(place) and " /tmp " in OWNERSHIP.command_at(place)
    assert judged(GOOD.partition("700 munge")[0], groups=("nodes",)).compared == 1


def test_unreadable_line_is_unknown():
    with pytest.raises(UndeterminedError, match=r"a line is .*777 root /tmp"):
        judged(GOOD.replace("1777 root /tmp", "?777 root /tmp"))


def test_deviation_beside_unreadable_line_is_named():
    with pytest.raises(Mismatch, match="/etc: root 0777"):
        judged(GOOD.replace("1777 root /tmp", "?777 root /tmp").replace("755 root /etc\n", "777 root /etc\n"))
