"""The verdict of one check function for given probe results, as in a run of the checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.checks.cluster.harness.pytest_plugin import verdict_of as plugin_verdict
from rackwright.report.verdict import Verdict


def verdict_of(check: Callable[..., None], answers: Mapping[Probe[Any], Callable[[], Any]], **given: Any) -> tuple[Verdict, str]:
    """Return verdict and reason of a check. `answers` has a function for each probe's result; `given` are the check's other arguments."""
    expect = Expect()
    offered = {**given, "ask": lambda probe, of=None: answers[probe](), "expect": expect}
    try:
        check(**{name: offered[name] for name in inspect.signature(check).parameters})
    except Exception as error:
        return plugin_verdict(error, expect)
    return plugin_verdict(None, expect)


def answers_of(texts: Mapping[Probe[Any], str]) -> dict[Probe[Any], Callable[[], Any]]:
    """Return the results of probes whose commands printed these texts."""
    return {probe: lambda probe=probe, text=text: probe.read(CommandOutput(out=text)) for probe, text in texts.items()}
