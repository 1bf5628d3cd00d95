"""The page for forwarding: a single file that matches the scan and is accessible."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import DriftRecord, ScanRecord
from rackwright.drift.page.document import page

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
CABLES = ["worker0/mlx5_0:1 leaf1:1", "worker1/mlx5_0:1 leaf1:2", "leaf1:33 spine1:1"]
FABRIC = {"kind": "infiniband", "rails": 8, "switches": ["leaf1"], "rate_gbps": 400, "cables": CABLES}
SHARED = {"name": "sharedfs", "kind": "moosefs", "mount": "/mnt/sharedfs", "servers": ["storage0"], "clients": ["login0", "worker0"]}
CLUSTER = {"simulated": ["gpu"], "fabric": FABRIC, "storage": [SHARED]}


def node(*roles, gpus=0):
    return {"roles": list(roles), "gpus": {"count": gpus} if gpus else None}


NODES = {"login0": node("login"), "worker0": node("worker", gpus=8), "worker1": node("worker", gpus=8), "storage0": node("storage")}


def differs(on, subject="munge.service_runs", category=Category.BREAKING, layer=Layer.BEHAVIOUR, **told):
    return DriftItem(layer, on, subject, **{"declared": "active", "live": "dead", "category": category, "remedy": "`start` it", **told})


def shown(*differences, unknown=(), nodes=NODES, scans=(), seen=()):
    three = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 1.0), LayerScan(Layer.BEHAVIOUR, 1.0, differences, unknown))
    return page(DriftReport("lab", "0" * 12, NOW, 2.0, three), CLUSTER, nodes, scans, seen)


class Balance(HTMLParser):
    """Parser that verifies that every opened element is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def part(html, name):
    """Return the class of the diagram's part of that name."""
    return re.search(rf'<g class="(\w+)"><title>{name}: ', html).group(1)


def test_page_is_well_formed_for_any_input():
    html = shown(
        differs("worker0"),
        unknown=(("worker1", "unreachable"),),
        scans=[ScanRecord(NOW, 2.0, State.UNKNOWN, 1)],
        seen=[DriftRecord(differs("worker0"), NOW, NOW, None)],
    )
    parser = Balance()
    parser.feed(html)
    assert parser.open == []


def test_page_contains_no_links_or_scripts():
    html = shown(differs("worker0"), scans=[ScanRecord(NOW, 2.0, State.CLEAN, 0)])
    assert not re.search(r"<script|<link|<iframe|https?://|url\(|@import| on[a-z]+=", html)


def test_foreign_text_is_escaped():
    html = shown(differs('"><script>x', subject="<b>", declared="<i>", live="&", remedy="<u>"), unknown=(("<s>", "<a>"),))
    assert not re.search(r"<(script|b|i|u|s|a)>", html)


def test_incomplete_verdict_is_not_green():
    html = shown(unknown=(("worker1", "unreachable"),))
    assert "partly unknown" in html and 'class="clean">✓ lab' not in html


@pytest.mark.parametrize(
    ("category", "colour"), [(Category.SECURITY, "security"), (Category.BREAKING, "breaking"), (Category.EXPECTED, "expected")]
)
def test_node_colour_follows_heaviest_difference(category, colour):
    html = shown(differs("worker0", category=category), differs("worker0", "tuning.x", Category.EXPECTED))
    assert (part(html, "worker0"), part(html, "worker1")) == (colour, "clean")


def test_unresponsive_node_is_unknown_despite_ignored_differences():
    html = shown(differs("worker0", category=Category.EXPECTED), unknown=(("worker0", "unreachable"),))
    assert part(html, "worker0") == "unknown"


def test_shared_resources_are_coloured_by_their_differences():
    html = shown(differs("worker0", "fabric.links_have_their_rate"))
    assert (part(html, "fabric"), part(html, "sharedfs")) == ("breaking", "clean")


def test_missing_report_makes_page_unknown():
    html = shown(unknown=(("", "the checks left no report"),))
    assert part(html, "fabric") == part(html, "worker0") == "unknown"


@pytest.mark.parametrize(
    ("silent", "fabric", "shared"),
    [("worker1", "unknown", "clean"), ("storage0", "clean", "unknown"), ("worker0", "unknown", "unknown"), ("login0", "clean", "unknown")],
)
def test_shared_resources_need_all_nodes(silent, fabric, shared):
    html = shown(unknown=((silent, "unreachable"),))
    assert (part(html, "fabric"), part(html, "sharedfs")) == (fabric, shared)


def test_every_filter_selects_its_own_findings():
    html = shown(differs("worker0"), differs("login0", category=Category.SECURITY))
    boxes = set(re.findall(r'<input type="\w+" id="([\w-]+)"', html))
    rules = set(re.findall(r"body:has\(#([\w-]+):", html))
    assert boxes - {"node-all"} <= rules
    assert {"layer-behaviour", "category-security", "category-breaking", "node-0", "node-1"} <= boxes and "category-benign" not in boxes
    assert 'body:has(#node-1:checked) article[data-node]:not([data-node~="worker0"]){display:none}' in html


def test_common_difference_is_listed_once_for_rack():
    rack = [differs(f"worker{n}", subject) for n in range(3) for subject in ("munge.service_runs", "slurm.node_daemon_runs")]
    html = shown(*rack, differs("", "etcd.answers"), unknown=(("worker5", "no answer"), ("worker6", "no answer")))
    assert html.count("<article") == 4 and html.count("<p>worker[0-2], behaviour</p>") == 2
    assert html.count('data-node="worker0 worker1 worker2"') == 2 and 'data-node="-"' in html
    assert "worker[5-6], behaviour" in html


def test_large_cluster_is_drawn_completely():
    many = {"login0": node("login"), **{f"worker{n}": node("worker", gpus=8) for n in range(256)}}
    html = shown(differs("worker200"), nodes=many)
    assert html.count("<g class=") == 257 + 2 and part(html, "worker200") == "breaking"


def test_simulated_evidence_is_labelled():
    assert "simulated here: gpu" in shown()


def test_history_is_also_text():
    scans = [ScanRecord(NOW - timedelta(days=n), 2.0, State.DRIFTED, n) for n in range(3)]
    html = shown(scans=scans, seen=[DriftRecord(differs("worker0"), NOW - timedelta(days=2), NOW, NOW)])
    assert "2026-11-21 03:00 UTC: drifted, 2 differences" in html and "resolved 2026-11-23 03:00" in html


def luminance(colour):
    """Return the relative luminance, WCAG 2.2."""
    parts = colour.lstrip("#")
    parts = "".join(one * 2 for one in parts) if len(parts) == 3 else parts
    channels = [int(parts[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def palettes():
    """Return the colours of the light and the dark page."""
    style = files("rackwright.drift.page").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--(\w+):(#\w+)", block)) for block in re.findall(r":root\{([^}]*)\}", style))
    return {"light": light, "dark": dark}


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "panel"])
def test_text_contrast_is_sufficient(mode, ground):
    """4.5 : 1, WCAG 2.2 success criterion 1.4.3."""
    colours = palettes()[mode]
    behind = luminance(colours[ground])
    for name in set(colours) - {"ground", "panel", "line"}:
        before = luminance(colours[name])
        ratio = (max(before, behind) + 0.05) / (min(before, behind) + 0.05)
        assert ratio >= 4.5, f"{name}: {ratio:.2f}"


def test_both_pages_define_all_colours():
    found = palettes()
    assert set(found["light"]) == set(found["dark"])
