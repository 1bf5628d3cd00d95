"""Inferentia and Trainium devices of every instance that has them, compared with the plan."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.neuron import NEURON_DEVICES


def test_devices_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """Without the driver no device exists; with a wrong driver some are missing."""
    numbers = {device.number for device in ask(NEURON_DEVICES) if device.character}
    expect(f"{len(numbers)} devices", f"{node.neuron_devices} devices")
