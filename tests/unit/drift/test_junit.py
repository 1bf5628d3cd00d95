"""The JUnit file for CI systems."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drift.junit import as_junit


def suites(*scans):
    text = as_junit(DriftReport("lab", "0" * 12, datetime(2026, 11, 23, tzinfo=UTC), 2.0, scans))
    return {suite.get("name"): suite for suite in ElementTree.fromstring(text)}


def differs(category, declared="active"):
    return DriftItem(Layer.BEHAVIOUR, "worker0", f"munge.{category.value}", declared, "dead", category, "start it")


def counts(suite):
    return tuple(int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))


def test_every_layer_is_a_suite():
    found = suites(
        LayerScan(Layer.RESOURCES, 1.0),
        LayerScan(Layer.CONFIGURATION, 1.0, unknown=(("worker1", "unreachable"),)),
        LayerScan(Layer.BEHAVIOUR, 1.0, (differs(Category.BREAKING), differs(Category.EXPECTED))),
    )
    assert {name: counts(suite) for name, suite in found.items()} == {
        "lab resources": (1, 0, 0, 0),
        "lab configuration": (1, 0, 1, 0),
        "lab behaviour": (2, 1, 0, 1),
    }
    assert found["lab behaviour"].find("testcase/failure").text == "start it"


def test_unscanned_layer_is_an_error():
    assert counts(suites(LayerScan(Layer.RESOURCES, 1.0))["lab behaviour"]) == (1, 0, 1, 0)


def test_invalid_xml_characters_are_escaped():
    found = suites(LayerScan(Layer.BEHAVIOUR, 1.0, (differs(Category.BREAKING, declared="\x1b[31m"),)))
    assert "declared \\x1b[31m, live" in found["lab behaviour"].find("testcase/failure").get("message")
