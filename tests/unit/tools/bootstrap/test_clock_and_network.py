"""The clock, proxies and the servers that something has to be fetched from."""

from __future__ import annotations

import http.server
import os
import socket
import ssl
import threading
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS

from bootstrap.machine_checks import clock, downloads, network
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.network import Proxies, Target
from bootstrap.machine_checks.observation import Output

DEB822 = """Types: deb
# http://snapshot.example.org/archive/debian/20250520T000000Z
URIs: http://mirror.example.org/debian https://other.example.org/debian/
Suites: trixie trixie-updates
"""
ONE_LINE = "# deb http://old.example.org/debian buster main\ndeb [signed-by=/k.gpg] https://repo.example.org/apt stable main\n"
PIP_HELP = """  -i, --index-url <url>       Base URL of the Python Package Index (default
                              https://u:****@index.example.org/simple). This should
                              point to a repository compliant with PEP 503
  --extra-index-url <url>     Extra URLs of package indexes
"""
UV_HELP = """      --default-index <DEFAULT_INDEX>
          The URL of the default package index (by default: <https://index.example.org/simple>)
"""


@pytest.mark.parametrize(("days", "level"), [(30, Level.OK), (0, Level.OK), (-0.5, Level.OK), (-2, Level.WARNING)])
def test_clock_is_compared_with_checkout(tmp_path: Path, days: float, level: Level) -> None:
    (tmp_path / "requirements.lock").touch()
    os.utime(tmp_path / "requirements.lock", (1_700_000_000, 1_700_000_000))
    findings = clock.check_clock(tmp_path, now=1_700_000_000 + days * 86400)
    assert [each.level for each in findings] == [level]


def test_clock_is_unknown_when_file_is_missing(tmp_path: Path) -> None:
    assert clock.check_clock(tmp_path)[0].level is Level.UNKNOWN


def test_apt_servers_are_read_from_both_forms(make_machine) -> None:
    machine = make_machine({"/etc/apt/sources.list.d/debian.sources": DEB822, "/etc/apt/sources.list.d/x.list": ONE_LINE})
    assert downloads.apt_servers(machine) == [
        "https://repo.example.org/apt",
        "http://mirror.example.org/debian",
        "https://other.example.org/debian/",
    ]


@pytest.mark.parametrize(
    ("output", "address"),
    [
        (Output(0, PIP_HELP, ""), "https://u:****@index.example.org/simple"),
        (Output(0, UV_HELP, ""), "https://index.example.org/simple"),
        (Output(0, "Usage: pip", ""), ""),
        (Output(1, "", "No module named pip"), ""),
        (None, ""),
    ],
)
def test_index_is_read_from_help(output: Output | None, address: str) -> None:
    found, reason = downloads.default_index(output, "pip")
    assert found == address
    assert bool(reason) is not bool(address)


def test_index_is_unknown_when_pip_is_missing(make_machine) -> None:
    machine = make_machine(commands={"uv": "exit 1"})
    address, reason = downloads.package_index(machine)
    assert not address
    assert network.check_servers([Target("Python packages", address, reason)])[0].level is Level.UNKNOWN


def test_index_of_uv_comes_from_environment(make_machine) -> None:
    machine = make_machine(commands={"uv": "exit 1"}, environ={"UV_DEFAULT_INDEX": "ours=https://index.example.org/simple"})
    assert downloads.package_index(machine) == ("https://index.example.org/simple", "")


PROXY = "http://alice:secret@proxy.example.org:3128"
BOTH = {"http_proxy": PROXY, "https_proxy": PROXY}


