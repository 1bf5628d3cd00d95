"""Operating systems as their releases and vendors differ: names, kernels, units, routes and file systems of one node."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.probes.identity import IDENTITY, INODES, NETWORK, SPACE, SYSTEM, parse_df, parse_network, parse_threads
from rackwright.checks.cluster.probes.kernels import REBOOT, build_of, flavour_of
from rackwright.os_release import os_name, read_os_release
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def judge(check, probe, text, **given):
    return verdict_of(check, answers_of({probe: text}), **given)[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('ID="almalinux"\nVERSION_ID="10.0"', "almalinux-10"),
        ('ID="rhel"\nVERSION_ID="8.10"', "rhel-8"),
        ('ID="ol"\nVERSION_ID="9.4"', "ol-9"),
        ('ID="miraclelinux"\nVERSION_ID="9.2"', "miraclelinux-9"),
        ('ID="centos"\nVERSION_ID="9"', "centos-9"),
        ('ID="amzn"\nVERSION_ID="2023"', "amzn-2023"),
        ('ID="sles"\nVERSION_ID="15.6"', "sles-15.6"),
        ("ID='rocky'\r\nVERSION_ID='9.5'\r\n", "rocky-9"),
        ("ID=ubuntu # by the vendor\nVERSION_ID=24.04", "ubuntu-24.04"),
        ('# a comment\n\n ID=debian\nVERSION_ID="13"', "debian-13"),
        ("ID=debian\nVERSION_CODENAME=sid", "debian-sid"),
        ('ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"', "debian-sid"),
        ("ID=arch\nBUILD_ID=rolling", "arch"),
    ],
)
def test_os_name_matches_stack_files(text, name):
    assert os_name(read_os_release(text)) == name


@pytest.mark.parametrize("text", ["", "VERSION_ID=13", 'ID=""', "ID=debian\nVERSION_ID=", 'ID=debian\nVERSION_ID="1 3"'])
def test_os_name_refuses_broken_values(text):
    with pytest.raises(ValueError):
        os_name(read_os_release(text))


NODE = 'hostname=w0\nmachine_id={}\nzone={}\nID=debian\nVERSION_ID="13"\n'


@pytest.mark.parametrize(
    ("zone", "verdict"),
    [
        ("../usr/share/zoneinfo/Asia/Calcutta", PASSED),
        ("/usr/share/zoneinfo/posix/Asia/Calcutta", PASSED),
        ("/usr/share/zoneinfo/Asia/Dhaka", FAILED),
        ("", UNKNOWN),
    ],
)
def test_time_zone_is_read_from_any_link(zone, verdict):
    cluster = SimpleNamespace(time_zone="Asia/Calcutta")
    assert judge(test_node.test_time_zone_matches_plan, IDENTITY, NODE.format("4f", zone), cluster=cluster) is verdict


def test_machine_id_before_first_boot_is_unknown():
    text, node = NODE.format("uninitialized", "/x/zoneinfo/UTC"), SimpleNamespace(name="w0")
    assert judge(test_node.test_machine_id_is_unique, IDENTITY, text, node=node, members=lambda _: ("w0",)) is UNKNOWN


@pytest.mark.parametrize(
    ("unit", "verdict"),
    [
        ("user@2001.service", PASSED),
        ("session-c7.scope", PASSED),
        ("run-u33.service", PASSED),
        ("run-p812-i813.service", PASSED),
        ("run-r6d2e4c0f9a8b4d4f8a7b6c5d4e3f2a1b.scope", PASSED),
        ("sshd@0-10.1.0.4:22-10.1.0.9:51514.service", PASSED),
        ("ssh@3-10.1.0.4:22-10.1.0.9:51514.service", PASSED),
        ("user-runtime-dir@2001.service", FAILED),
        ("run-media-usb.mount", FAILED),
        ("sshd@main.service", FAILED),
        ("nvidia-persistenced.service", FAILED),
    ],
)
def test_failed_unit_of_a_user_is_no_fault_of_the_node(unit, verdict):
    assert judge(test_node.test_no_failed_units, SYSTEM, f"degraded\n● {unit} loaded failed failed x\n") is verdict
    both = f"degraded\n{unit} loaded failed failed x\nmunge.service loaded failed failed y\n"
    assert judge(test_node.test_no_failed_units, SYSTEM, both) is FAILED


RELEASES = (
    ("6.1.0-41-amd64", "6.1.0-37-amd64"),
    ("6.12.57+deb13-rt-amd64", "6.12.41+deb13-rt-amd64"),
    ("6.8.0-1031-aws", "6.8.0-1029-aws"),
    ("6.14.0-10-generic", "6.8.0-63-generic"),
    ("6.8.0-1030-nvidia-64k", "6.8.0-1028-nvidia-64k"),
    ("5.14.0-570.22.1.el9_6.x86_64", "5.14.0-503.40.1.el9_5.x86_64"),
    ("5.14.0-570.22.1.el9_6.aarch64+64k", "5.14.0-503.40.1.el9_5.aarch64+64k"),
    ("4.18.0-553.22.1.rt7.363.el8_10.x86_64", "4.18.0-553.8.1.rt7.349.el8_10.x86_64"),
    ("6.1.141-155.222.amzn2023.x86_64", "6.1.128-136.201.amzn2023.x86_64"),
    ("6.12.57+bpo-amd64", "6.1.0-37-amd64"),
    ("6.1.0-0.deb11.21-amd64", "5.10.0-32-amd64"),
    ("5.15.0-310.184.5.el9uek.x86_64", "5.15.0-200.131.27.el9uek.x86_64"),
    ("6.15.4-200.fc42.x86_64", "6.15.3-200.fc42.x86_64"),
    ("6.6.64.2-1.azl3", "6.6.57.1-1.azl3"),
    ("6.4.0-150600.23.53-default", "6.4.0-150600.23.47-default"),
)


@each_row(("newer", "older"), RELEASES, ids=[newer for newer, _ in RELEASES])
def test_newer_kernel_waits_for_a_reboot(newer, older):
    assert build_of(newer) > build_of(older)
    installed = f"kernel {older}\nkernel {newer}\n"
    assert judge(test_node.test_no_reboot_required, REBOOT, f"none\nrunning {older}\n{installed}") is FAILED
    assert judge(test_node.test_no_reboot_required, REBOOT, f"none\nrunning {newer}\n{installed}") is PASSED


@pytest.mark.parametrize(
    ("running", "other"),
    [
        ("6.8.0-1029-aws", "6.14.0-27-generic"),
        ("6.1.0-37-rt-amd64", "6.1.0-41-amd64"),
        ("5.14.0-503.40.1.el9_5.aarch64", "5.14.0-570.22.1.el9_6.aarch64+64k"),
        ("6.8.0-1028-nvidia", "6.8.0-1030-nvidia-64k"),
        ("6.1.0-37-amd64", "rescue-4f"),
        ("5.14.0-570.22.1.el9_6.x86_64", "5.15.0-310.184.5.el9uek.x86_64"),
        ("6.1.0-37-amd64", "6.1.0-41-cloud-amd64"),
    ],
)
def test_kernel_of_another_flavour_is_no_update(running, other):
    assert flavour_of(running) != flavour_of(other)
    assert judge(test_node.test_no_reboot_required, REBOOT, f"none\nrunning {running}\nkernel {running}\nkernel {other}\n") is PASSED


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("none\npending\nrunning 5.14.0-1.el9.x86_64\n", FAILED),
        ("none\nrunning 5.14.0-1.el9.x86_64\ndefault 5.14.0-1.el9.x86_64\nkernel 5.14.0-9.el9.x86_64\n", PASSED),
        ("none\nrunning 5.14.0-1.el9.x86_64\ndefault 5.14.0-9.el9.x86_64\n", FAILED),
        ("none\n", PASSED),
        ("a warning\nnone\r\n", PASSED),
        ("running 6.1.0-37-amd64\n", UNKNOWN),
    ],
    ids=["needs-restarting", "default-is-older", "default-is-newer", "container", "warning", "no-report"],
)
def test_reboot_is_judged_by_all_reports(text, verdict):
    assert judge(test_node.test_no_reboot_required, REBOOT, text) is verdict


LINKS = [
    {"ifname": "lo", "flags": ["LOOPBACK"], "addr_info": [{"family": "inet", "local": "127.0.0.1"}]},
    {"ifname": "bond0", "flags": ["MASTER"], "address": "02:00:00:00:00:09", "addr_info": [{"family": "inet", "local": "10.7.0.9"}, {}]},
]
GATEWAY = {"dst": "default", "gateway": "10.7.0.1", "dev": "bond0"}
SPARE = {"dst": "default", "gateway": "192.168.9.1", "dev": "eno1", "metric": 600}
ROUTES = {
    "one": ([GATEWAY], PASSED),
    "empty-object": ([{}, GATEWAY], PASSED),
    "same-gateway-twice": ([GATEWAY, {**GATEWAY, "metric": 100}], PASSED),
    "spare-with-higher-metric": ([SPARE, {**GATEWAY, "metric": 100}], PASSED),
    "planned-with-higher-metric": ([{**GATEWAY, "metric": 700}, SPARE], FAILED),
    "two-of-equal-metric": ([GATEWAY, {**SPARE, "metric": 0}], FAILED),
    "nexthops": ([{"dst": "default", "nexthops": [{"gateway": "10.7.0.1", "dev": "a"}, {"gateway": "10.7.0.2", "dev": "b"}]}], FAILED),
    "nexthops-of-one-gateway": ([{"dst": "default", "nexthops": [{"gateway": "10.7.0.1", "dev": "a"}]}], PASSED),
    "nexthop-object": ([{**GATEWAY, "nhid": 12}], PASSED),
    "gateway-of-ipv6": ([{"dst": "default", "via": {"family": "inet6", "host": "fe80::1"}, "dev": "bond0"}], FAILED),
    "device-alone": ([{"dst": "default", "dev": "ppp0"}], FAILED),
    "blackhole-behind": ([GATEWAY, {"type": "blackhole", "dst": "default", "metric": 4278198272}], PASSED),
    "unreachable": ([{"type": "unreachable", "dst": "default"}], FAILED),
    "dead": ([{**GATEWAY, "flags": ["dead", "linkdown"]}], FAILED),
    "none": ([], FAILED),
}


@each_row("case", ROUTES)
def test_default_route_is_the_one_in_use(case):
    routes, verdict = ROUTES[case]
    cluster = SimpleNamespace(network=SimpleNamespace(gateway="10.7.0.1"))
    for text in (f"{json.dumps([{}, *LINKS])}\n{json.dumps(routes)}\n", f"a warning\n{json.dumps(LINKS, indent=1)}\n{json.dumps(routes)}"):
        assert judge(test_node.test_default_route_matches_plan, NETWORK, text, cluster=cluster) is verdict
        assert parse_network(text).holder("10.7.0.9").mac == "02:00:00:00:00:09"


DF = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda2 100 10 90 10% /\n"
DF_ROWS = {
    "cvmfs-cache": ("cvmfs2 4096 4000 96 98% /cvmfs/soft.example", PASSED),
    "container-image": ("squashfuse_ll 100 100 0 100% /run/image", PASSED),
    "reserve-of-root-used": ("/dev/sdb1 100 104 -4 104% /data", FAILED),
    "blank-in-mount-point": ("/dev/sdb1 100 97 3 97% /data/two words", FAILED),
    "stale-handle": ("df: /mnt/x: Stale file handle", PASSED),
    "without-size": ("systemd-1 0 0 0 - /proc/sys/fs/binfmt_misc", PASSED),
    "zfs": ("tank/scratch 100 97 3 97% /scratch", FAILED),
}


@pytest.mark.parametrize("case", DF_ROWS)
def test_full_file_system_is_one_that_can_be_written(case):
    line, verdict = DF_ROWS[case]
    assert judge(test_node.test_disk_space, SPACE, f"{DF}{line}\n", limit=90) is verdict


@pytest.mark.parametrize("kind", ["beegfs", "ceph", "fuse.s3fs", "lustre", "wekafs"])
@pytest.mark.parametrize("probe", [SPACE, INODES], ids=["space", "inodes"])
def test_shared_file_system_is_no_local_one(tmp_path, probe, kind):
    """A full one, or one whose servers do not respond, is no fault of the node: df excludes it."""
    (tmp_path / "df").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    (tmp_path / "df").chmod(0o755)
    words = subprocess.run(["/bin/sh", "-c", probe.command], capture_output=True, text=True, check=True, env={"PATH": str(tmp_path)}).stdout
    assert f"-x\n{kind}\n" in words


def test_file_systems_without_inodes_are_never_full():
    text = "Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/sda2 0 0 0 - /\n/dev/sda1 - - - - /boot/efi\n"
    assert judge(test_node.test_file_systems_have_inodes, INODES, text, limit=90) is PASSED
    with pytest.raises(ValueError):
        parse_df("Filesystem Inodes IUsed IFree IUse% Mounted on\na warning\n")


def test_threads_of_processors_with_partial_multithreading():
    assert parse_threads("smt=4\n# CPU,Core\n0,0\n1,0\n2,0\n3,0\n").described == "4 (SMT 4)"
