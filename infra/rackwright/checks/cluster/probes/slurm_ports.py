"""Probe of TCP connections from a node to the Slurm controllers: a controller that `scontrol ping` reports as DOWN may have timed out."""

from __future__ import annotations

import shlex
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, answer_of, read_each_line

_PORT: Final = 6817
"""SlurmctldPort of every stack (slurm.conf(5), default)."""
_CONNECT: Final = """
import os, socket, sys
PATIENCE = 3 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
port, *controllers = sys.argv[1:]
for controller in controllers:
    name, address = controller.split("=")
    try:
        socket.create_connection((address, int(port)), PATIENCE).close()
        said = "accepts"
    except ConnectionRefusedError:
        said = "refused"
    except socket.timeout:
        said = "no answer within %d s" % PATIENCE
    except OSError as error:
        said = str(error)
    print(name + "|" + said)
"""


def parse_controller_ports(text: str) -> Lines[str | UnreadableValue]:
    """Return whether the port of each controller accepts connections, by controller; UnreadableValue for a time-out.

    >>> parse_controller_ports("login0|accepts\\nlogin1|refused\\n")
    {'login0': 'accepts', 'login1': 'refused'}
    """
    found = read_each_line(text, _controller)
    if not found:
        raise ValueError("no controller is listed")
    return found


def _controller(line: str) -> tuple[str, str | UnreadableValue]:
    name, response = line.split("|", 1)
    if not name.strip() or not response.strip():
        raise ValueError("no controller")
    return name, answer_of(f"slurmctld's port on {name}", response.strip())


def _connect_command(context: ProbeContext) -> str:
    nodes = context.declared.nodes
    controllers = [f"{name}={nodes[name]['address']}" for name in context.declared.cluster["scheduler"]["controllers"] if name in nodes]
    return f"python3 -I -S -c {shlex.quote(_CONNECT)} {_PORT} {' '.join(controllers)}"


CONTROLLER_PORTS = Probe("slurm-controller-ports", on="slurm", command=_connect_command, parse=parse_controller_ports)
