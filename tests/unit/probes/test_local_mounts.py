"""Mounts. A local file system that became read-only after an error is found; storage is recognized under each name of its server."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node, test_storage
from rackwright.checks.cluster.probes.storage import LOCAL_MOUNTS, MOUNTS, ROOTS, is_there, parse_local_mounts, parse_mounts
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
GOOD = (Path(__file__).parents[1] / "captured" / "local-mounts" / "good.txt").read_text(encoding="utf-8")
ROOT = "29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro"
SCRATCH = "66 29 259:5 / /scratch rw,noatime shared:35 - xfs /dev/nvme1n1 rw,attr2"
EFI = "61 29 259:1 / /boot/efi rw,relatime shared:31 - vfat /dev/nvme0n1p1 rw,"
NODES = {
    "writable": (GOOD, PASSED, ""),
    "root-after-error": (GOOD.replace(ROOT, ROOT.replace("p2 rw", "p2 ro")), FAILED, "/: read-only after an error"),
    "root-without-shared": (GOOD.replace(ROOT, ROOT.replace(" shared:1", "").replace("p2 rw", "p2 ro")), FAILED, "/: read-only after"),
    "emergency-of-newer-kernel": (GOOD.replace(ROOT, f"{ROOT},emergency_ro"), FAILED, "/: refuses writes after an error"),
    "shut-down-ext4": (GOOD.replace(ROOT, f"{ROOT},shutdown"), FAILED, "/: refuses writes after an error"),
    "vfat-after-error": (GOOD.replace(EFI, EFI.replace("p1 rw", "p1 ro")), FAILED, "/boot/efi: read-only after an error"),
    "btrfs-after-error": (GOOD.replace(ROOT, "29 1 0:31 /@ / rw shared:1 - btrfs /dev/sda2 ro,subvol=/@"), FAILED, "/: read-only after"),
    "xfs-shut-down": (GOOD.replace("end\n", "xfs /scratch|Input/output error\nend\n"), FAILED, "/scratch: xfs: Input/output error"),
    "booted-read-only": (
        GOOD.replace(ROOT, ROOT.replace("rw", "ro")), FAILED, "/: read-only, and writable in /etc/fstab",
    ),
    "read-only-in-fstab": (
        GOOD.replace(SCRATCH, SCRATCH.replace("rw", "ro")).replace("xfs noatime,nofail", "xfs ro,nofail"), PASSED, "",
    ),
    "read-only-by-hand-without-fstab": (GOOD.replace(SCRATCH, SCRATCH.replace("rw", "ro").replace("/scratch", "/data")), PASSED, ""),
    "noauto-mounted-read-only": (
        GOOD.replace(SCRATCH, SCRATCH.replace("rw", "ro")).replace("xfs noatime,nofail", "xfs noauto"), PASSED, "",
    ),
    "read-only-subvolume": (
        GOOD.replace("end\n", "end\n").replace(SCRATCH, "66 29 0:31 /snap /scratch ro - btrfs /dev/sdb rw,subvol=/snap")
        .replace("/scratch xfs", "/other xfs"), PASSED, "",
    ),
    "read-only-bind-mount": (
        GOOD.replace("fstab UUID=5e", "70 29 259:2 /etc /srv/etc ro,relatime - ext4 /dev/nvme0n1p2 rw\nfstab UUID=5e"), PASSED, "",
    ),
    "image-without-upper-layer": (
        GOOD.replace("fstab UUID=5e", "71 29 0:60 / /run/image rw,relatime - overlay overlay ro,lowerdir=/a:/b\nfstab UUID=5e"), PASSED, "",
    ),
    "nfs-read-only": (GOOD.replace("data rw,vers", "data ro,vers"), PASSED, ""),
    "blank-in-mount-point": (
        GOOD.replace(SCRATCH, "66 29 259:5 / /my\\040data rw - ext4 /dev/sdb ro"), FAILED, "/my data: read-only after an error",
    ),
    "device-mounted-twice": (
        GOOD.replace(ROOT, ROOT.replace("p2 rw", "p2 ro"))
        .replace("fstab UUID=5e", "72 29 259:2 /var /srv/var rw - ext4 /dev/nvme0n1p2 ro\nfstab UUID=5e"),
        FAILED, "expected /: none, found /: read-only after an error",
    ),
    "stacked-mounts": (GOOD.replace(ROOT, f"{ROOT.replace('p2 rw', 'p2 ro')}\n{ROOT}"), PASSED, ""),
    "line-ends-of-dos": (GOOD.replace("\n", "\r\n"), PASSED, ""),
    "damaged-line": (GOOD.replace(SCRATCH, SCRATCH.replace("259:5", "?")), UNKNOWN, "/scratch"),
    "damaged-line-and-read-only": (
        GOOD.replace(SCRATCH, SCRATCH.replace("259:5", "?")).replace(ROOT, ROOT.replace("p2 rw", "p2 ro")), FAILED, "/: read-only",
    ),
    "cut-short": (GOOD.removesuffix("end\n"), UNKNOWN, "cut short"),
    "no-output": ("", UNKNOWN, "no root file system"),
}  # fmt: skip


@each_row("case", NODES)
def test_local_file_systems_are_judged(case):
    text, expected, said = NODES[case]
    found, why = verdict_of(test_node.test_local_file_systems_writable, answers_of({LOCAL_MOUNTS: text}))
    assert (found, said in why) == (expected, True), why


def test_command_reads_this_machine():
    """The command ends with status 0 and its output is complete, whatever is mounted."""
    done = subprocess.run(["/bin/sh", "-c", LOCAL_MOUNTS.command], capture_output=True, text=True, check=True)
    assert "/" in {line.split(" ")[4] for line in done.stdout.splitlines() if line[:1].isdigit()}
    assert not parse_local_mounts(done.stdout).unread


NFS = SimpleNamespace(kind="nfs", mount="/mnt/data", servers=["storage0"], folder="/srv/rackwright/data")
MFS = SimpleNamespace(kind="moosefs", mount="/mnt/data", servers=["storage0"], folder="/srv/rackwright")
FSX = SimpleNamespace(kind="fsx-lustre", mount="/mnt/data", servers=[], folder=None)
SOURCES = {
    "nfs": (NFS, "/", "nfs4", "storage0:/srv/rackwright/data", True),
    "nfs-with-domain": (NFS, "/", "nfs4", "storage0.cluster.example:/srv/rackwright/data", True),
    "nfs-in-capitals": (NFS, "/", "nfs4", "STORAGE0:/srv/rackwright/data", True),
    "nfs-by-address": (NFS, "/", "nfs4", "10.77.0.40:/srv/rackwright/data", True),
    "nfs-with-slash": (NFS, "/", "nfs4", "storage0:/srv/rackwright/data/", True),
    "nfs-of-other-server": (NFS, "/", "nfs4", "storage1:/srv/rackwright/data", False),
    "nfs-of-longer-name": (NFS, "/", "nfs4", "storage01:/srv/rackwright/data", False),
    "nfs-by-other-address": (NFS, "/", "nfs4", "10.77.0.41:/srv/rackwright/data", False),
    "nfs-of-other-ipv6-server": (NFS, "/", "nfs4", "[fd00::7]:/srv/rackwright/data", False),
    "nfs-other-folder": (NFS, "/", "nfs4", "storage0:/srv/rackwright/data2", False),
    "nfs-of-version-3": (NFS, "/", "nfs", "storage0:/srv/rackwright/data", False),
    "nfs-bind-of-folder": (NFS, "/alice", "nfs4", "storage0:/srv/rackwright/data", False),
    "not-mounted-yet": (NFS, "/", "autofs", "systemd-1", False),
    "moosefs": (MFS, "/", "fuse.mfs", "mfs#storage0:9421", True),
    "moosefs-with-domain": (MFS, "/", "fuse", "mfs\\043storage0.cluster.example:9421", True),
    "moosefs-of-other-server": (MFS, "/", "fuse.mfs", "mfs#storage1:9421", False),
    "moosefs-bind-of-folder": (MFS, "/alice", "fuse.mfs", "mfs#storage0:9421", False),
    "lustre-of-several-servers": (FSX, "/", "lustre", "10.1.0.1@tcp,10.2.0.1@tcp1:10.1.0.2@tcp:/fsx", True),
    "lustre-by-alias": (FSX, "/", "lustre", "fs-0a1b.fsx.eu-west-1.amazonaws.com@tcp:/abcd", True),
    "lustre-missing": (FSX, "/", "xfs", "/dev/nvme1n1", False),
}


@each_row("case", SOURCES)
def test_planned_storage_is_recognized(case):
    one, root, kind, source, expected = SOURCES[case]
    text = f"29 1 259:2 / / rw - ext4 /dev/sda1 rw\n66 29 0:52 {root} /mnt/data rw shared:3 - {kind} {source} rw,hard\n"
    assert is_there(parse_mounts(text), one, "worker0", {"storage0": "10.77.0.40", "storage1": "10.77.0.41"}) is expected


def storage(name, **more):
    """Return an NFS file system of the plan."""
    shared = {
        "kind": "nfs",
        "servers": ["storage0"],
        "clients": ["worker0"],
        "mode": "1777",
        "size_mib": 1000,
        "rdma": False,
        "nconnect": 8,
    }
    return SimpleNamespace(**{**shared, "mount": f"/mnt/{name}", "folder": f"/srv/rackwright/{name}", **more})


def mounted(name, options="rw,nosuid,nodev,noatime"):
    more = "rw,vers=4.2,hard,proto=tcp,nconnect=8"
    return f"66 29 0:52 / /mnt/{name} {options} shared:3 - nfs4 storage0:/srv/rackwright/{name} {more}\n"


ROOT_LINE = "29 1 259:2 / / rw - ext4 /dev/sda1 rw\n"
TWO = {
    "both": (mounted("a") + mounted("b"), "/mnt/a|root:root|1777|1000|1048576\n/mnt/b|root:root|1777|1000|1048576\n", "ppp"),
    "one-read-only-one-missing": (mounted("a", "ro,nosuid,nodev,noatime"), "/mnt/a|root:root|1777|1000|1048576\n", "fuu"),
    "one-of-wrong-mode-one-missing": (mounted("a"), "/mnt/a|root:root|755|1000|1048576\n", "ufu"),
    "one-small-one-missing": (mounted("a"), "/mnt/a|root:root|1777|500|1048576\n", "uuf"),
    "one-not-listed": (mounted("a") + mounted("b"), "/mnt/a|root:root|1777|500|1048576\n", "puf"),
    "one-line-damaged": (mounted("a") + mounted("b"), "/mnt/a|root:root|1777|500|1048576\n/mnt/b|root\n", "puf"),
    "none": ("", "/mnt/a|root:root|755|1|1\n", "uuu"),
}


@pytest.mark.parametrize("case", TWO)
def test_file_system_is_judged_beside_a_missing_one(case):
    mounts, roots, expected = TWO[case]
    given = {"node": SimpleNamespace(name="worker0"), "cluster": SimpleNamespace(storage=[storage("a"), storage("b")]), "limit": 0.2}
    answers = answers_of({MOUNTS: ROOT_LINE + mounts, ROOTS: roots})
    checks = (test_storage.test_options_match_plan, test_storage.test_root_ownership, test_storage.test_size_matches_plan)
    assert "".join(verdict_of(check, answers, **given)[0].value[0] for check in checks) == expected
