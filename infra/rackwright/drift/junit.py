"""JUnit XML of a drift scan for CI systems: one suite per layer."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rackwright.drift.difference import CLUSTER, Difference, Layer, Look, Weight
from rackwright.drift.document import Drift

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""
_LOOK: Final = "the layer was scanned"


def as_junit(found: Drift) -> str:
    """Return JUnit XML: a difference is a failure, an unknown result or a layer that was not scanned an error, an expected one skipped."""
    suites = Element("testsuites", name=f"rackwright drift {found.stack}", time=f"{found.seconds:.3f}")
    for look in found.looks:
        suites.append(_suite(found, look))
    for layer in found.missing:
        suites.append(_suite(found, Look(layer, 0.0, unknown=((CLUSTER, "not scanned"),))))
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _suite(found: Drift, look: Look) -> Element:
    expected = sum(one.weight is Weight.EXPECTED for one in look.differences)
    suite = Element(
        "testsuite",
        name=f"{found.stack} {look.layer.value}",
        tests=str(len(look.differences) + len(look.unknown) or 1),
        failures=str(len(look.differences) - expected),
        errors=str(len(look.unknown)),
        skipped=str(expected),
        time=f"{look.seconds:.3f}",
        timestamp=found.started.isoformat(timespec="seconds"),
    )
    for one in look.differences:
        _differs(suite, one)
    for node, why in look.unknown:
        SubElement(_case(suite, look.layer, f"{_LOOK}[{node}]"), "error", message=_clean(why))
    if not (look.differences or look.unknown):
        _case(suite, look.layer, _LOOK)
    return suite


def _differs(suite: Element, one: Difference) -> None:
    case = _case(suite, one.layer, f"{one.subject}[{one.node}]")
    kind = "skipped" if one.weight is Weight.EXPECTED else "failure"
    said = SubElement(case, kind, message=_clean(f"{one.weight.value}: declared {one.declared}, live {one.live}"))
    said.text = _clean(one.remedy)


def _case(suite: Element, layer: Layer, name: str) -> Element:
    return SubElement(suite, "testcase", classname=f"drift.{layer.value}", name=_clean(name))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
