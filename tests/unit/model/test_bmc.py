"""BMCs of machines: fingerprints, and the fields of machine, range and target together."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from rackwright.model.targets.bmc import Bmc, BmcKind, parse_fingerprint
from rackwright.model.targets.hosts import HostsTarget
from rackwright.stackfile.load import load_cluster

HEX = "0a" * 32
SHOWN = ":".join(["0A"] * 32)


@pytest.mark.parametrize("text", [HEX, HEX.upper(), SHOWN, SHOWN.lower(), f"SHA256:{HEX}", f"SHA256={SHOWN}", f" {SHOWN} "])
def test_fingerprint_is_normalised(text: str) -> None:
    assert parse_fingerprint(text) == SHOWN


@pytest.mark.parametrize("text", [HEX[:-2], HEX + "0a", "zz" * 32, 5, "SHA256:hA/Or20GTGdVLLL7N3U9N5K3GmEqH6JLSopKLDqqrVE"])
def test_other_text_is_no_fingerprint(text: object) -> None:
    with pytest.raises(PydanticCustomError, match="not a SHA-256 fingerprint"):
        parse_fingerprint(text)


def target(**machines: object) -> HostsTarget:
    shared = {"kind": "redfish", "username": "admin", "password_file": "/etc/bmc"}
    return HostsTarget.model_validate({"kind": "hosts", "os": "debian-13", "power": shared, "machines": machines})


def test_machine_range_and_target_are_merged() -> None:
    found = target(
        **{
            "worker[0-2]": {"address": "10.0.0.1", "power": {"address": "10.1.0.255", "port": 8443}},
            "worker1": {"power": {"kind": "ipmi", "port": 623}},
            "login0": {"address": "10.0.0.9"},
        }
    )
    addresses = [bmc.address for name in ("worker0", "worker1", "worker2") if (bmc := found.bmc_of(name))]
    assert addresses == ["10.1.0.255", "10.1.1.0", "10.1.1.1"]
    first, second = found.bmc_of("worker0"), found.bmc_of("worker1")
    assert first is not None and second is not None
    assert (first.kind, first.own_port, first.username) == (BmcKind.REDFISH, 8443, "admin")
    assert (second.kind, second.own_port, second.password_file) == (BmcKind.IPMI, 623, "/etc/bmc")
    assert found.bmc_of("login0") is None
    assert found.bmc_of("worker9") is None


def test_names_and_the_last_address_do_not_count_up() -> None:
    assert Bmc(address="bmc.example.org").counted(3).address == "bmc.example.org"
    assert Bmc(address="255.255.255.254").counted(2).address is None


def test_password_in_a_stack_file_is_refused_and_not_quoted() -> None:
    power = {"kind": "redfish", "address": "10.1.0.1", "username": "admin", "password": "canary-4711"}
    hosts = {"kind": "hosts", "os": "debian-13", "machines": {"worker0": {"address": "10.0.0.1", "power": power}}}
    loaded = load_cluster({"target": hosts, "network": {"cidr": "10.0.0.0/24"}, "groups": {"worker": {"count": 1}}}, "rack")
    assert loaded.cluster is None
    text = "\n".join(map(str, loaded.findings))
    assert "target.machines.worker0.power.password" in text
    assert "canary" not in text
