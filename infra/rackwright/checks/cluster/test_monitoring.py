"""Prometheus and Alertmanager watch what the plan lists, and refuse clients without a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackwright.catalog.alerts import alerts
from rackwright.checks.cluster.harness.arguments import Ask
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.monitoring import ACCESS, FIRING, KEYS, NOT_LISTENING, RECEIVED, REFUSED, RULES, TARGETS, KeyFile
from rackwright.checks.cluster.probes.units import ALERTMANAGER, NODE_EXPORTER, PROMETHEUS, UNITS

WATCHDOG = "Watchdog"


def test_exporter_runs(ask: Ask, expect: Expect) -> None:
    """Without it the node is invisible to Prometheus, which then reports the target only."""
    unit = ask(UNITS)[NODE_EXPORTER]
    expect(unit.described, "active", holds=unit.state == "active")


def test_daemons_run(ask: Ask, expect: Expect) -> None:
    """A stopped Prometheus or Alertmanager reports nothing, not even that it is stopped."""
    units = {name: ask(UNITS)[name] for name in (PROMETHEUS, ALERTMANAGER)}
    states = {name: unit.described for name, unit in units.items()}
    expect(states, "both active", holds=all(unit.state == "active" for unit in units.values()))


def test_targets_match_plan(ask: Ask, monitoring: Mapping[str, Any], expect: Expect) -> None:
    """A node that Prometheus does not read raises no alert."""
    expect(sorted(ask(TARGETS)), sorted(f"{one['job']} on {one['node']}" for one in monitoring["targets"]))


def test_targets_are_up(ask: Ask, expect: Expect) -> None:
    """An exporter that cannot be read hides everything that it would report."""
    expect({name: state for name, state in ask(TARGETS).items() if state != "up"}, {})


def test_rules_match_plan(ask: Ask, monitoring: Mapping[str, Any], expect: Expect) -> None:
    """A rule that was not loaded never fires."""
    planned = {rule.get("alert") or rule["record"] for group in monitoring["rules"]["groups"] for rule in group["rules"]}
    expect(sorted(ask(RULES)), sorted(planned))


def test_rules_are_evaluated(ask: Ask, monitoring: Mapping[str, Any], expect: Expect, limit: float) -> None:
    """A rule that fails, or that is not evaluated, is silent like one without a reason to fire."""
    longest = limit * monitoring["interval_s"]
    late = {name: one.error or f"{one.age:g} s ago" for name, one in ask(RULES).items() if one.error or one.age > longest}
    expect(late, f"evaluated without an error in the last {longest:g} s", holds=not late)


def test_watchdog_reaches_alertmanager(ask: Ask, expect: Expect, limit: float) -> None:
    """The one alert that always fires shows the whole way: rules, Prometheus, Alertmanager."""
    age = ask(RECEIVED).get(WATCHDOG)
    found = "absent" if age is None else f"{age:g} s old"
    expect(found, f"at most {limit:g} s old", holds=age is not None and age <= limit)


def test_no_alert_fires(ask: Ask, monitoring: Mapping[str, Any], expect: Expect) -> None:
    """Each alert has a runbook in docs/reference/alerts.md.

    Alerts of past events are left out: nothing can be done to end them. So are those about earlier verifications, and about nodes that are
    out, whose cables remain in the plan.
    """
    left_out = {name for name, rule in alerts().items() if not rule.is_checked}
    present = {"", *(node["name"] for node in monitoring["nodes"])}
    firing = {name.partition(" on ")[::2]: summary for name, summary in ask(FIRING).items()}
    found = {" on ".join(filter(None, key)): summary for key, summary in firing.items() if key[0] not in left_out and key[1] in present}
    expect(found, {})


def test_requests_without_certificate_refused(ask: Ask, expect: Expect) -> None:
    """Metrics show users' jobs and accounts, and where the cluster is weak."""
    # A daemon that does not listen tells nothing; monitoring.daemons_run reports it.
    said = {name: text for name, text in ask(ACCESS).items() if text != NOT_LISTENING}
    expect(said, dict.fromkeys(said, REFUSED))


def test_keys_are_private(ask: Ask, expect: Expect) -> None:
    """A user who reads the key of the client reads all metrics; one who reads that of a server can pretend to be it."""
    keys = ask(KEYS)
    expect(keys, dict.fromkeys(keys, KeyFile("640", "root:prometheus")))
