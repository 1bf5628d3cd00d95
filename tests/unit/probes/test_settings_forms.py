"""Settings, keys, units and pings as releases and vendors print them."""

from __future__ import annotations

import base64
import hmac
import json
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_firewall, test_munge, test_sshd, test_tuning
from rackwright.checks.cluster.probes.directories import parse_directories
from rackwright.checks.cluster.probes.neighbours import parse_interfaces, parse_ping_statistics
from rackwright.checks.cluster.probes.sshd import HOST_KEYS, SETTINGS, parse_known_hosts
from rackwright.checks.cluster.probes.storage import parse_roots
from rackwright.checks.cluster.probes.tuning import LIMITS, PAGES, PROFILE
from rackwright.checks.cluster.probes.tuning import SETTINGS as SYSCTL
from rackwright.checks.cluster.probes.units import UNITS, parse_units
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def judge(check, probe, text, **given):
    return verdict_of(check, answers_of({probe: text}), **given)[0]


def unit(name, **values):
    shown = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "MainPID": "0", "ProcessState": "", **values}
    return "".join(f"{key}={value}\n" for key, value in {"Id": name, **shown}.items()) + "\n"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, PASSED),
        ({"ActiveState": "reloading"}, PASSED),
        ({"ActiveState": "refreshing"}, PASSED),
        ({"LoadState": "masked", "UnitFileState": "masked"}, PASSED),
        ({"ActiveState": "activating"}, FAILED),
        ({"ActiveState": "deactivating"}, FAILED),
        ({"ActiveState": "maintenance"}, FAILED),
        ({"ActiveState": "failed"}, FAILED),
        ({"ActiveState": "inactive", "LoadState": "masked"}, FAILED),
        ({"ActiveState": "active", "LoadState": "not-found"}, FAILED),
        ({"ActiveState": ""}, UNKNOWN),
    ],
    ids=lambda value: "-".join(value.values()) or "active" if isinstance(value, dict) else value,
)
def test_state_of_a_daemon_is_judged(values, verdict):
    assert judge(test_munge.test_service_runs, UNITS, unit("munge.service", **values)) is verdict


@pytest.mark.parametrize("load", ["masked", "bad-setting", "error", "not-found"])
def test_inactive_unit_names_its_reason(load):
    assert parse_units(unit("a.service", ActiveState="inactive", LoadState=load))["a.service"].state == load


STARTS = {"enabled": PASSED, "static": PASSED, "generated": PASSED, "indirect": PASSED, "alias": PASSED, "bad": UNKNOWN}
STARTS |= dict.fromkeys(("disabled", "enabled-runtime", "linked", "linked-runtime", "masked", "masked-runtime", "transient", ""), FAILED)


@pytest.mark.parametrize("state", STARTS)
def test_unit_starts_only_if_the_next_boot_knows_it(state):
    text = unit("nftables.service", UnitFileState=state)
    assert judge(test_firewall.test_starts_with_the_node, UNITS, text) is STARTS[state]


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ("private ssh_host_rsa_key 640 root ssh_keys\n", PASSED),
        ("private ssh_host_rsa_key 600 root root\n", PASSED),
        ("private ssh_host_rsa_key 400 root root\n", PASSED),
        ("private ssh_host_rsa_key 640 root root\n", FAILED),
        ("private ssh_host_rsa_key 640 root users\n", FAILED),
        ("private ssh_host_rsa_key 660 root ssh_keys\n", FAILED),
        ("private ssh_host_rsa_key 644 root ssh_keys\n", FAILED),
        ("private ssh_host_rsa_key 640 sshd ssh_keys\n", FAILED),
        ("a warning of the shell\r\nprivate ssh_host_rsa_key 600 root root\r\n", PASSED),
        ("public\n", UNKNOWN),
    ],
)
def test_key_of_enterprise_linux_is_private(lines, verdict):
    assert judge(test_sshd.test_host_keys_are_private, HOST_KEYS, f"public ssh-ed25519 AAAA\n{lines}") is verdict


def test_warning_is_no_setting_of_sshd():
    text = "/etc/ssh/sshd_config line 9: Deprecated option RSAAuthentication\r\npermitrootlogin without-password\r\n"
    assert judge(test_sshd.test_root_login_key_only, SETTINGS, text) is PASSED


def hashed(name, salt=b"0123456789abcdefghij"):
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, hmac.new(salt, name.encode(), "sha1").digest()))


