"""Existing file systems as the kernel shows them, and the access of a user.

The lines of mountinfo follow recorded mounts: NFS 3 over IPv4 and IPv6, NFS 4 with nconnect, and Lustre 2.15 over TCP.
"""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.catalog.checks import Feature
from rackwright.checks.cluster import test_storage
from rackwright.checks.cluster.probes import existing_storage
from rackwright.checks.cluster.probes.existing_storage import ACCESS, parse_access
from rackwright.checks.cluster.probes.storage import MOUNTS, ROOTS, TRANSPORTS
from rackwright.inventory import features
from rackwright.report.verdict import Verdict

NODE = SimpleNamespace(name="worker0")
ROOT_LINE = "29 1 259:2 / / rw - ext4 /dev/sda1 rw\n"
NFS4 = (
    "vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,nconnect=8,timeo=600,retrans=2,sec=sys,"
    "clientaddr=10.0.0.9,local_lock=none"
)
NFS3 = (
    "vers=3,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp6,timeo=600,retrans=2,sec=sys,"
    "mountaddr=2001:db8::7,mountvers=3,mountport=635,mountproto=tcp6,local_lock=none,addr=2001:db8::7"
)
LUSTRE = "checksum,flock,nouser_xattr,lruresize,lazystatfs,nouser_fid2path,verbose,encrypt"


def existing(kind, source, **more):
    how = {"read_only": False, "user_folder": "", "version": "4.2", "sec": "sys", "flock": None} | more.pop("how", {})
    record = {"kind": kind, "source": source, "mount": "/mnt/data", "servers": [], "clients": ["worker0"], "folder": None}
    return SimpleNamespace(
        **{**record, "mode": None, "size_mib": None, "rdma": False, "nconnect": 8, **more}, existing=SimpleNamespace(**how)
    )


HOME = existing("existing-nfs", "nas.example.org:/export/home")
IMAGES = existing("existing-nfs", "[2001:db8::7]:/images", nconnect=1, how={"version": "3", "read_only": True})
SCRATCH = existing(
    "existing-lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch", nconnect=None, how={"version": None, "sec": None, "flock": True}
)
UNLOCKED = existing("existing-lustre", "mgs1@tcp:/fs/a", nconnect=None, how={"version": None, "sec": None, "flock": False})


def line(kind, source, options, own="rw,nosuid,nodev,noatime"):
    super_options = "ro" if own.startswith("ro") else "rw"
    return f"{ROOT_LINE}66 29 0:52 / /mnt/data {own} shared:3 - {kind} {source} {super_options},{options}\n"


GOOD = {
    "nfs": (HOME, line("nfs4", "nas.example.org:/export/home", NFS4)),
    "nfs-3-read-only": (IMAGES, line("nfs", "[2001:db8::7]:/images", NFS3, "ro,nosuid,nodev,noatime")),
    "nfs-3-read-only-beside-a-writable-mount": (
        IMAGES,
        line("nfs", "[2001:db8::7]:/images", NFS3, "ro,nosuid,nodev,noatime").replace(" ro,vers", " rw,vers"),
    ),
    "nfs-with-slash-and-capitals": (HOME, line("nfs4", "NAS.example.org:/export/home/", NFS4)),
    "lustre": (SCRATCH, line("lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch", LUSTRE)),
    "lustre-by-name": (UNLOCKED, line("lustre", "10.0.0.7@tcp:/fs/a", LUSTRE.replace("flock,", ""))),
}


def verdicts(one, mounts):
    given = {"node": NODE, "cluster": SimpleNamespace(storage=[one])}
    checks = (test_storage.test_is_mounted, test_storage.test_options_match_plan)
    return "".join(verdict_of(check, answers_of({MOUNTS: mounts}), **given)[0].value[0] for check in checks)


@each_row("case", GOOD)
def test_planned_mount_passes(case):
    assert verdicts(*GOOD[case]) == "pp"


