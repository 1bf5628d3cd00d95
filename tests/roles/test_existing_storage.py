"""Clients of existing file systems: the install steps that need something of the site, and the causes of failed mounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import HERE

ROLES = HERE.parents[1] / "roles"
NODE = {"name": "node0", "os": "rocky-9"}
LUSTRE = {"kind": "existing-lustre", "source": "10.0.0.1@o2ib:/scratch"}

# Texts of nfs-utils 2.6 (utils/mount/error.c) and Lustre 2.15 (utils/mount_lustre.c), with words of the expected hint.
TEXTS = {
    "nfs_client": {
        "mount.nfs: access denied by server while mounting nas:/export/home": "Export the folder",
        "mount.nfs: mounting nas:/export/home failed, reason given by server: No such file or directory": "Correct the folder",
        "mount.nfs: requested NFS version or transport protocol is not supported for /home": "Declare a `version`",
        "mount.nfs: Protocol not supported for nas:/export/home on /home": "Declare a `version`",
        "mount.nfs: Failed to resolve server nas: Name or service not known": "Correct the name",
        "mount.nfs: Connection timed out for nas:/export/home on /home": "TCP port 2049",
        "mount.nfs: Connection refused for nas:/export/home on /home": "NFS service runs",
        "mount.nfs: No route to host for nas:/export/home on /home": "Check the network",
        "mount.nfs: Stale file handle for nas:/export/home on /home": "umount --lazy",
        "`stat --file-system /home` did not answer within 5 s": "do not restart the mount unit",
    },
    "lustre_client": {
        "mount.lustre: mount 10.0.0.1@tcp:/fs at /mnt/fs failed: Input/output error\nIs the MGS running?": "lctl ping",
        "mount.lustre: mount 1.1.1.1@tcp:/f at /m failed: No such file or directory\nIs the MGS specification correct?": "Correct the NIDs",
        "mount.lustre: mount 10.0.0.1@tcp:/fs at /mnt/fs failed: No such device\nAre the lustre modules loaded?": "modprobe lustre",
        "mount: /mnt/fs: unknown filesystem type 'lustre'.": "Install the Lustre client",
        "`stat --file-system /mnt/fs` did not answer within 5 s": "do not restart the mount unit",
    },
}


@pytest.mark.parametrize(("role", "text", "words"), [(role, text, words) for role, texts in TEXTS.items() for text, words in texts.items()])
def test_failed_mount_has_one_hint(role: str, text: str, words: str) -> None:
    causes = yaml.safe_load((ROLES / role / "vars" / "main.yml").read_text(encoding="utf-8"))[f"_{role}_causes"]
    hints = [cause["hint"] for cause in causes if cause["said"] in text]
    assert len(hints) == 1 and words in hints[0]


def test_every_cause_has_a_text() -> None:
    for role, texts in TEXTS.items():
        causes = yaml.safe_load((ROLES / role / "vars" / "main.yml").read_text(encoding="utf-8"))[f"_{role}_causes"]
        assert all(any(cause["said"] in text for text in texts) for cause in causes)


@pytest.mark.parametrize(("tools", "good"), [({}, False), ({"mount.lustre": "exit 1"}, True)])
def test_missing_lustre_client_stops_the_run(steps: Any, tools: dict[str, str], good: bool) -> None:
    given = {"lustre_client_node": NODE, "lustre_client_filesystems": [LUSTRE], "lustre_client_preinstalled_roles": []}
    ran = steps("lustre_client", "install", variables=given, tools=tools)
    assert (ran.good, "node0: mount.lustre not found" in ran.said) == (good, not good), ran.said
    assert ran.told["Query the Lustre client of the site"] == "ok" and "changed" not in ran.told.values()


def test_missing_keytab_stops_the_run(steps: Any) -> None:
    one = {"kind": "existing-nfs", "existing": {"sec": "krb5p"}}
    given = {"nfs_client_node": NODE, "nfs_client_filesystems": [one], "nfs_client_preinstalled_roles": ["nfs_client"]}
    ran = steps("nfs_client", "install", variables=given, tools={})
    expected = Path("/etc/krb5.keytab").exists()
    assert (ran.good, "/etc/krb5.keytab not found, which `sec: krb5p` needs" in ran.said) == (expected, not expected), ran.said
