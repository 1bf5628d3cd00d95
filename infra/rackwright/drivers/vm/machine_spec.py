"""Description of one virtual machine, as its folder keeps it. It contains no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rackwright.errors import InputError
from rackwright.files import write_atomic

FILE: Final = "machine.json"
SCHEMA: Final = "rackwright.machine/1"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network card: its name and socket in the machine's folder, and the switch's socket, relative to that folder. `mtu` is in bytes."""

    name: str
    mac: str
    mtu: int
    peer: str


@dataclass(frozen=True, kw_only=True)
class Forward:
    """A port of this machine that QEMU forwards to the guest's SSH server."""

    listen: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Disk:
    """A raw file as a disk; the guest finds it by its serial number (at most 20 characters, VIRTIO_BLK_ID_BYTES)."""

    file: str
    serial: str


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """A virtual machine. `id` is its UUID.

    `image` is a folder with kernel, initial file system and root file system; of a cloud image, with a disk that has a boot loader.
    """

    stack: str
    name: str
    id: str
    image: str
    acceleration: str
    cpus: int
    memory_mib: int
    interfaces: tuple[Interface, ...]
    forwards: tuple[Forward, ...] = ()
    disks: tuple[Disk, ...] = ()
    credentials: tuple[str, ...] = ()
    """Names of the files in the folder `credentials`."""
    kernel_options: str = field(default="")
    cloud_image: bool = False
    """Whether the machine boots from its disk, is configured by cloud-init, and has a route to other networks through QEMU."""

    def write(self, folder: Path) -> None:
        """Write the description into the machine's folder."""
        write_atomic(folder / FILE, json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n", mode=0o600)


def read(folder: Path) -> MachineSpec | None:
    """Return the machine of a folder, None if there is none. Raises InputError for a file of another version."""
    try:
        data = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}", path=str(folder / FILE), hint="remove the folder; `up` creates the machine again"
        ) from None
    if data.pop("schema", None) != SCHEMA:
        raise InputError("was written by another version", path=str(folder / FILE), hint="run `rackwright down` with that version")
    return _parse(data)


def _parse(data: Mapping[str, Any]) -> MachineSpec:
    lists = {"interfaces": Interface, "forwards": Forward, "disks": Disk}
    parts = {name: tuple(kind(**row) for row in data[name]) for name, kind in lists.items()}
    return MachineSpec(**{**data, **parts, "credentials": tuple(data["credentials"])})
