"""Verdicts of check functions for given results, as in a run of the checks and in the acceptance test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rackwright.checks.acceptance.evaluators import health
from rackwright.checks.acceptance.parsers import nvidia_smi
from rackwright.checks.acceptance.phase import guarded
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


def accepted_gpus(text: str, planned: int = 8) -> dict[str, tuple[Verdict, str]]:
    """Return verdict and reason of the acceptance's checks on GPUs from a list of nvidia-smi, without those that pass."""
    found = {}
    for name, check in health.CHECKS.items():
        finding = guarded(name, "worker0", lambda check=check, name=name: check(name, "worker0", nvidia_smi.parse_health(text), planned))  # type: ignore[misc]
        if finding.verdict is not Verdict.PASSED:
            found[name] = (finding.verdict, finding.reason)
    return found
