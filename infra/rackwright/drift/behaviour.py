"""The behaviour layer: the report of the passive checks, converted to differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackwright.drift.categories import categories
from rackwright.drift.difference import DriftItem, Layer, LayerScan

REPORT_SCHEMA = "rackwright.report/1"


def scan(report: Mapping[str, Any]) -> LayerScan:
    """Return failed checks as differences and unknown ones as unknown. Raise ValueError if this version cannot read the report."""
    if report.get("schema") != REPORT_SCHEMA:
        raise ValueError(f"schema is {report.get('schema')}, expected {REPORT_SCHEMA}")
    failed = [check for check in report["checks"] if check["verdict"] == "failed"]
    unknown = [(check["node"], check["reason"]) for check in report["checks"] if check["verdict"] == "unknown"]
    return LayerScan(Layer.BEHAVIOUR, report["seconds"], tuple(_difference(check) for check in failed), tuple(dict.fromkeys(unknown)))


def _difference(check: Mapping[str, Any]) -> DriftItem:
    key, _, _ = check["id"].partition("[")
    return DriftItem(
        layer=Layer.BEHAVIOUR,
        node=check["node"],
        subject=key,
        declared=check["expected"],
        live=check["found"] or check["reason"],
        category=categories().of_check(key, check["subject"]),
        remedy=check["remedy"],
    )
