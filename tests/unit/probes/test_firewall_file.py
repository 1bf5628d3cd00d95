"""Loaded rules compared with those of the file, printed by nft 1.0.6 and iptables-nft 1.8.9 in network namespaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.checks.cluster import test_firewall
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.firewall_file import COMPARISON, NO_FILE
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured" / "firewall-file"


def captured(case):
    return COMPARISON.read(CommandOutput(out=(FOLDER / f"{case}.txt").read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", ["good-counted", "good-docker", "good-strangers"])
def test_counters_timeouts_and_other_tables_are_ignored(case):
    found = captured(case)
    assert (found.declared, found.differences) == (True, ())


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        (
            "inserted",
            (
                "inet rackwright chain forward: + {hook:forward,policy:accept,prio:0,type:filter}",
                "inet rackwright chain forward: - {hook:forward,policy:drop,prio:0,type:filter}",
                "inet rackwright chain input: + tcp dport 6818 drop",
                "inet rackwright set cluster: + {elem:[10.61.0.16,10.61.0.24,10.61.0.25,203.0.113.4],type:ipv4_addr}",
                "inet rackwright set cluster: - {elem:[10.61.0.16,10.61.0.24,10.61.0.25],type:ipv4_addr}",
            ),
        ),
        ("removed", ("inet rackwright chain ssh: - ip saddr 10.61.0.16 accept", "inet rackwright chain ssh: - drop")),
        ("reordered", ("inet rackwright chain ssh: the same rules in another order",)),
        ("flushed", ("inet rackwright: not loaded",)),
    ],
)
def test_each_missing_rule_is_named(case, lines):
    assert captured(case).differences == lines


@pytest.mark.parametrize("second", [NO_FILE, '{"nftables":[{"metainfo":{}}]}'])
def test_file_without_table_is_reported(second):
    first = (FOLDER / "good-counted.txt").read_text(encoding="utf-8").splitlines()[0]
    found = COMPARISON.read(CommandOutput(out=f"{first}\n\n{second}\n"))
    with pytest.raises(Mismatch, match="no file that defines a table"):
        test_firewall.test_loaded_rules_match_file(lambda _: found, Expect())


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            CommandOutput(rc=1, out='{"nftables":[{"metainfo":{}}]}', err="unshare: unshare failed: Operation not permitted"),
            "Operation not permitted",
        ),
        (CommandOutput(rc=1, err='/etc/nftables.conf:9:1-4: Error: Interface "ib0" does not exist'), "Interface"),
        (CommandOutput(out='{"nftables":[{"metainfo":{}}]}\n'), "expected two rulesets, found 1"),
        (CommandOutput(out='{"nftables":[]}\n{"nftables":[]}\n'), "no ruleset"),
    ],
)
def test_unreadable_ruleset_is_unknown(raw, words):
    with pytest.raises(UndeterminedError, match=words):
        COMPARISON.read(raw)


def test_check_passes_only_without_differences():
    test_firewall.test_loaded_rules_match_file(lambda _: captured("good-docker"), Expect())
    with pytest.raises(Mismatch, match=r"chain input: \+ tcp dport 6818 drop"):
        test_firewall.test_loaded_rules_match_file(lambda _: captured("inserted"), Expect())


def test_texts_and_warnings_of_nft_are_compared():
    rule = {"rule": {"family": "inet", "table": "t", "chain": "c", "expr": ['osf name "Linux"', {"drop": None}]}}
    table = {"table": {"family": "inet", "name": "t", "handle": 3}}
    loaded, file = (json.dumps({"nftables": [{"metainfo": {}}, {}, *rows]}) for rows in ((table, rule), (table,)))
    found = COMPARISON.read(CommandOutput(out=f"# Warning: table ip nat is managed by iptables-nft\n{loaded}\n\nWarning: x\n{file}\n"))
    assert found.differences == ('inet t chain c: + osf name "Linux" drop',)