def test_known_hosts_finds_hashed_names():
    lines = (
        f"{hashed('lab-w0')} ssh-ed25519 AAAA\n  # lab-w1 ssh-rsa BBBB\n@cert-authority *.lab ssh-ed25519 CCCC\n"
        f"@revoked lab-w2 ssh-rsa DDDD\n|1|broken|= ssh-rsa E\n[lab-w3]:2222 ssh-rsa F\n"
    )
    found = parse_known_hosts(lines)
    assert found["lab-w0"] == {"ssh-ed25519": "AAAA"}
    assert found["[lab-w3]:2222"] == {"ssh-rsa": "F"}
    for name in ("lab-w1", "lab-w2", "*.lab", "lab-w3"):
        with pytest.raises(KeyError):
            found[name]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Current active profile: rackwright\r\n", PASSED),
        ("Current active profile: rackwright\nCurrent post-loaded profile: site\n", PASSED),
        ("Current active profile: rackwright throughput-performance\n", FAILED),
        ("No current active profile.\n", FAILED),
        ("It seems that tuned daemon is not running, preset profile is not activated.\nPreset profile: rackwright\n", FAILED),
        ("Cannot talk to TuneD daemon via DBus. Is TuneD daemon running?\n", UNKNOWN),
    ],
)
def test_selected_profile_counts_only_if_tuned_runs(text, verdict):
    assert judge(test_tuning.test_profile_is_kept, PROFILE, text) is verdict


PLAN = {
    "node_stack": SimpleNamespace(
        tuning=SimpleNamespace(
            hugepages=SimpleNamespace(**{"2MiB": 12, "1GiB": 0}),
            sysctl=SimpleNamespace(**{"vm.swappiness": 1, "net.ipv4.tcp_rmem": "4096 131072 6291456"}),
            limits=SimpleNamespace(memlock="unlimited", nofile=1048576),
        )
    )
}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ("hugepages-2048kB 12\nhugepages-1048576kB 0\n", PASSED),
        ("hugepages-64kB 0\nhugepages-2048kB 12\nhugepages-32768kB 0\nhugepages-16777216kB 0\n", PASSED),
        ("hugepages-2048kB 12\nhugepages-524288kB 3\n", FAILED),
        ("hugepages-2048kB 11\n", FAILED),
        ("hugepages-2048kB\nhugepages-1048576kB 0\n", UNKNOWN),
        ("hugepages-2048kB\nhugepages-1048576kB 4\n", FAILED),
        ("a warning: see 1\nhugepages-2048kB 12\n", PASSED),
    ],
)
def test_huge_pages_of_all_sizes_are_judged(lines, verdict):
    text = f"{lines}always [madvise] never\n"
    assert judge(test_tuning.test_huge_pages_match_plan, PAGES, text, **PLAN) is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("vm.swappiness = 1\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\r\n", PASSED),
        ("vm.swappiness = 1\n", FAILED),
        ("vm.swappiness = 1\nsysctl: permission denied on key 'net.ipv4.tcp_rmem'\n", UNKNOWN),
        ("vm.swappiness = 60\nsysctl: permission denied on key 'net.ipv4.tcp_rmem'\n", FAILED),
    ],
    ids=["both", "missing", "unread", "wrong-beside-unread"],
)
def test_unread_setting_hides_no_wrong_one(text, verdict):
    assert judge(test_tuning.test_kernel_settings_match_plan, SYSCTL, text, **PLAN) is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("DefaultLimitMEMLOCK=infinity\nDefaultLimitNOFILE=1048576\n", PASSED),
        ("DefaultLimitMEMLOCK=18446744073709551615\nDefaultLimitNOFILE=1048576\n", PASSED),
        ("DefaultLimitMEMLOCK=65536\nDefaultLimitNOFILE=1048576\n", FAILED),
        ("DefaultLimitMEMLOCK=\nDefaultLimitNOFILE=1048576\n", UNKNOWN),
        ("DefaultLimitMEMLOCK=[not set]\nDefaultLimitNOFILE=1024\n", FAILED),
    ],
    ids=["infinity", "64-bit", "low", "empty", "low-beside-unread"],
)
def test_unread_limit_hides_no_wrong_one(text, verdict):
    assert judge(test_tuning.test_service_limits_match_plan, LIMITS, text, **PLAN) is verdict


def test_owner_with_a_blank_is_read():
    assert parse_directories("755 root /\n1777 corp\\domain user /tmp\n")["/tmp"] == ("corp\\domain user", 0o1777)
    assert parse_roots("/home|root:domain users|755|100|1048576\n")["/home"].owner == "root:domain users"


@pytest.mark.parametrize("row", ["100 received,", "100 packets received,", "100 received, +2 duplicates,"])
def test_pings_of_all_tools_are_counted(row):
    head = "PING 10.1.0.2 (10.1.0.2) 56(84) bytes of data.\r\n\r\n--- 10.1.0.2 ping statistics ---\r\n"
    (found,) = parse_ping_statistics(f"{head}100 packets transmitted, {row} 0% packet loss, time 198ms\r\n")
    assert (found.sent, found.answered) == (100, 100)


def test_filtered_links_and_addresses_are_skipped():
    address = {"family": "inet", "local": "10.70.1.24", "prefixlen": 24}
    links = [{}, {"ifname": "ib0", "addr_info": [{}, {"family": "inet6", "local": "fe80::1", "prefixlen": 64}, address]}]
    assert [(one.name, one.network) for one in parse_interfaces(f"a warning\n{json.dumps(links)}\n")] == [("ib0", "10.70.1.0/24")]
