"""The HTML page: state, layers, picture, differences and the last scans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan, where, where_all
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import DriftRecord, ScanRecord
from rackwright.drift.page.picture import picture, simulated
from rackwright.drift.page.state import MARKS, count_items

_SAID: Final = {State.CLEAN: "as declared", State.DRIFTED: "not as declared", State.UNKNOWN: "partly unknown"}
_MOST_NODES: Final = 16
"""Maximum number of nodes in the filter; with more, only layers and categories can be filtered."""


Nodes = Mapping[str, Mapping[str, Any]]
"""Node records of the inventory, by name."""


def page(found: DriftReport, cluster: Mapping[str, Any], nodes: Nodes, scans: Sequence[ScanRecord], seen: Sequence[DriftRecord]) -> str:
    """Return the HTML page with all texts escaped. `scans`: the newest first."""
    style = files("rackwright.drift.page").joinpath("page.css").read_text(encoding="utf-8")
    title = f"{found.stack}: {_SAID[found.state]}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}{_rules(found)}</style></head><body>",
            *_head(found, simulated(cluster)),
            _layers(found.layers),
            "<h2>The cluster</h2>",
            picture(found, cluster, nodes),
            *_unknown(found),
            *_differences(found),
            *_history(scans, seen),
            "</body></html>\n",
        ]
    )


def _head(found: DriftReport, simulated: Sequence[str]) -> list[str]:
    counts = [f'<span class="{word}">{count} {word}</span>' for word, count in count_items(found.differences).items() if count]
    when = found.started.strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        f'<h1><span class="{found.state.value}">{MARKS[found.state.value]} {escape(found.stack)}: {_SAID[found.state]}</span></h1>',
        f"<p>{', '.join(counts) or 'no differences'}</p>",
        f'<p class="dim">scanned {when}, {found.seconds:.1f} s, plan {escape(found.plan)}</p>',
    ]
    parts += [f'<p class="dim">{escape(str(one))}</p>' for one in found.last_verified]
    if simulated:
        parts.append(f'<p class="dim">simulated here: {escape(", ".join(simulated))}</p>')
    return parts


def _layers(scans: Iterable[LayerScan]) -> str:
    heads = "".join(f'<th scope="col" class="count">{category.value}</th>' for category in reversed(Category))
    rows = []
    for scan in scans:
        counts = "".join(
            f'<td class="count {word if count else "dim"}">{count}</td>' for word, count in count_items(scan.differences).items()
        )
        unknown = f'<td class="count {"unknown" if scan.unknown else "dim"}">{len(scan.unknown)}</td>'
        rows.append(f'<tr><th scope="row">{scan.layer.value}</th>{counts}{unknown}<td class="count">{scan.seconds:.1f} s</td></tr>')
    head = f'<tr><th scope="col">layer</th>{heads}<th scope="col" class="count">unknown</th><th scope="col" class="count">took</th></tr>'
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _unknown(found: DriftReport) -> list[str]:
    if not found.unknown:
        return []
    items = [
        f'<article class="unknown"><h3>{MARKS["unknown"]} {escape(where_all(nodes))}, {layer.value}</h3><p>{escape(why)}</p></article>'
        for layer, why, nodes in found.unreachable
    ]
    return ["<h2>Unknown</h2>", *items]


def _differences(found: DriftReport) -> list[str]:
    if not found.differences:
        return []
    articles = [_difference(alike) for alike in found.grouped]
    return ["<h2>Differences</h2>", "<form>", *_filters(found), "</form>", *articles]


def _difference(alike: Sequence[DriftItem]) -> str:
    one, nodes = alike[0], [each.node for each in alike]
    rows = [("was", "declared", one.declared), ("is", "live", one.live), ("now", "remedy", one.remedy)]
    details = "".join(f'<dt>{name}</dt><dd class="{kind}">{_text(text)}</dd>' for kind, name, text in rows if text)
    marks = f'data-layer="{one.layer.value}" data-category="{one.category.value}" data-node="{escape(" ".join(map(_mark, nodes)))}"'
    head = f"<h3>{one.category.value}: {escape(one.subject)}</h3><p>{escape(where_all(nodes))}, {one.layer.value}</p>"
    return f'<article class="{one.category.value}" {marks}>{head}<dl>{details}</dl></article>'


def _mark(node: str) -> str:
    """Return the node as a word of an attribute; for the cluster "-", which is no node name."""
    return node or "-"


def _text(text: str) -> str:
    """Return the text escaped, with backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _chosen(found: DriftReport) -> list[str]:
    """Return the nodes of the filter."""
    names = sorted({one.node for one in found.differences}, key=_counted)
    return names if 1 < len(names) <= _MOST_NODES else []