BAD = {
    "other-server": (HOME, ("nas.example.org", "nas2.example.org"), "fu"),
    "other-folder": (HOME, ("/export/home ", "/export/home2 "), "fu"),
    "folder-below": (HOME, ("/export/home ", "/export/home/alice "), "fu"),
    "older-version": (HOME, ("nfs4 nas", "nfs nas"), "fu"),
    "other-minor-version": (HOME, ("vers=4.2", "vers=4.1"), "pf"),
    "soft": (HOME, ("hard", "soft"), "pf"),
    "other-flavour": (HOME, ("sec=sys", "sec=krb5"), "pf"),
    "fewer-connections": (HOME, ("nconnect=8", "nconnect=2"), "pf"),
    "read-only": (HOME, ("rw,nosuid", "ro,nosuid"), "pf"),
    "setuid-programs": (HOME, ("nosuid,", ""), "pf"),
    "writable": (IMAGES, ("ro,", "rw,"), "pf"),
    "other-management-server": (SCRATCH, ("10.0.0.2@o2ib", "10.0.0.3@o2ib"), "fu"),
    "other-network": (SCRATCH, ("10.0.0.2@o2ib", "10.0.0.2@o2ib1"), "fu"),
    "one-management-server": (SCRATCH, (":10.0.0.2@o2ib", ""), "fu"),
    "other-name": (SCRATCH, (":/scratch", ":/scratch2"), "fu"),
    "no-locks": (SCRATCH, ("flock,", ""), "pf"),
    "locks-of-one-node": (SCRATCH, ("flock,", "localflock,"), "pf"),
    "locks": (UNLOCKED, (" rw,checksum", " rw,flock,checksum"), "pf"),
}
LINES = {
    id(HOME): GOOD["nfs"][1],
    id(IMAGES): GOOD["nfs-3-read-only"][1],
    id(SCRATCH): GOOD["lustre"][1],
    id(UNLOCKED): GOOD["lustre-by-name"][1],
}


@each_row("case", BAD)
def test_other_mount_fails(case):
    one, (old, new), expected = BAD[case]
    assert old in LINES[id(one)]
    assert verdicts(one, LINES[id(one)].replace(old, new)) == expected


def test_missing_mount_fails():
    assert verdicts(HOME, ROOT_LINE) == "fu"


STATS = (
    "device [2001:db8::7]:/images mounted on /mnt/data with fstype nfs statvers=1.1\n\topts:\tro,vers=3,hard,proto=tcp6,sec=sys\n"
    "\txprt:\ttcp 0 0 2 0 12 23 23 0 23 0 2 0 0\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(STATS, Verdict.PASSED), (STATS.replace("xprt:\ttcp", "xprt:\trdma"), Verdict.FAILED), ("device x\n", Verdict.UNKNOWN)],
)
def test_transport_over_ipv6_is_tcp(text, expected):
    given = {"node": NODE, "cluster": SimpleNamespace(storage=[IMAGES])}
    assert verdict_of(test_storage.test_nfs_transport_matches_plan, answers_of({TRANSPORTS: text}), **given)[0] is expected


def access(one, text, mounts=None):
    answers = answers_of({MOUNTS: mounts or LINES[id(one)], ACCESS: text})
    return verdict_of(test_storage.test_users_have_access, answers, node=NODE, cluster=SimpleNamespace(storage=[one]))


@pytest.mark.parametrize(
    ("one", "text", "expected", "words"),
    [
        (HOME, "/mnt/data|/mnt/data|writable|256|1048576|77|99\n", Verdict.PASSED, ""),
        (HOME, "/mnt/data|/mnt/data|writable|256|1048576|0|0\n", Verdict.PASSED, ""),
        (HOME, "/mnt/data|/mnt/data|writable||||\n", Verdict.PASSED, ""),
        (HOME, "/mnt/data|/mnt/data|writable|0|1048576|0|99\n", Verdict.PASSED, ""),
        (HOME, "/mnt/data|/mnt/data|readable|256|1048576|77|99\n", Verdict.FAILED, "/mnt/data: readable"),
        (HOME, "/mnt/data|/mnt/data/a|Permission denied||||\n", Verdict.FAILED, "/mnt/data/a: Permission denied"),
        (HOME, "/mnt/data|/mnt/data|Stale file handle||||\n", Verdict.FAILED, "Stale file handle"),
        (HOME, "/mnt/data|/mnt/data|no answer within 5 s||||\n", Verdict.UNKNOWN, "no answer within 5 s"),
        (HOME, "nothing\n", Verdict.UNKNOWN, "not queried"),
        (IMAGES, "/mnt/data|/mnt/data|readable|0|1|0|0\n", Verdict.PASSED, ""),
        (IMAGES, "/mnt/data|/mnt/data|not readable|0|1|0|0\n", Verdict.FAILED, "not readable"),
    ],
)
def test_access_of_user_is_judged(one, text, expected, words):
    verdict, why = access(one, text)
    assert (verdict, words in why) == (expected, True), why


