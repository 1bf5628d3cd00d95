"""Identity of a virtual machine for cloud-init: a disk with the files of its data source NoCloud (cloud-init documentation: NoCloud).

QEMU presents the folder as a FAT file system with the label that cloud-init searches for, so that no program has to write one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.cloud_config import cloud_config, user_data
from rackwright.drivers.vm.identity import CardAddress, Identity

SEED: Final = "seed"
"""Folder of the files in the machine's folder."""
LABEL: Final = "cidata"


def seed_files(identity: Identity, instance: str) -> dict[str, str]:
    """Return the files by name. cloud-init configures a disk once for each `instance`."""
    return {
        "meta-data": json.dumps({"instance-id": instance, "local-hostname": identity.hostname}) + "\n",
        "network-config": json.dumps({"version": 2, "ethernets": {card.name: _ethernet(card) for card in identity.cards}}) + "\n",
        "user-data": user_data(_config(identity)),
    }


def write(folder: Path, identity: Identity, instance: str) -> None:
    """Write the files into the machine's folder, readable by its owner alone."""
    place = folder / SEED
    place.mkdir(mode=0o700, exist_ok=True)
    for name, text in seed_files(identity, instance).items():
        (place / name).touch(mode=0o600)
        (place / name).write_text(text, encoding="utf-8")


def _config(identity: Identity) -> dict[str, Any]:
    """Return the cloud-config: root has the stack's key, and no user of the vendor exists, whose id a user of the cluster may have.

    Images of Debian write /etc/hosts at each boot (`manage_etc_hosts`), which has the cluster's names.
    """
    keys = {"private": identity.host_key, "public": identity.host_public_key, "access": identity.authorized_key}
    return {**cloud_config(hostname=identity.hostname, **keys), "disable_root": False, "users": [], "manage_etc_hosts": False}


def _ethernet(card: CardAddress) -> dict[str, Any]:
    """Return a card in the network configuration of version 2, the format of Netplan."""
    found: dict[str, Any] = {
        "match": {"macaddress": card.mac},
        "set-name": card.name,
        "addresses": [card.address],
        "mtu": card.mtu,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
    }
    if card.gateway:
        found |= {"routes": [{"to": "0.0.0.0/0", "via": card.gateway}], "nameservers": {"addresses": [card.nameserver]}}
    return found