@pytest.mark.parametrize(
    ("environ", "apt", "is_root", "installs", "levels", "words"),
    [
        ({}, "", False, True, [Level.OK], "none"),
        (BOTH, "", True, True, [Level.INFO], "proxy.example.org:3128"),
        (BOTH, "", False, False, [Level.INFO], "proxy.example.org:3128"),
        (BOTH, "", False, True, [Level.WARNING, Level.INFO], "apt has no proxy"),
        (BOTH, 'Acquire::http::Proxy "http://proxy.example.org:3128";', False, True, [Level.INFO], "pip"),
        ({"HTTP_PROXY": PROXY, "https_proxy": PROXY}, "", True, False, [Level.WARNING, Level.INFO], "http_proxy and HTTP_PROXY differ"),
        (BOTH | {"HTTPS_PROXY": "http://b:1"}, "", True, False, [Level.WARNING, Level.INFO], "https_proxy and HTTPS_PROXY differ"),
        ({"http_proxy": PROXY}, "", True, False, [Level.WARNING, Level.INFO], "https_proxy is not"),
    ],
)
def test_proxies_are_judged(environ: dict[str, str], apt: str, is_root: bool, installs: bool, levels: list[Level], words: str) -> None:
    findings = network.judge_proxies(Proxies(environ, apt), is_root, installs)
    assert [each.level for each in findings] == levels
    assert words in findings[0].found
    assert "secret" not in str(findings)


def test_apt_proxy_is_read_from_configuration(make_machine) -> None:
    environ = {"http_proxy": PROXY, "https_proxy": PROXY}
    assert [each.level for each in network.check_proxies(make_machine(environ=environ), True)] == [Level.WARNING, Level.INFO]
    machine = make_machine({"/etc/apt/apt.conf.d/95proxy": 'Acquire::http::Proxy "http://p:1";\n'}, environ=environ)
    assert [each.level for each in network.check_proxies(machine, True)] == [Level.INFO]


@pytest.mark.parametrize(
    ("apt", "named"),
    [
        ('Acquire::http::Proxy "http://p:1";', True),
        ('Acquire::HTTP::proxy "http://p:1";', True),
        ('Acquire {\n  Retries "3";\n  http {\n    Proxy "http://p:1";\n  };\n};', True),
        ('Acquire::http { Proxy "http://p:1"; };', True),
        ('Acquire::http::Pipeline-Depth "0";', False),
        ('Acquire::https::Proxy "http://p:1";', False),
        ('# Acquire::http::Proxy "http://p:1";', False),
        ('// Acquire::http::Proxy "http://p:1";', False),
        ("", False),
    ],
)
def test_apt_proxy_is_recognised(apt: str, named: bool) -> None:
    assert network.names_proxy(apt) is named


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name is not resolved"),
        (TimeoutError("timed out"), "no answer within"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "check the clock"),
        ("unknown url type", "unknown url type"),
    ],
)
def test_network_errors_are_explained(error: object, words: str) -> None:
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "certificate is not yet valid"
    assert words in network.explain(error)


def test_refused_connection_is_warning() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        findings = network.check_servers([Target("Python packages", address)])
    assert [each.level for each in findings] == [Level.WARNING]
    assert "Connection refused" in findings[0].found


@pytest.mark.parametrize(("code", "words"), [(200, ""), (404, ""), (407, "the proxy asks for a password")])
def test_any_answer_of_server_is_good(code: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.handle_request)
        thread.start()
        error = network.request_head(f"http://127.0.0.1:{listening.server_port}/simple")
        thread.join()
    assert error.startswith(words)
    assert bool(error) is bool(words)


def test_servers_are_asked_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=HANG_SECONDS)

    def ask(address: str) -> str:
        meeting.wait()
        return "" if "good" in address else "the name is not resolved"

    findings = network.check_servers([Target("a", "http://good.example.org/"), Target("b", "http://bad.example.org/")], ask)
    assert [each.level for each in findings] == [Level.OK, Level.WARNING]
    assert findings[1].commands == ("getent hosts bad.example.org",)


def test_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_PATIENCE", -0.9)
    release = threading.Event()
    findings = network.check_servers([Target("a", "http://slow.example.org/")], lambda address: str(release.wait(HANG_SECONDS)))
    release.set()
    assert findings[0].level is Level.WARNING
    assert "no answer within 0 s" in findings[0].found
