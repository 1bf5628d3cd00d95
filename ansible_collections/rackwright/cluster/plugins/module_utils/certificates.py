"""Read the control plane's certificates on this node and their expiry. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
from collections.abc import Iterator

KUBECONFIGS = ("admin.conf", "controller-manager.conf", "scheduler.conf", "super-admin.conf")


def certificates(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield the control plane's certificates with their names, from files and kubeconfigs, without CAs, which last ten years."""
    for part in ("pki", "pki/etcd"):
        for name in sorted(os.listdir(f"{folder}/{part}") if os.path.isdir(f"{folder}/{part}") else []):
            if name.endswith(".crt") and not name.endswith("ca.crt"):
                with open(f"{folder}/{part}/{name}", "rb") as stream:
                    yield f"{part}/{name}", stream.read()
    for name in KUBECONFIGS:
        try:
            with open(f"{folder}/{name}", encoding="utf-8") as text:
                found = re.search(r"^\s*client-certificate-data: (\S+)$", text.read(), re.MULTILINE)
            if found:
                yield name, base64.b64decode(found[1])
        except (FileNotFoundError, binascii.Error):
            continue


def ends_within(certificate: bytes, days: int) -> bool:
    """Return whether a certificate expires within so many days, or is unreadable. Raise FileNotFoundError without openssl."""
    command = ["openssl", "x509", "-noout", "-checkend", str(days * 86400)]
    return subprocess.run(command, input=certificate, capture_output=True, check=False).returncode != 0