def _counted(name: str) -> list[tuple[int, str]]:
    """Return a sort key by letters and numbers, so that worker10 follows worker9."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def _filters(found: DriftReport) -> list[str]:
    """Return checkboxes for layers and categories, and radio buttons for nodes; they work with CSS only."""
    present = {one.category for one in found.differences}
    layers = [_box("checkbox", f"layer-{layer.value}", layer.value, on=True) for layer in Layer]
    categories = [
        _box("checkbox", f"category-{category.value}", category.value, on=True) for category in reversed(Category) if category in present
    ]
    names = [_box("radio", f"node-{index}", where(name)) for index, name in enumerate(_chosen(found))]
    nodes = [_box("radio", "node-all", "all", on=True), *names] if names else []
    groups = [("layer", layers), ("category", categories), ("node", nodes)]
    return [f"<fieldset><legend>{name}</legend>{''.join(boxes)}</fieldset>" for name, boxes in groups if len(boxes) > 1]


def _box(kind: str, name: str, label: str, *, on: bool = False) -> str:
    group = ' name="node"' if kind == "radio" else ""
    return f'<label><input type="{kind}" id="{name}"{group}{" checked" if on else ""}> {escape(label)}</label>'


def _rules(found: DriftReport) -> str:
    """Return the CSS rules of the boxes."""
    unchecked = "body:has(#{0}:not(:checked)) article[data-{1}={2}]{{display:none}}"
    rules = [unchecked.format(f"layer-{layer.value}", "layer", layer.value) for layer in Layer]
    rules += [unchecked.format(f"category-{category.value}", "category", category.value) for category in Category]
    rules += [
        f'body:has(#node-{index}:checked) article[data-node]:not([data-node~="{escape(_mark(name))}"]){{display:none}}'
        for index, name in enumerate(_chosen(found))
    ]
    return "".join(rules)


def _history(scans: Sequence[ScanRecord], seen: Sequence[DriftRecord]) -> list[str]:
    """Return the last scans as bars, and every difference with its times."""
    if not scans:
        return []
    most = max(1, *(scan.differences for scan in scans))
    bars = [f'<li class="{one.state.value}" style="height:{max(8, round(100 * one.differences / most))}%"></li>' for one in reversed(scans)]
    rows = [_row(one) for one in seen]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("first seen", "until", "category", "difference", "node"))
    table = f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    listed = "".join(f"<li>{_scan_text(scan)}</li>" for scan in scans)
    return [
        f"<h2>The last {len(scans)} scans</h2>",
        f'<ol class="scans" aria-hidden="true">{"".join(bars)}</ol>',
        f"<details><summary>list</summary><ol>{listed}</ol></details>",
        *(["<h2>History</h2>", table] if rows else []),
    ]


def _scan_text(scan: ScanRecord) -> str:
    return f"{scan.started.strftime('%Y-%m-%d %H:%M UTC')}: {scan.state.value}, {scan.differences} differences, {scan.seconds:.1f} s"


def _row(one: DriftRecord) -> str:
    found = one.difference
    until = f"resolved {one.resolved.strftime('%Y-%m-%d %H:%M')}" if one.resolved else "open"
    cells = (one.first.strftime("%Y-%m-%d %H:%M"), until, found.category.value, found.subject, where(found.node))
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
