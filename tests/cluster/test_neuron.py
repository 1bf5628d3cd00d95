"""Inferentia and Trainium devices of every node that is sold with them, against the plan."""

from __future__ import annotations

from cluster.probes.neuron import NEURON_DEVICES


def test_devices_match_plan(node, ask, expect):
    """Without its driver a device is not there, and with a wrong one some are missing."""
    numbers = {device.number for device in ask(NEURON_DEVICES) if device.character}
    expect(f"{len(numbers)} devices", f"{node.neuron_devices} devices")
