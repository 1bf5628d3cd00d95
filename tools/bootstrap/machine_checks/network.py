"""Proxies, and whether the servers of required downloads respond."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Callable, NamedTuple
from urllib.parse import urlsplit

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.observation import read_file

_PATIENCE = 3.0
"""Timeout for each server in seconds; all are queried at the same time."""
_SCHEMES = ("http", "https")


class Proxies(NamedTuple):
    """Proxy settings as the programs read them."""

    environ: Mapping[str, str]
    apt: str
    """Text of apt's configuration files."""


def check_proxies(machine: Machine, installs_packages: bool) -> list[Finding]:
    """Check which programs use the proxy of the environment."""
    folder = machine.root / "etc/apt"
    files = ["/etc/apt/apt.conf", *(f"/etc/apt/apt.conf.d/{path.name}" for path in sorted(folder.glob("apt.conf.d/*")))]
    apt = "\n".join(read_file(machine, file) or "" for file in files) if machine.manager == "apt" else ""
    return judge_proxies(Proxies(machine.environ, apt), machine.is_root, installs_packages and machine.manager == "apt")


def judge_proxies(proxies: Proxies, is_root: bool, installs_with_apt: bool) -> list[Finding]:
    """Judge the settings; values may contain a password and are never printed completely."""
    environ = proxies.environ
    lower = {scheme: environ.get(f"{scheme}_proxy", "") for scheme in _SCHEMES}
    upper = {scheme: environ.get(f"{scheme.upper()}_PROXY", "") for scheme in _SCHEMES}
    if not any((*lower.values(), *upper.values())):
        return [ok("proxy", "none in the environment")]
    findings = [
        _case_mismatch(scheme, lower[scheme], upper[scheme]) for scheme in _SCHEMES if upper[scheme] and lower[scheme] != upper[scheme]
    ]
    if not (lower["https"] or upper["https"]):
        found = "http_proxy is set and https_proxy is not"
        findings.append(
            Finding(Level.WARNING, "proxy", found, "Python packages come over https, past the proxy", ('export https_proxy="$http_proxy"',))
        )
    if installs_with_apt and not is_root and not names_proxy(proxies.apt):
        findings.append(_sudo_finding())
    findings.append(
        Finding(
            Level.INFO,
            "proxy",
            f"{server(next(filter(None, (*lower.values(), *upper.values()))))}: pip, uv and the downloads of Pulumi and Go use it",
            "containers get no proxy from the environment (--http-proxy=false): a node image is installed past it",
        )
    )
    return findings


def names_proxy(apt: str) -> bool:
    """Return whether apt's configuration names a proxy for http: `Acquire::http::Proxy "…";`, or the same in nested blocks."""
    text = "\n".join(line for line in apt.lower().splitlines() if not line.lstrip().startswith(("#", "//")))
    return re.search(r"acquire\s*(?:::|\{[^}]*?)\s*http\s*(?:::|\{[^}]*?)\s*proxy", text) is not None


def server(address: str) -> str:
    """Return host and port of an address, without user and password."""
    return urlsplit(address if "//" in address else f"//{address}").netloc.rpartition("@")[2]


def _case_mismatch(scheme: str, lower: str, upper: str) -> Finding:
    return Finding(
        Level.WARNING,
        "proxy",
        f"{scheme}_proxy and {scheme.upper()}_PROXY differ (expected the same, found {server(lower) or 'none'} and {server(upper)})",
        "apt and curl read the lower-case name",
        (f'export {scheme}_proxy="${scheme.upper()}_PROXY"',),
    )


def _sudo_finding() -> Finding:
    return Finding(
        Level.WARNING,
        "proxy",
        "apt has no proxy (expected Acquire::http::Proxy in /etc/apt/apt.conf.d, found none)",
        "sudo drops http_proxy, so apt-get goes past the proxy",
        (r"""printf 'Acquire::http::Proxy "%s";\n' "$http_proxy" | sudo tee /etc/apt/apt.conf.d/95proxy > /dev/null""",),
    )


class Target(NamedTuple):
    """A server of a required download."""

    what: str
    address: str
    """Empty if unknown."""
    reason: str = ""
    """Reason why it is unknown."""


def check_servers(targets: list[Target], ask: Callable[[str], str] | None = None) -> list[Finding]:
    """Query all servers at the same time; `ask` returns an empty string, or the error."""
    answers: dict[str, str] = {}

    def record(address: str) -> None:
        answers[address] = (ask or request_head)(address)

    threads = [threading.Thread(target=record, args=(target.address,), daemon=True) for target in targets if target.address]
    for thread in threads:
        thread.start()
    for thread in threads:
        # The resolver's own timeouts are longer.
        thread.join(_PATIENCE + 1)
    return [judge_server(target, answers.get(target.address, f"no answer within {_PATIENCE + 1:.0f} s")) for target in targets]


def judge_server(target: Target, error: str) -> Finding:
    """Judge one server's response."""
    if not target.address:
        return unknown(target.what, target.reason)
    name = server(target.address)
    if not error:
        return ok(target.what, f"{name} answers")
    reason = "what is not in a cache has to be fetched from it"
    command = f"getent hosts {name.partition(':')[0]}" if "name" in error else f"curl -sSI {urlsplit(target.address).scheme}://{name}/"
    return Finding(Level.WARNING, target.what, f"{name} is not reachable (expected an answer, found: {error})", reason, (command,))


def request_head(address: str) -> str:
    """Send a HEAD request, through the environment's proxies; any response of a server counts."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_PATIENCE):
            return ""
    except urllib.error.HTTPError as answer:
        return "the proxy asks for a password (407)" if answer.code == 407 else ""
    except (OSError, ValueError) as error:
        return explain(getattr(error, "reason", error))


def explain(error: object) -> str:
    """Return the error of a connection to a server as text."""
    if isinstance(error, socket.gaierror):
        return f"the name is not resolved ({error.strerror})"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message}): check the clock and the certificates of a proxy"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return f"no answer within {_PATIENCE:.0f} s"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return str(error)
