"""The SSH server that the lab publishes offers the algorithms of role sshd, and ssh-audit has no finding but the accepted one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.hang import HANG_SECONDS, wait_until
from support.project import Project
from support.ssh_audit import ACCEPTED, SETTINGS, findings


@pytest.fixture
def login_port(lab: Project) -> Iterator[int]:
    """A port on 127.0.0.1 that leads to login0's server by way of login0 itself.

    ssh-audit connects without ever logging in. sshd penalises the source of such connections, but not the cluster's own network; the
    address of the control machine, which the other tests need, stays out of it.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = lab.ssh("login0", "hostname -I").output.split()[0]
    config = str(lab.home / lab.stack / "ssh_config")
    command = ["ssh", "-F", config, "-S", "none", "-o", "ExitOnForwardFailure=yes", "-N", "-L", f"127.0.0.1:{port}:{address}:22", "login0"]
    with subprocess.Popen(command) as tunnel:
        try:
            wait_until(lambda: _is_open(port, tunnel), lambda: "the tunnel did not open")
            yield port
        finally:
            tunnel.terminate()


def _is_open(port: int, tunnel: subprocess.Popen[bytes]) -> bool:
    assert tunnel.poll() is None, "ssh ended"
    try:
        socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS).close()
    except OSError:
        return False
    return True


def test_ssh_audit_has_only_accepted_findings_on_login_node(login_port: int) -> None:
    """Without the rate test, which opens 38 connections at once and judges throttling, not algorithms."""
    command = [sys.executable, "-m", "ssh_audit", "--skip-rate-test", "-j", f"127.0.0.1:{login_port}"]
    audit = subprocess.run(command, capture_output=True, text=True, check=False)
    assert audit.returncode == 2, audit.stdout + audit.stderr  # ssh-audit's README: 2 warnings, 3 failures
    report = json.loads(audit.stdout)
    assert report["banner"]["software"].startswith("OpenSSH")
    assert findings(report) == ACCEPTED


def test_running_server_has_the_lists_of_its_file(lab: Project) -> None:
    """No other file of sshd_config.d precedes the one of the role: `sshd -T` prints the values that count."""
    written = _values(lab.ssh("login0", "cat /etc/ssh/sshd_config.d/10-rackwright.conf").output)
    effective = {name.lower(): value for name, value in _values(lab.ssh("login0", "/usr/sbin/sshd -T").output).items()}
    assert {name: effective[name.lower()] for name in SETTINGS} == {name: written[name] for name in SETTINGS}


def _values(text: str) -> dict[str, str]:
    """Settings by keyword; keywords without a value are left out."""
    return dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
