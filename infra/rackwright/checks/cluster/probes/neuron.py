"""Inferentia and Trainium devices: the files that their driver makes."""

from __future__ import annotations

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.probes.gpu import parse_devices

NEURON_DEVICES = Probe(
    "neuron-devices", on="neuron", command="stat -c '%n|%F|%t:%T' /dev/neuron[0-9]* 2>/dev/null; true", parse=parse_devices
)
