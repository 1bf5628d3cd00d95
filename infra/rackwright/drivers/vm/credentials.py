"""Identity of a virtual machine as systemd credentials, which the firmware tables (SMBIOS type 11) carry: systemd.system-credentials(7).

A machine has its host key before sshd starts for the first time, and the image has none.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from rackwright.drivers.vm.command_line import CREDENTIALS
from rackwright.drivers.vm.identity import CardAddress, Identity

HOST_KEY_FILE: Final = "/etc/ssh/ssh_host_ed25519_key"
_FILES: Final = (
    f"f+^ {HOST_KEY_FILE} 0600 root root - tmpfiles.host-key\nf+^ {HOST_KEY_FILE}.pub 0644 root root - tmpfiles.host-public-key\n"
)
"""tmpfiles.d(5): `^` takes the content from the credential of that name, `+` replaces a file."""


def network_file(card: CardAddress) -> str:
    """Return a file for systemd-networkd that gives a card its address: systemd.network(5)."""
    lines = ["[Match]", f"MACAddress={card.mac}", "", "[Link]", f"MTUBytes={card.mtu}", "", "[Network]", f"Address={card.address}"]
    return "\n".join([*lines, "LinkLocalAddressing=no", "IPv6AcceptRA=no", ""])


def credentials(identity: Identity) -> dict[str, bytes]:
    """Return the credentials by name. `network.network.*` needs systemd 257."""
    texts = {
        "system.hostname": identity.hostname,
        "ssh.authorized_keys.root": identity.authorized_key + "\n",
        "tmpfiles.extra": _FILES,
        "tmpfiles.host-key": identity.host_key,
        "tmpfiles.host-public-key": identity.host_public_key + "\n",
        **{f"network.network.10-{card.name}": network_file(card) for card in identity.cards},
    }
    return {name: text.encode() for name, text in texts.items()}


def write(folder: Path, identity: Identity) -> tuple[str, ...]:
    """Write the credentials into the machine's folder, readable by its owner alone, and return the names of the files."""
    place = folder / CREDENTIALS
    place.mkdir(mode=0o700, exist_ok=True)
    for name, content in credentials(identity).items():
        file = place / name
        file.touch(mode=0o600)
        file.write_bytes(f"io.systemd.credential.binary:{name}=".encode() + base64.b64encode(content))
    return tuple(sorted(credentials(identity)))