def test_access_to_missing_mount_is_unknown():
    """The folder under the mount point belongs to the node, and proves nothing."""
    assert access(HOME, "/mnt/data|/mnt/data|writable|1|1|1|1\n", ROOT_LINE)[0] is Verdict.UNKNOWN


@pytest.mark.parametrize(("flavours", "checked"), [(["krb5"], False), (["krb5p", "sys"], True), (["sys"], True)])
def test_access_with_kerberos_is_in_no_plan(flavours, checked):
    """No check has a user's ticket: its result would say nothing about users."""
    storage = [{"kind": "existing-nfs", "existing": {"sec": flavour}} for flavour in flavours]
    declared = SimpleNamespace(cluster={"storage": storage, "users": [{"name": "alice"}]})
    assert features._of_storage(declared)[Feature.EXISTING_STORAGE] is checked


def test_size_and_mode_of_existing_storage_are_not_planned():
    answers = answers_of({MOUNTS: LINES[id(HOME)], ROOTS: "/mnt/data|root:wheel|700|1|1\n"})
    given = {"node": NODE, "cluster": SimpleNamespace(storage=[HOME]), "limit": 0.2}
    for check in (test_storage.test_root_ownership, test_storage.test_size_matches_plan):
        assert verdict_of(check, answers, **given)[0] is Verdict.PASSED


def run(folder, user_folder="", **environment):
    """Return what the probe's command prints for the user of this process, with `setpriv` replaced: only root may change its user."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "setpriv").write_text('#!/bin/sh\nwhile [ "$1" != sh ]; do shift; done\nexec "$@"\n')
    (tools / "getent").write_text(f"#!/bin/sh\necho alice:x:1:1::{folder}/home/alice:/bin/sh\n")
    for name, text in environment.pop("tools", {}).items():
        (tools / name).write_text(text)
    for tool in tools.iterdir():
        tool.chmod(0o755)
    one = {"mount": str(folder / "home"), "clients": ["worker0"], "existing": {"user_folder": user_folder}}
    cluster = {"storage": [one, {"mount": "/mnt/created", "clients": ["worker0"]}], "users": [{"name": "alice", "uid": 1, "gid": 1}]}
    context = SimpleNamespace(node={"name": "worker0"}, declared=SimpleNamespace(cluster=cluster))
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    command = existing_storage._command(context)
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True, env={"PATH": path, **environment})
    return parse_access(done.stdout)[one["mount"]]


def test_command_reads_home_of_user(tmp_path):
    (tmp_path / "home" / "alice").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    found = run(tmp_path)
    assert (found.folder, found.state) == (str(tmp_path / "home" / "alice"), "writable")
    assert isinstance(found.free_mib, int) and found.free.startswith(f"{found.free_mib} MiB free")
    assert [path for path in sorted(tmp_path.rglob("*")) if "tools" not in str(path)] == before


def test_command_reports_missing_folder(tmp_path):
    (tmp_path / "home").mkdir()
    found = run(tmp_path, "projects/a")
    assert (found.folder, found.state, found.free) == (str(tmp_path / "home/projects/a"), "No such file or directory", "free space unknown")


def test_command_ends_when_server_hangs(tmp_path):
    """A process that the server holds ends with its group: timeout(1) kills it a second after the limit."""
    (tmp_path / "home").mkdir()
    found = run(tmp_path, tools={"setpriv": "#!/bin/sh\ntrap '' TERM\nsleep 60 & wait; wait\n"})
    assert "no answer within 5 s" in str(found.state)
