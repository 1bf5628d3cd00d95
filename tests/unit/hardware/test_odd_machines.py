"""Processors, links, disks and mounts of machines unlike the usual server."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from rackwright.checks.hardware.commands import MOUNTS
from rackwright.checks.hardware.parsers import parse_cpus, parse_disks, parse_interfaces, parse_mounts


def lscpu(*rows, **more):
    return json.dumps({"lscpu": [{"field": f"{name}:", "data": data} for name, data in rows] + [None, *more.get("blocks", ())]})


def block(model, threads, cores):
    below = [("Thread(s) per core", threads), ("Core(s) per socket", cores), ("Socket(s)", "1")]
    return {"field": "Model name:", "data": model, "children": [{"field": f"{name}:", "data": data} for name, data in below]}


SHAPE = (("Thread(s) per core", "2"), ("Core(s) per socket", "32"), ("Socket(s)", "2"))
CPUS = {
    "offline": (
        lscpu(("CPU(s)", "128"), ("On-line CPU(s) list", "0-63"), ("Off-line CPU(s) list", "64-127"), ("Model name", "Xeon"), *SHAPE),
        ("Xeon", 64, 2, 32, 2),
    ),
    "offline-with-gaps": (
        lscpu(("CPU(s)", "8"), ("On-line CPU(s) list", "0,2-4,7"), ("Model name", "EPYC")),
        ("EPYC", 5, None, None, None),
    ),
    "two-types-of-cores": (
        lscpu(("CPU(s)", "20"), ("On-line CPU(s) list", "0-19"), blocks=[block("Cortex-X925", "1", "10"), block("Cortex-A725", "1", "10")]),
        ("Cortex-X925 + Cortex-A725", 20, None, None, 1),
    ),
    "two-types-with-other-threads": (
        lscpu(("CPU(s)", "20"), blocks=[block("P", "2", "6"), block("E", "1", "8")]),
        ("P + E", 20, None, None, None),
    ),
    "unknown-arm-core": (
        lscpu(("CPU(s)", "144"), ("Vendor ID", "ARM"), ("Model name", "-"), ("BIOS Model name", "Grace  A02"), ("Socket(s)", "-")),
        ("Grace A02", 144, None, None, None),
    ),
    "no-model": (lscpu(("CPU(s)", "4"), ("Vendor ID", "ARM")), ("ARM", 4, None, None, None)),
    "numbers-instead-of-text": (lscpu(("CPU(s)", 4), ("Model name", None), ("Socket(s)", 1)), ("unnamed", 4, 1, None, None)),
    "warning-before": ("lscpu: failed to read the table\n" + lscpu(("CPU(s)", "4"), ("Model name", "x")), ("x", 4, None, None, None)),
}


@pytest.mark.parametrize("case", CPUS)
def test_cpus_that_are_on_line_are_counted(case):
    text, expected = CPUS[case]
    found = parse_cpus(text)
    assert (found.model, found.total, found.sockets, found.cores_per_socket, found.threads_per_core) == expected


@pytest.mark.parametrize("line", ["tun0|unknown||65534||||", "sit0|unknown||776||||", "hsi0|unknown||32||||", "eth1|lowerlayerdown||1||||"])
def test_link_without_carrier_is_read(line):
    found = parse_interfaces(f"lo|unknown||772||||\n{line}\n")
    assert ([one.name for one in found], found.why) == ([line.split("|")[0]], "")


@pytest.mark.parametrize("speed", ["", "-1", "0", "4294967295", "2147483647"])
def test_unknown_speed_is_no_rate(speed):
    (found,) = parse_interfaces(f"lo|unknown||772||||\neth0|up|{speed}|1|igb|0|02:00:00:00:00:01|0000:01:00.0\n")
    assert found.rate_gbps is None


DISK = {"name": "sda", "type": "disk", "size": 1000, "model": "X", "rota": False, "tran": "sata"}
DISKS = {
    "multipath": ([{**DISK, "name": "dm-0", "type": "mpath"}, DISK], ["sda"]),
    "compressed-memory": ([{**DISK, "name": "zram0", "model": None, "tran": None}, DISK], ["sda"]),
    "loop": ([{**DISK, "name": "loop0", "type": "loop"}, DISK], ["sda"]),
    "no-transport": ([{key: value for key, value in DISK.items() if key != "tran"}], ["sda"]),
    "path-of-multipath-nvme": ([{**DISK, "name": "nvme0c0n1", "size": 0}, {**DISK, "name": "nvme0n1"}], ["nvme0n1"]),
    "network-block-device": ([{**DISK, "name": "nbd0"}], []),
}


@pytest.mark.parametrize("case", DISKS)
def test_disks_are_those_of_the_machine(case):
    rows, names = DISKS[case]
    found = parse_disks(json.dumps({"blockdevices": rows}) + "\nend|\n")
    assert ([one.name for one in found], found.why) == (names, "")


FORMS = {
    "blank-in-source": ("storage0:/my share nfs4 100 50 /data", ("storage0:/my share", "/data")),
    "blank-in-mount-point": ("/dev/sdb1 xfs 100 50 /data/two words", ("/dev/sdb1", "/data/two words")),
    "number-in-mount-point": ("/dev/sdb1 xfs 100 50 /data/7 8", ("/dev/sdb1", "/data/7 8")),
    "two-servers-of-lustre": (
        "10.1.0.1@o2ib,10.2.0.1@o2ib:10.1.0.2@o2ib:/fs lustre 100 50 /l",
        ("10.1.0.1@o2ib,10.2.0.1@o2ib:10.1.0.2@o2ib:/fs", "/l"),
    ),
    "server-of-ipv6": ("[fd00::1]:/x nfs4 100 50 /x", ("[fd00::1]:/x", "/x")),
    "reserve-used": ("/dev/sdb1 ext4 100 -5 /full", ("/dev/sdb1", "/full")),
}
TABLE = "Filesystem Type 1B-blocks Avail Mounted on\n/dev/sda2 ext4 1000 500 /\n"


@pytest.mark.parametrize("case", FORMS)
def test_mounts_with_odd_names_are_read(case):
    line, expected = FORMS[case]
    found = parse_mounts(f"df: /run/user/1000/doc: Operation not permitted\n{TABLE}{line}\n")
    assert ([(one.source, one.point) for one in found[1:]], found.why) == ([expected], "")


@pytest.mark.parametrize(
    "line",
    [
        "df: /mnt/x: Stale file handle",
        "df: /mnt/x: Transport endpoint is not connected",
        "df: /mnt/x: Host is down",
        "df: /mnt/x: no answer within 4 s",
    ],
)
def test_mount_that_does_not_respond_is_quoted(line):
    found = parse_mounts(f"{TABLE}{line}\nstorage0:/a nfs4 100 50 /a\n")
    assert ([one.point for one in found], found.why) == (["/", "/a"], line)


def test_mount_listed_twice_is_one():
    assert [one.point for one in parse_mounts(f"{TABLE}x fuse 100 50 /x\nx fuse 100 50 /x\n")] == ["/", "/x"]


STAND_IN = """#!/bin/sh
for last; do :; done
case $last in
    /mnt/hangs) exec sleep 60;;
    /mnt/stale) echo "df: /mnt/stale: Stale file handle" >&2; exit 1;;
    "/mnt/two words") echo "Filesystem Type 1B-blocks Avail Mounted on"; echo "storage0:/b nfs4 100 50 /mnt/two words";;
    *) echo "Filesystem Type 1B-blocks Avail Mounted on"; echo "/dev/sda2 ext4 1000 500 /";;
esac
"""


def test_server_that_hangs_holds_no_other_mount(tmp_path):
    """The program is run with a stand-in for df and for the mount table."""
    (tmp_path / "df").write_text(STAND_IN)
    (tmp_path / "df").chmod(0o755)
    rows = ("/mnt/hangs - nfs4 storage0:/a", "/mnt/stale - fuse.mfs mfs#storage0:9421", r"/mnt/two\040words - lustre 10.0.0.1@o2ib:/b")
    (tmp_path / "mountinfo").write_text("".join(f"29 1 0:52 / {row.replace(' - ', ' rw - ', 1)} rw\n" for row in rows))
    command = MOUNTS.command.replace("/proc/self/mountinfo", str(tmp_path / "mountinfo")).replace("LIMIT = 4 *", "LIMIT = 1 *")
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True, env=environment, timeout=20)
    found = parse_mounts(done.stdout)
    assert [one.point for one in found] == ["/", "/mnt/two words"]
    assert found.why == "df: /mnt/hangs: no answer within 1 s; df: /mnt/stale: Stale file handle"


def test_mount_without_free_space_is_quoted():
    found = parse_mounts(f"{TABLE}tank/x zfs 100 - /tank\n")
    assert len(found) == 1 and "tank/x" in found.why
