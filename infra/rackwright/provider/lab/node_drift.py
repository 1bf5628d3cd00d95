"""Changes to a lab node from outside: another container under its name, another network, another host key; and their repair."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Final

from rackwright.drivers.podman import Container, run_checked
from rackwright.errors import RackwrightError
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import RecordedState

REPLACED: Final = "replaced"
"""Status of a container that rackwright did not create: one from another image, under the node's name."""
BROUGHT_BACK: Final = ("network", "address", "host_public_key")
"""Properties that are fixed at creation, but can be restored."""
KEY_FILE: Final = "/etc/ssh/ssh_host_ed25519_key"
_MAGIC: Final = b"openssh-key-v1\0"
_WRITE: Final = 'umask 077 && cat >"$1" && echo "$2" >"$1.pub" && systemctl reload-or-restart sshd.service'
"""A reload keeps the server's invocation id, from which the phases derive the configuration that it was started with."""


def replaced(found: Container, state: RecordedState) -> bool:
    """Return whether the container under the node's name has another image and another id than the recorded one."""
    ours = str(state.outputs.get("instance_uid", "")).startswith(found.short_id)
    return not ours and found.image != state.outputs.get("image")


def read_live_properties(found: Container, state: RecordedState) -> Properties:
    """Return network, address and host key of a running node where they differ from those of its creation."""
    if not found.running:
        return {}
    made = {name: state.outputs.get(name) for name in BROUGHT_BACK}
    live = {**_place(found, str(made["network"])), **_key(found, str(made["host_public_key"]))}
    return {name: live.get(name, was) for name, was in made.items() if was is not None}


def _place(found: Container, network: str) -> Properties:
    """Return (network, address); the node's own network and address if it is attached to that network only."""
    if network in found.networks and len(found.networks) == 1:
        return {"address": found.networks[network]}
    return {"network": ", ".join(sorted(found.networks)) or "none", "address": found.networks.get(network, "none")}


def _key(found: Container, wanted: str) -> Properties:
    """Return the public half of the host key that sshd uses after its next start, where it is not the wanted one.

    If this user cannot read the container's files, only the check `sshd.host_key_matches_pinned_key` detects the difference.
    """
    file = _files(found) / KEY_FILE.lstrip("/")
    try:
        shown = public_half(file.read_text(encoding="ascii")) if file.is_file() else "none"
    except PermissionError:
        return {}
    except (OSError, ValueError):
        shown = "none"
    return {} if shown.split() == wanted.split()[:2] else {"host_public_key": shown}


def _files(found: Container) -> Path:
    """Return the path of a running container's files on this machine."""
    return Path(f"/proc/{found.pid}/root")


def public_half(private: str) -> str:
    """Return the public half of a private key in OpenSSH's format. Raise ValueError for any other text.

    The file begins with the public half in clear text (PROTOCOL.key of OpenSSH): cipher, kdf, kdf options, number of keys, public key.
    """
    lines = private.split("-----")
    if len(lines) < 3 or "OPENSSH PRIVATE KEY" not in lines[1]:
        raise ValueError("no private key of OpenSSH")
    blob = base64.b64decode(lines[2], validate=False)
    if not blob.startswith(_MAGIC):
        raise ValueError("no private key of OpenSSH")
    try:
        at = len(_MAGIC)
        for _ in range(3):
            at = _word(blob, at)[1]
        public, _ = _word(blob, at + 4)
        kind, _ = _word(public, 0)
    except struct.error as error:
        raise ValueError("a truncated private key") from error
    return f"{kind.decode('ascii')} {base64.b64encode(public).decode('ascii')}"


def _word(blob: bytes, at: int) -> tuple[bytes, int]:
    """Return a length-prefixed string and the offset after it."""
    (length,) = struct.unpack_from(">I", blob, at)
    if at + 4 + length > len(blob):
        raise ValueError("a truncated private key")
    return blob[at + 4 : at + 4 + length], at + 4 + length


async def restore(found: Container, wanted: Properties) -> None:
    """Restore the network, address and host key of a running node."""
    name = wanted["name"]
    if found.networks != {wanted["network"]: wanted["address"]}:
        for network in found.networks:
            await run_checked("network", "disconnect", "--force", network, name)
        place = ("--ip", wanted["address"], "--mac-address", wanted["mac"])
        await run_checked("network", "connect", *place, wanted["network"], name)
    if _key(found, wanted["host_public_key"]):
        await _write_key(name, wanted["host_key"], wanted["host_public_key"])


async def _write_key(name: str, key: str, public: str) -> None:
    try:
        await run_checked("exec", "--interactive", name, "sh", "-c", _WRITE, "sh", KEY_FILE, public, stdin=key.encode())
    except RackwrightError as error:
        raise RackwrightError(f"{name}: its host key could not be restored: {error.cause}", hint=error.hint) from None
