"""Algorithms of role sshd: each release knows its names, ssh-audit's rules accept them, and clients old and new share them."""

from __future__ import annotations

import socket
import warnings
from functools import cache
from pathlib import Path
from typing import Final

import paramiko
import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from ssh_audit.ssh2_kexdb import SSH2_KexDB
from support.ssh_audit import ACCEPTED, LEVELS, SETTINGS, Findings

from rackwright.model.targets.aws import AwsOs
from rackwright.model.targets.hosts import HostsOs
from rackwright.model.targets.lab import LabOs

ROLE: Final = Path(__file__).parents[2] / "roles/sshd"
RELEASES: Final = {"debian-12": (9, 2), "debian-13": (10, 0), "ubuntu-22.04": (8, 9), "ubuntu-24.04": (9, 6), "rocky-9": (8, 7)}
"""OpenSSH of each system (packages.debian.org, packages.ubuntu.com; Rocky Linux 9.0 to 9.5: openssh-8.7p1)."""
CURVE25519: Final = ("curve25519-sha256", "curve25519-sha256@libssh.org")
POST_QUANTUM: Final = ("mlkem768x25519-sha256", "sntrup761x25519-sha512", "sntrup761x25519-sha512@openssh.com")
ETM: Final = ("umac-128-etm@openssh.com", "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com")
AES: Final = ("aes128-ctr", "aes192-ctr", "aes256-ctr", "aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
CLIENTS: Final = {
    "8.0": CURVE25519,
    "8.2": CURVE25519,
    "8.7": CURVE25519,
    "8.9": (*CURVE25519, "sntrup761x25519-sha512@openssh.com"),
    "9.0": ("sntrup761x25519-sha512@openssh.com", *CURVE25519),
    "9.9": ("sntrup761x25519-sha512", "sntrup761x25519-sha512@openssh.com", "mlkem768x25519-sha256", *CURVE25519),
    "10.0": (*POST_QUANTUM, *CURVE25519),
}
"""OpenSSH of a client -> the methods of its default list that a server of the role may know, in its order (ssh_config(5), KexAlgorithms;
openssh.com/releasenotes.html). RHEL 8 has 8.0, Ubuntu 20.04 8.2, RHEL 9 8.7, Ubuntu 22.04 8.9. All have AES and ETM by default."""


@pytest.fixture(scope="module", autouse=True)
def _plugins() -> None:
    """Look-ups are found as ansible-playbook finds them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another module may have done the same
        init_plugin_loader()


@cache
def rendered(os_name: str, target: str = "lab") -> str:
    """The drop-in as the role writes it on a login node."""
    loader = DataLoader()
    layers = [loader.load_from_file(str(ROLE / name / "main.yml"), trusted_as_template=True) for name in ("defaults", "vars")]
    cluster = {"target": target, "access": {"jump_hosts": ["login0"]}, "network": {"cidr": "10.77.0.0/24"}, "users": []}
    node = {"name": "login0", "os": os_name, "ssh_port": 22}
    templar = Templar(loader, variables={**layers[0], **layers[1], "cluster": cluster, "node": node})
    template = ROLE / "templates/etc/ssh/sshd_config.d/10-rackwright.conf.j2"
    return str(templar.template(trust_as_template(f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}")))


def algorithms(os_name: str, target: str = "lab") -> dict[str, list[str]]:
    """Algorithms by keyword."""
    lines = [line.split() for line in rendered(os_name, target).splitlines()]
    return {words[0]: words[1].split(",") for words in lines if words and words[0] in SETTINGS}


def rule(keyword: str, name: str) -> list[list[str]]:
    """ssh-audit's rule of an algorithm: releases, failures, warnings, notes; lists at the end that are empty are missing."""
    found: list[list[str]] = SSH2_KexDB.get_db()[SETTINGS[keyword]][name]
    return found


def findings(os_name: str) -> Findings:
    """What ssh-audit's rules say about the algorithms of a system."""
    found: Findings = {level: {} for level in LEVELS}
    for keyword, names in algorithms(os_name).items():
        for name in names:
            for level, texts in zip(LEVELS, rule(keyword, name)[1:], strict=False):
                if texts:
                    found[level][name] = texts
    return found


def test_each_supported_system_has_its_algorithms() -> None:
    assert set(RELEASES) == {*HostsOs} | {*AwsOs} | {*LabOs}
    assert all(set(algorithms(name)) == set(SETTINGS) and all(algorithms(name).values()) for name in RELEASES)


@pytest.mark.parametrize("os_name", RELEASES)
def test_release_knows_each_algorithm(os_name: str) -> None:
    """sshd does not start with a name that it does not know. ssh-audit's rules hold the release that introduced each."""
    for keyword, names in algorithms(os_name).items():
        for name in names:
            since = rule(keyword, name)[0][0].split(",")[0]
            assert tuple(map(int, since.split("."))) <= RELEASES[os_name], f"{name} is from OpenSSH {since}"


@pytest.mark.parametrize("os_name", RELEASES)
def test_ssh_audit_has_only_accepted_findings(os_name: str) -> None:
    assert findings(os_name) == ACCEPTED


@pytest.mark.parametrize("os_name", RELEASES)
def test_post_quantum_methods_precede_curve25519(os_name: str) -> None:
    """Each method that the release knows is offered."""
    known = [name for name in POST_QUANTUM if RELEASES[os_name] >= ((8, 5) if "@" in name else (9, 9))]
    assert algorithms(os_name)["KexAlgorithms"] == [*known, *CURVE25519]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("os_name", RELEASES)
def test_openssh_clients_agree_with_server(os_name: str, client: str) -> None:
    """The client's first method that the server knows is used (RFC 4253, 7.1)."""
    server = algorithms(os_name)
    chosen = next(name for name in CLIENTS[client] if name in server["KexAlgorithms"])
    assert (chosen in POST_QUANTUM) == (tuple(map(int, client.split("."))) >= (9, 0)), chosen
    assert set(server["Ciphers"]) <= set(AES) and set(server["MACs"]) <= set(ETM)


@pytest.mark.parametrize("os_name", RELEASES)
def test_paramiko_shares_algorithms(os_name: str) -> None:
    """`rackwright hosts` connects with paramiko, before and after the role ran."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        offered = paramiko.Transport(ours).get_security_options()
        server = algorithms(os_name)
        for keyword, client in zip(SETTINGS, (offered.kex, offered.ciphers, offered.digests, offered.key_types), strict=True):
            assert set(server[keyword]) & set(client), keyword


def test_file_precedes_crypto_policies_of_rocky() -> None:
    """sshd keeps the first value, and 50-redhat.conf includes crypto-policies' list; files of the folder are read by name."""
    (written,) = (ROLE / "templates/etc/ssh/sshd_config.d").iterdir()
    assert written.name < "50-redhat.conf"


def test_machines_keep_their_own_host_keys() -> None:
    """The stack file of target hosts may pin a key of any type."""
    assert set(algorithms("debian-13", "hosts")) == {*SETTINGS} - {"HostKeyAlgorithms"}
