"""The page of a drift scan in a browser: contents on a wide and a narrow screen, in light and dark mode, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import ScanRecord
from rackwright.drift.page.document import page

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
LEAST_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3 (minimum contrast of text)."""
CLUSTER = {
    "simulated": ["gpu"],
    "fabric": {"kind": "infiniband", "rails": 8, "switches": ["leaf1"], "rate_gbps": 400, "cables": ["worker0/mlx5_0:1 leaf1:1"]},
    "storage": [{"name": "sharedfs", "kind": "moosefs", "mount": "/mnt/sharedfs", "servers": ["storage0"], "clients": ["login0"]}],
}
CONTRAST = """() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = node => {
    for (let at = node; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const own = node => [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
  return [...document.querySelectorAll('body *')].filter(node => !node.closest('svg') && own(node) && node.getClientRects().length)
    .map(node => { const style = getComputedStyle(node), a = light(parts(style.color)), b = light(ground(node));
      return [node.tagName + ' ' + node.textContent.trim().slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]; });
}"""
"""Every element with text of its own -> its contrast with its background (WCAG 2.2, relative luminance)."""


def differs(node: str, layer: Layer, category: Category, subject: str) -> DriftItem:
    return DriftItem(layer, node, subject, "active", "a value that is long " * 6, category, f"`rackwright up lab` on {node}")


FOUND = (
    differs("worker0", Layer.BEHAVIOUR, Category.BREAKING, "munge.service_runs"),
    differs("worker1", Layer.CONFIGURATION, Category.SECURITY, "bootstrap.Configure and run the SSH server"),
    differs("worker1", Layer.BEHAVIOUR, Category.BENIGN, "tuning.profile_is_kept"),
)


def write_page(folder: Path) -> Path:
    """Write the page of a scan with three differences and one unreachable node; return its path."""
    nodes: dict[str, dict[str, Any]] = {name: {"roles": ["worker"], "gpus": {"count": 8}} for name in ("worker0", "worker1", "worker2")}
    nodes |= {"login0": {"roles": ["login", "controller"], "gpus": None}, "storage0": {"roles": ["storage"], "gpus": None}}
    looks = tuple(
        LayerScan(layer, 1.0, tuple(one for one in FOUND if one.layer is layer)) for layer in (Layer.RESOURCES, Layer.CONFIGURATION)
    )
    behaviour = LayerScan(
        Layer.BEHAVIOUR, 2.0, tuple(one for one in FOUND if one.layer is Layer.BEHAVIOUR), (("worker2", "no route to host"),)
    )
    past = [ScanRecord(NOW - timedelta(days=day), 5.0, State.CLEAN if day % 3 else State.DRIFTED, 0 if day % 3 else 2) for day in range(30)]
    file = folder / "drift.html"
    file.write_text(page(DriftReport("lab", "0" * 12, NOW, 5.0, (*looks, behaviour)), CLUSTER, nodes, past, ()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


class OpenPage:
    """The open page, and the browser's messages and requests."""

    def __init__(self, browser: Browser, file: Path, *, width: int = 1200, dark: bool = False) -> None:
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def articles(self) -> list[str]:
        """Return the headings of the visible differences."""
        return [one.inner_text().splitlines()[0] for one in self.page.locator("article[data-node]").all() if one.is_visible()]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    file, pages = write_page(tmp_path), []

    def go(**options: Any) -> OpenPage:
        pages.append(OpenPage(browser, file, **options))
        return pages[-1]

    yield go
    for one in pages:
        one.page.close()


def test_page_shows_cluster_and_differences(opened: Any) -> None:
    seen = opened()
    assert "lab" in seen.page.locator("h1").inner_text()
    assert {name for name in ("worker0", "worker2", "login0", "storage0") if name in seen.page.locator("svg").first.inner_html()} == {
        *("worker0", "worker2", "login0", "storage0")
    }
    box = seen.page.locator("svg").first.bounding_box()
    assert box and box["width"] > 200 and box["height"] > 50
    assert len(seen.articles()) == len(FOUND)


def test_page_loads_without_network_or_errors(opened: Any) -> None:
    seen = opened()
    assert seen.said == [] and [url for url in seen.asked if not url.startswith("file:")] == [] and len(seen.asked) == 1


@pytest.mark.parametrize("nodes", [3, 20, 60])
def test_node_names_fit_their_boxes(browser: Browser, tmp_path: Path, nodes: int) -> None:
    many = {name: {"roles": ["worker"], "gpus": None} for name in ("controller0", *(f"worker-of-rack-{n:02}" for n in range(nodes)))}
    file = tmp_path / "drift.html"
    looks = tuple(LayerScan(layer, 1.0) for layer in Layer)
    file.write_text(page(DriftReport("lab", "0" * 12, NOW, 5.0, looks), CLUSTER, many, [], ()), encoding="utf-8")
    seen = OpenPage(browser, file)
    out = """() => [...document.querySelectorAll("svg g")]
        .map(g => [g.querySelector("rect.box").getBBox(), g.querySelector("text").getBBox()])
        .filter(([box, text]) => text.x < box.x || text.x + text.width > box.x + box.width).length"""
    assert (seen.page.evaluate(out), seen.page.locator("svg g").count() > nodes) == (0, True)
    seen.page.close()


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_page_fits_screen_width(opened: Any, width: int) -> None:
    seen = opened(width=width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_sufficient_contrast(opened: Any, dark: bool) -> None:
    told = opened(dark=dark).page.evaluate(CONTRAST)
    assert len(told) > 20
    assert [(what, round(ratio, 2)) for what, ratio in told if ratio < LEAST_CONTRAST] == []


def test_light_and_dark_backgrounds_differ(opened: Any) -> None:
    grounds = {opened(dark=dark).page.evaluate("getComputedStyle(document.body).backgroundColor") for dark in (False, True)}
    assert len(grounds) == 2


def test_checkbox_filters_differences(opened: Any) -> None:
    seen = opened()
    for box, left in (("#layer-configuration", 2), ("#category-benign", 2)):
        seen.page.uncheck(box)
        assert len(seen.articles()) == left
        seen.page.check(box)
        assert len(seen.articles()) == len(FOUND)
    seen.page.get_by_label("worker0", exact=True).check()
    assert [one for one in seen.articles() if "munge" not in one] == [] and len(seen.articles()) == 1


def test_keyboard_toggles_checkbox_with_visible_focus(opened: Any) -> None:
    seen = opened()
    for _ in range(30):
        seen.page.keyboard.press("Tab")
        if seen.page.evaluate("document.activeElement.id") == "layer-configuration":
            break
    focused = "getComputedStyle(document.activeElement)"
    assert seen.page.evaluate("document.activeElement.id") == "layer-configuration"
    assert seen.page.evaluate(f"{focused}.outlineStyle") != "none"
    seen.page.keyboard.press("Space")
    assert len(seen.articles()) == 2
