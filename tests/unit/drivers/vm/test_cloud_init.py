"""Identity of a machine for cloud-init: what a first boot of a vendor's image finds, and who can read it."""

from __future__ import annotations

import json
from pathlib import Path

from rackwright.drivers.vm.cloud_init import seed_files, write
from rackwright.drivers.vm.identity import CardAddress, Identity

IDENTITY = Identity(
    hostname="login0",
    host_key="-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
    host_public_key="ssh-ed25519 AAAA login0",
    authorized_key="ssh-ed25519 BBBB",
    cards=(
        CardAddress("eth0", "02:00:00:00:00:01", "10.75.0.16/24", 1500),
        CardAddress("nat0", "02:00:c0:00:02:0f", "192.0.2.15/24", 1500, "192.0.2.2", "192.0.2.3"),
    ),
)
FILES = seed_files(IDENTITY, "5a3d2c6e")


def test_name_and_instance_are_those_of_the_machine() -> None:
    assert json.loads(FILES["meta-data"]) == {"instance-id": "5a3d2c6e", "local-hostname": "login0"}


def test_root_has_the_stacks_key_and_no_vendors_user_exists() -> None:
    head, _, text = FILES["user-data"].partition("\n")
    config = json.loads(text)
    assert head == "#cloud-config"
    assert (config["ssh_authorized_keys"], config["disable_root"], config["users"]) == (["ssh-ed25519 BBBB"], False, [])
    assert config["ssh_keys"] == {"ed25519_private": IDENTITY.host_key, "ed25519_public": "ssh-ed25519 AAAA login0"}
    assert config["ssh_pwauth"] is False


def test_hosts_file_stays_the_clusters() -> None:
    assert json.loads(FILES["user-data"].partition("\n")[2])["manage_etc_hosts"] is False


def test_cards_are_found_by_their_mac_address_and_only_one_has_a_route() -> None:
    cards = json.loads(FILES["network-config"])["ethernets"]
    assert {name: (card["match"], card["set-name"], card["addresses"]) for name, card in cards.items()} == {
        "eth0": ({"macaddress": "02:00:00:00:00:01"}, "eth0", ["10.75.0.16/24"]),
        "nat0": ({"macaddress": "02:00:c0:00:02:0f"}, "nat0", ["192.0.2.15/24"]),
    }
    assert "routes" not in cards["eth0"] and cards["nat0"]["routes"] == [{"to": "0.0.0.0/0", "via": "192.0.2.2"}]
    assert cards["nat0"]["nameservers"] == {"addresses": ["192.0.2.3"]}
    assert not any(card[name] for card in cards.values() for name in ("dhcp4", "dhcp6", "accept-ra"))


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    write(tmp_path, IDENTITY, "5a3d2c6e")
    assert {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "seed").iterdir()} == dict.fromkeys(FILES, 0o600)
    assert (tmp_path / "seed").stat().st_mode & 0o777 == 0o700
