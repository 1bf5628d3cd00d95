"""Probe of Inferentia and Trainium devices: the device files of their driver."""

from __future__ import annotations

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.probes.gpu import list_devices, parse_devices

NEURON_DEVICES = Probe(
    "neuron-devices", on="neuron", command=list_devices("/dev/neuron[0-9]*"), parse=parse_devices, statuses=frozenset({0, 1})
)
