"""The client of a stack's network: starts the process, changes it, reads it and stops it. Found by its folder alone. Blocking calls."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drivers.daemon import is_running, terminate
from rackwright.drivers.vm.network import topology as topologies
from rackwright.drivers.vm.network.topology import Topology
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.time_limits import slowness

_MODULE: Final = "rackwright.drivers.vm.network"
_WORDS: Final = ("-m", _MODULE)
_START: Final = 15.0
"""Seconds until a started process must be ready; longer on a slow machine. It takes less than one."""
_ANSWER: Final = 10.0
"""Seconds for an answer. Chosen: the process answers between two frames; only a suspended one, or a machine out of memory, takes long."""
_END: Final = 5.0
"""Seconds to end after SIGTERM: it closes sockets and waits for nothing."""
_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG")
_LEFT: Final = ("process.json", "control.sock")


@dataclass(frozen=True)
class Process:
    """The process of a network: ID, and start time in clock ticks since boot."""

    pid: int
    since: int


def running(folder: Path) -> Process | None:
    """Return the process of the network in this folder, None if none runs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        row = json.loads((folder / "process.json").read_bytes())
        process = Process(int(row["pid"]), int(row["since"]))
        if is_running(process.pid, process.since, _WORDS):
            return process
    return None


def start(folder: Path, topology: Topology) -> Process:
    """Write the topology and start the process; return when machines can send. The process outlives the caller.

    Raises InputError for an invalid topology, RackwrightError with the reason if the process does not start, as while another one runs.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if before := running(folder):
        raise RackwrightError(
            f"process {before.pid} runs this network already", path=str(folder), hint="apply the topology, or stop it first"
        )
    topologies.write(folder, topology)
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-P", *_WORDS, str(folder.resolve())],
        cwd="/",
        env={**environment, "PYTHONPATH": str(layout.IMPORT_ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    reason = _wait_until_ready(child)
    if reason or (found := running(folder)) is None:
        raise RackwrightError(f"the network does not start: {reason or 'it ended at once'}", path=str(folder), hint="see network.log there")
    return found


def apply(folder: Path, topology: Topology) -> Process:
    """Make the network what the topology declares, without faults: start the process, or change the running one in place.

    Ports and cables that stay as they are lose no frame. Raises InputError for an invalid topology.
    """
    process = running(folder)
    if process is None:
        return start(folder, topology)
    topologies.write(folder, topology)
    _request(folder, {"command": "reload", "clear_faults": True})
    return process


def status(folder: Path) -> dict[str, Any]:
    """Return version, pid, uptime_s, topology (digest), switches, ports, cables, and differences from the declared network.

    Raises RackwrightError if no process runs, UndeterminedError if it does not respond.
    """
    found: dict[str, Any] = _request(folder, {"command": "status"})
    return found


def counters(folder: Path) -> dict[str, Any]:
    """Return `ports` and `cables`: frames, bytes and drops by reason, by name and direction (`in` and `out`, `a-b` and `b-a`).

    Raises as `status`.
    """
    found: dict[str, Any] = _request(folder, {"command": "counters"})
    return found


def set_link(folder: Path, name: str, **changes: bool | float | None) -> list[dict[str, Any]]:
    """Set a fault: `up`, `rate_mbps`, `delay_ms` or `loss` of a port or cable, `mtu` of a switch. Return all differences.

    Raises InputError for an unknown name or value, and as `status`.
    """
    found: list[dict[str, Any]] = _request(folder, {"command": "set", "name": name, **changes})
    return found


def stop(folder: Path) -> None:
    """Stop the process and remove its sockets; do nothing if none runs. Raises RackwrightError if it does not exit."""
    process = running(folder)
    if process and not terminate(process.pid, process.since, _WORDS, patience=_END):
        raise RackwrightError(f"process {process.pid} does not exit", path=str(folder), hint=f"run `kill -9 {process.pid}`")
    # A process that was killed has left them.
    for path in (*(folder / name for name in _LEFT), *folder.glob("*.sock")):
        path.unlink(missing_ok=True)


def _wait_until_ready(child: subprocess.Popen[bytes]) -> str:
    """Return an empty text once the process is ready, or why it is not; the process has ended then."""
    assert child.stdout is not None and child.stderr is not None
    limit = _START * slowness()
    with child.stdout, child.stderr:
        if not select.select([child.stdout], [], [], limit)[0]:
            child.kill()
            child.wait()
            return f"not ready after {limit:.0f} s"
        if child.stdout.readline():
            return ""
        lines = child.stderr.read().decode(errors="replace").strip().splitlines()
    child.wait()
    return "; ".join(line.strip() for line in lines[-2:]) or f"it ended with status {child.returncode}"


@contextmanager
def _connected(folder: Path) -> Iterator[socket.socket]:
    """Yield a connection to the process. The path of a socket is limited to 107 bytes (unix(7)), that of a folder is not."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER)
            connection.connect(f"/proc/self/fd/{descriptor}/control.sock")
            yield connection
    finally:
        os.close(descriptor)


def _request(folder: Path, request: dict[str, Any]) -> Any:
    """Return the result of a command. Raises what the process reports, or that it does not respond."""
    if (process := running(folder)) is None:
        raise RackwrightError("the network does not run", path=str(folder), hint="run `pulumi up --refresh`: it starts the network")
    try:
        with _connected(folder) as connection, connection.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            answer = json.loads(stream.readline())
    except (OSError, ValueError) as error:
        cause = f"the network (process {process.pid}) does not respond: {error or 'no answer'}"
        raise UndeterminedError(cause, path=str(folder), hint=f"see network.log there; `kill {process.pid}` ends it") from None
    if answer["ok"]:
        return answer["result"]
    raise InputError(answer["cause"], path=answer["path"] or str(folder), hint=answer["hint"])
