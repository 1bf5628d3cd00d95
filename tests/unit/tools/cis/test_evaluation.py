"""An item holds, fails or is unknown; a deviation that no longer exists is a difference."""

from __future__ import annotations

import pytest
from cis.evaluation import NodeFacts, Verdict, evaluate
from cis.items import ALL_NODES, FileRule, Item, ValueRule
from support.rows import each_row

KUBEADM = "authentication: {anonymous: {enabled: true}}\nreadOnlyPort: 0\n"
DROP_IN = "authentication: {anonymous: {enabled: false}}\npodPidsLimit: 4096\n"
FACTS = NodeFacts(
    arguments={"api": ["--mode=Node,RBAC", "--days", "30", "--flag", "--again=1", "--again=2", "--empty="], "kubelet": [], "absent": None},
    files={
        "/etc/good": [("/etc/good", "root", "root", "600")],
        "/etc/keys/*": [("/etc/keys/a", "root", "root", "400"), ("/etc/keys/b", "erin", "root", "640")],
        "/etc/none": [],
    },
    texts={"/var/config.yaml": KUBEADM, "/etc/drop-in.conf": DROP_IN},
)


def verdict(rule: FileRule | ValueRule, facts: NodeFacts = FACTS) -> Verdict:
    return evaluate(Item("1.1", ALL_NODES, rule), "n1", facts).verdict


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (FileRule("/etc/good", 0o600), Verdict.HOLDS),
        (FileRule("/etc/good", 0o644, "root:root"), Verdict.HOLDS),
        (FileRule("/etc/good", 0o400), Verdict.FAILS),
        (FileRule("/etc/good", owner="etcd:etcd"), Verdict.FAILS),
        (FileRule("/etc/keys/*", 0o600), Verdict.FAILS),
        (FileRule("/etc/keys/*", owner="root:root"), Verdict.FAILS),
        (FileRule("/etc/none", 0o600), Verdict.UNKNOWN),
        (FileRule("/etc/none", 0o600, may_be_absent=True), Verdict.HOLDS),
        (FileRule("/etc/never-read", 0o600, may_be_absent=True), Verdict.UNKNOWN),
    ],
)
def test_mode_and_owner_of_each_file(rule: FileRule, expected: Verdict) -> None:
    assert verdict(rule) is expected


@each_row(
    ("name", "condition", "operand", "absent", "expected"),
    [
        ("mode", "has", "RBAC", False, Verdict.HOLDS),
        ("mode", "has", "RBA", False, Verdict.FAILS),
        ("mode", "lacks", "AlwaysAllow", False, Verdict.HOLDS),
        ("mode", "lacks", "Node", False, Verdict.FAILS),
        ("days", "at_least", "30", False, Verdict.HOLDS),
        ("days", "at_least", "31", False, Verdict.FAILS),
        ("mode", "at_least", "0", False, Verdict.FAILS),
        ("flag", "is", "true", False, Verdict.HOLDS),
        ("again", "is", "2", False, Verdict.HOLDS),
        ("mode", "is_set", "", False, Verdict.HOLDS),
        ("empty", "is_set", "", False, Verdict.FAILS),
        ("mode", "is_unset", "", True, Verdict.FAILS),
        ("flag", "is_unset", "", True, Verdict.FAILS),
        ("other", "is_unset", "", True, Verdict.HOLDS),
        ("other", "is", "x", False, Verdict.FAILS),
        ("other", "lacks", "x", True, Verdict.HOLDS),
    ],
)
def test_argument_of_a_daemon(name: str, condition: str, operand: str, absent: bool, expected: Verdict) -> None:
    assert verdict(ValueRule("api", [name], condition, operand, absent)) is expected


def test_every_argument_of_a_rule_counts() -> None:
    assert verdict(ValueRule("api", ["mode", "days"], "is_set")) is Verdict.HOLDS
    assert verdict(ValueRule("api", ["mode", "other"], "is_set")) is Verdict.FAILS


@pytest.mark.parametrize("name", ["absent", "never-asked"])
def test_daemon_that_does_not_run_is_unknown(name: str) -> None:
    """Also where a value may be absent: nothing was read."""
    assert verdict(ValueRule(name, ["x"], "lacks", "y", absent=True)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("name", "condition", "operand", "expected"),
    [
        ("authentication.anonymous.enabled", "is", "false", Verdict.HOLDS),
        ("readOnlyPort", "is", "0", Verdict.HOLDS),
        ("podPidsLimit", "at_least", "1", Verdict.HOLDS),
        ("authentication.webhook.enabled", "is", "true", Verdict.FAILS),
        ("readOnlyPort.nested", "is_set", "", Verdict.FAILS),
    ],
)
def test_setting_of_the_kubelet(name: str, condition: str, operand: str, expected: Verdict) -> None:
    """A drop-in precedes kubeadm's file."""
    assert verdict(ValueRule("kubelet", [name], condition, operand, setting=True)) is expected


@pytest.mark.parametrize("texts", [{}, {"/var/config.yaml": "a: [b"}, {"/etc/drop-in.conf": DROP_IN}])
def test_unreadable_settings_are_unknown(texts: dict[str, str]) -> None:
    rule = ValueRule("kubelet", ["readOnlyPort"], "is", "0", absent=True, setting=True)
    assert verdict(rule, NodeFacts({"kubelet": ["--config=/var/config.yaml"]}, {}, texts)) is Verdict.UNKNOWN


def test_deviation_that_no_longer_exists_is_a_difference() -> None:
    good, bad = FileRule("/etc/good", 0o600), FileRule("/etc/good", 0o400)
    differs = [
        evaluate(Item("1.1", ALL_NODES, rule, deviates), "n1", FACTS).is_difference
        for rule in (good, bad, FileRule("/etc/none", 0o600))
        for deviates in ("", "Because.")
    ]
    assert differs == [False, True, True, False, True, True]


@pytest.mark.parametrize("value", ["false", "False", "0", "f", "true", "no"])
def test_truth_values_of_go_are_equal(value: str) -> None:
    facts = NodeFacts(arguments={"api": [f"--profiling={value}"]}, files={}, texts={})
    holds = value not in ("true", "no")
    assert verdict(ValueRule("api", ["profiling"], "is", "false"), facts) is (Verdict.HOLDS if holds else Verdict.FAILS)
