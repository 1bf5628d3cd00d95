"""docs/reference/alerts.md: every alert, with a section that the alert links to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rackwright.catalog.alerts import AlertRule, alerts
from reference.faults import raising
from reference.markdown import cell, code, head, table

_TEXT: Final = """The rules of Prometheus on a cluster with `monitoring` ([monitoring](../monitoring.md)). `<label>` stands for a label of
the alert; `<instance>` is the name of a node, STACK the name of the stack. Each section is the runbook of its alert.
"""


def page() -> str:
    """Return the whole page."""
    rules = alerts().values()
    contents = table(("alert", "severity", "for", "what happened"), (_row(rule) for rule in rules))
    groups = groupby(rules, key=lambda rule: rule.group)
    sections = (line for name, found in groups for line in (f"## Group {name}", "", *(line for rule in found for line in _section(rule))))
    return "\n".join([head("Alerts", "`catalog/alerts.yml`", _TEXT), *contents, *sections])


def _row(rule: AlertRule) -> tuple[str, str, str, str]:
    return f"[{rule.name}](#{rule.name.lower()})", rule.severity.value, rule.hold, cell(rule.summary)


def _section(rule: AlertRule) -> Iterator[str]:
    yield from (f"### {rule.name}", "", f"{cell(rule.summary)}.", "")
    yield from (f"- **Do:** {cell(rule.remedy)}.", f"- **Severity:** {rule.severity.value}, after {rule.hold}.")
    yield f"- **Condition:** `{rule.expression}`"
    yield f"- **Threshold:** {cell(rule.source)}"
    if rule.event:
        yield "- **Event:** it ends by itself, and the check `monitoring.no_alert_fires` leaves it out."
    elif not rule.is_checked:
        yield "- **Not checked:** `monitoring.no_alert_fires` leaves it out."
    if raised := [f"[`{key}`](faults.md)" for key in raising(rule.name)]:
        yield f"- **Faults that raise it:** {', '.join(raised)}."
    needs = ", ".join(code(need.value) for need in sorted(rule.needs))
    yield from ((f"- **Only with:** {needs}.", "") if needs else ("",))
