"""Power saving of existing machines in the plan: workers with a BMC, and how a controller reaches it."""

from __future__ import annotations

from typing import Any

from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster

_PINNED = ":".join(["AB"] * 32)


def plan(**workers: Any) -> Plan:
    """Return the plan of a login node and these workers."""
    power = {"kind": "redfish", "username": "rackwright", "password_file": "~/bmc-password"}
    machines = {name: {"address": f"10.20.0.{3 + place}", **one} for place, (name, one) in enumerate(workers.items())}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "power": power, "machines": {"login0": {"address": "10.20.0.2"}, **machines}},
            "network": {"cidr": "10.20.0.0/24"},
            "groups": {
                "login": {"count": 1, "cpus": 2, "memory": "2GiB"},
                "worker": {"count": len(workers), "cpus": 2, "memory": "2GiB"},
            },
            "scheduler": {"kind": "slurm", "power_saving": {"suspend_time": "1h", "suspend_timeout": "10m", "resume_timeout": "20m"}},
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "rack")


def test_workers_with_a_bmc_take_part() -> None:
    redfish = {"power": {"address": "10.21.0.1", "certificate": _PINNED, "ca_file": "/etc/ssl/ca.pem"}}
    ipmi = {"power": {"kind": "ipmi", "address": "10.21.0.2"}}
    saving = plan(worker0=redfish, worker1=ipmi, worker2={}).scheduler.power_saving
    assert saving is not None and saving.nodes == ("worker0", "worker1")
    shared = {"username": "rackwright", "password_file": "~/bmc-password", "system": None, "ca_file": None}
    assert {name: bmc.model_dump() for name, bmc in saving.bmcs.items()} == {
        "worker0": {**shared, "kind": "redfish", "address": "10.21.0.1", "port": 443, "certificate": _PINNED},
        "worker1": {**shared, "kind": "ipmi", "address": "10.21.0.2", "port": 623, "certificate": None},
    }
