"""Required downloads and their servers: only the configuration of apt, pip and uv names them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from bootstrap import engine, environment, packages
from bootstrap.machine import Machine
from bootstrap.machine_checks.observation import Output, run_command

ENGINE_SPACE = 5.0
PYTHON_SPACE = 1.0


def apt_servers(machine: Machine) -> list[str]:
    """Return the base addresses of apt's sources, each server once."""
    folder = machine.root / "etc/apt"
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list")), *sorted(folder.glob("sources.list.d/*.sources"))]
    return one_each([address for file in files for address in apt_addresses(_text(file))])


def apt_addresses(text: str) -> list[str]:
    """Return the http and https addresses in a sources file, in the one-line or the deb822 form."""
    found = []
    for line in (each.partition("#")[0].strip() for each in text.splitlines()):
        if line.startswith(("deb ", "deb-src ", "deb\t", "URIs:")):
            found += re.findall(r"https?://[^\s\]]+", line)
    return found


def package_index(machine: Machine) -> tuple[str, str]:
    """Return the address of the Python package index and, if it is unknown, the reason.

    uv does not read pip's configuration. Both print the address that they would use, without its password.
    """
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL") if machine.which("uv") else ():
        address = machine.environ.get(name, "").rpartition("=")[2]
        if address.startswith("http"):
            return address, ""
    if machine.which("uv"):
        return default_index(run_command(machine, "uv", "pip", "install", "--help"), "uv")
    python = environment.suitable_python(machine) or sys.executable
    return default_index(run_command(machine, python, "-m", "pip", "install", "--help"), "pip")


def default_index(help_text: Output | None, program: str) -> tuple[str, str]:
    """Find the index in `pip install --help` (`--index-url … (default ADDRESS)`) or uv's (`--default-index … by default: <ADDRESS>`)."""
    if help_text is None or help_text.code:
        return "", f"{program} is not installed yet, and only its configuration names the index"
    option = re.search(r"--(?:index-url|default-index)\b.*?default:?\s*<?\s*(https?://[^\s)>]+)", help_text.stdout, re.DOTALL)
    return (option[1], "") if option else ("", f"`{program} install --help` names no index")


def one_each(addresses: list[str]) -> list[str]:
    """Return the first address of each server."""
    servers: dict[str, str] = {}
    for address in addresses:
        servers.setdefault(urlsplit(address).netloc, address)
    return list(servers.values())


def missing_packages(machine: Machine, checkout: Path, stack: str) -> tuple[packages.Need, ...]:
    """Return the system packages that have to be installed."""
    return packages.missing(machine, packages.wanted(checkout, stack, machine))


def needs_python_packages(machine: Machine, checkout: Path) -> bool:
    """Return whether the Python environment must be created or filled."""
    return not environment.is_current(checkout)


def needs_engine(machine: Machine, checkout: Path) -> bool:
    """Return whether Pulumi must be downloaded or built."""
    return engine.look(machine, checkout / ".venv") is None


def needed_space(machine: Machine, checkout: Path) -> float:
    """Return the GiB that are still to be downloaded and built: estimates, 3 GiB of them only while Pulumi is built."""
    return (ENGINE_SPACE if needs_engine(machine, checkout) else 0.0) + (PYTHON_SPACE if needs_python_packages(machine, checkout) else 0.0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
