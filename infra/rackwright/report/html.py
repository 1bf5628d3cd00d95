"""The report as HTML: one file without scripts or links, readable on a phone and in print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from rackwright.report.document import Report
from rackwright.report.humanize import headline
from rackwright.report.result import Result
from rackwright.report.serving_html import serving_section
from rackwright.report.training_html import STYLE as TRAINING_STYLE
from rackwright.report.training_html import training_section
from rackwright.report.unreachable import unreachable_nodes
from rackwright.report.verdict import Verdict

_STYLE = """
:root{color-scheme:light dark;--ok:#1a7f37;--bad:#cf222e;--unsure:#9a6700;--dim:#6e7781}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
.passed{color:var(--ok)}.failed{color:var(--bad)}.unknown{color:var(--unsure)}.skipped,.dim{color:var(--dim)}
article{border-left:4px solid var(--bad);padding:.2rem .8rem;margin:.8rem 0}article.unknown{border-color:var(--unsure);color:inherit}
dt{color:var(--dim);font-size:.85rem}dd{margin:0 0 .3rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}td{padding:.15rem .5rem .15rem 0;vertical-align:top;overflow-wrap:anywhere}
td:last-child{text-align:right}code{font-size:.9em}summary{cursor:pointer}
"""
_MARKS = {Verdict.PASSED: "✓", Verdict.FAILED: "✗", Verdict.UNKNOWN: "?", Verdict.SKIPPED: "-"}


def as_html(report: Report, fabric: str = "", demos: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return a complete HTML page with all texts escaped.

    fabric: picture of the fabric (SVG) to embed.
    demos: the newest record of each kind of demo.
    """
    wrong = [check for check in report.checks if check.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    nodes = unreachable_nodes(wrong)
    rest = [check for check in wrong if (check.node, check.reason) not in nodes]
    return "\n".join(
        [
            "<!doctype html><html lang=en><head><meta charset=utf-8>",
            '<meta name=viewport content="width=device-width,initial-scale=1">',
            f"<title>{escape(report.stack)}: {escape(headline(report))}</title><style>{_STYLE}{TRAINING_STYLE}</style></head><body>",
            f"<h1>{escape(report.stack)}: <span class={report.verdict}>{escape(headline(report))}</span></h1>",
            f"<p class=dim>level {escape(report.level)}, plan {escape(report.plan)}, {_when(report)}<br>{_counts(report)}</p>",
            *(_unreachable_node(node, reason, count) for (node, reason), count in nodes.items()),
            *(_finding(check) for check in sorted(rest, key=lambda check: check.verdict is Verdict.UNKNOWN)),
            *_nodes_out(report),
            *_subjects(report),
            *_not_run(report),
            *training_section(demos or {}),
            *serving_section(demos or {}),
            *_fabric(fabric),
            "</body></html>\n",
        ]
    )


def _when(report: Report) -> str:
    return f"{escape(report.started.isoformat(sep=' ', timespec='seconds'))}, {report.seconds:.1f} s"


def _counts(report: Report) -> str:
    return (
        ", ".join(f"<span class={verdict}>{count} {verdict}</span>" for verdict, count in report.totals.items() if count) or "no checks ran"
    )


def _unreachable_node(node: str, reason: str, count: int) -> str:
    title = f"<b>{_MARKS[Verdict.UNKNOWN]} {escape(node)}</b> <span class=dim>{count} checks unknown</span>"
    return f"<article class={Verdict.UNKNOWN}>{title}<dl><dt>reason</dt><dd>{escape(reason)}</dd></dl></article>"


def _finding(check: Result) -> str:
    rows = [("expected", check.expected), ("found", check.found), ("reason", _reason(check)), ("remedy", check.remedy)]
    title = f"<b>{_MARKS[check.verdict]} {escape(check.id)}</b> <span class=dim>{check.evidence}</span>"
    details = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows if text)
    return f"<article class={check.verdict}>{title}<dl>{details}</dl></article>"


def _reason(check: Result) -> str:
    """Return the reason, or an empty text for a failure whose expected and found values state it."""
    return "" if check.verdict is Verdict.FAILED and check.expected else check.reason


def _nodes_out(report: Report) -> list[str]:
    return [f"<p class=dim>{escape(node['name'])} is out: {escape(node['reason'])}</p>" for node in report.nodes if node["state"] == "out"]


def _row(check: Result) -> str:
    label = f"{escape(check.id)}<br><span class=dim>{escape(check.found)}</span>"
    return f"<tr><td class={check.verdict}>{_MARKS[check.verdict]}</td><td>{label}</td><td class=dim>{check.evidence}</td></tr>"


def _subjects(report: Report) -> list[str]:
    parts = []
    for subject, checks in groupby(report.checks, key=lambda check: check.subject):
        rows = [_row(check) for check in checks]
        title = f"<summary><b>{escape(subject)}</b> <span class=dim>{len(rows)}</span></summary>"
        parts.append(f"<details>{title}<table>{''.join(rows)}</table></details>")
    return ["<h2>All checks</h2>", *parts] if parts else []


def _fabric(picture: str) -> list[str]:
    """Return the picture without its XML namespace, which HTML does not need, so that the page contains no URL."""
    return ["<h2>Planned fabric</h2>", picture.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)] if picture else []


def _not_run(report: Report) -> list[str]:
    """Group the checks that did not run by reason; most are about parts that the plan does not have."""
    reasons: dict[str, list[Mapping[str, str]]] = {}
    for item in report.not_run:
        reasons.setdefault(item["reason"], []).append(item)
    groups = [_of_reason(reason, items) for reason, items in reasons.items()]
    return ["<h2>Not run</h2>", *groups] if groups else []


def _of_reason(reason: str, items: Sequence[Mapping[str, str]]) -> str:
    rows = [f"<tr><td>{escape(item['id'])}</td><td class=dim>{escape(item['detail'])}</td></tr>" for item in items]
    return (
        f"<details><summary><b>{escape(reason)}</b> <span class=dim>{len(items)}</span></summary><table>{''.join(rows)}</table></details>"
    )
