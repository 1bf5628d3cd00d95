"""Identity of a machine as credentials: what a first boot finds, and who can read it."""

from __future__ import annotations

import base64
from pathlib import Path

from rackwright.drivers.vm.credentials import credentials, write
from rackwright.drivers.vm.identity import CardAddress, Identity

IDENTITY = Identity(
    hostname="worker0",
    host_key="-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
    host_public_key="ssh-ed25519 AAAA worker0",
    authorized_key="ssh-ed25519 BBBB",
    cards=(CardAddress("eth0", "02:00:00:00:00:01", "10.75.0.24/24", 1500),),
)


def test_host_key_exists_before_the_ssh_server_starts() -> None:
    found = credentials(IDENTITY)
    lines = found["tmpfiles.extra"].decode().splitlines()
    assert "f+^ /etc/ssh/ssh_host_ed25519_key 0600 root root - tmpfiles.host-key" in lines
    assert found["tmpfiles.host-key"].decode() == IDENTITY.host_key


def test_card_has_a_static_address() -> None:
    text = credentials(IDENTITY)["network.network.10-eth0"].decode()
    assert "MACAddress=02:00:00:00:00:01" in text and "Address=10.75.0.24/24" in text and "DHCP" not in text


def test_files_carry_systemd_strings_for_their_owner_alone(tmp_path: Path) -> None:
    names = write(tmp_path, IDENTITY)
    file = tmp_path / "credentials" / "ssh.authorized_keys.root"
    name, _, value = file.read_text().partition("=")
    assert name == "io.systemd.credential.binary:ssh.authorized_keys.root"
    assert base64.b64decode(value) == b"ssh-ed25519 BBBB\n"
    assert {(tmp_path / "credentials" / one).stat().st_mode & 0o777 for one in names} == {0o600}
