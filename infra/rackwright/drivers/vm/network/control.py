"""Commands of the control connection: one JSON object per line in, one out."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import rackwright
from rackwright.drivers.vm.network.links import Link
from rackwright.drivers.vm.network.topology_problems import setting_problems
from rackwright.errors import InputError, RackwrightError

if TYPE_CHECKING:
    from rackwright.drivers.vm.network.service import Service

SOCKET: Final = "control.sock"
log = logging.getLogger("rackwright.vm.network")


class Control:
    """Answers the commands of clients. Answers are `{"ok": true, "result": …}` or `{"ok": false, "cause": …, "hint": …}`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._since = time.monotonic()
        self._commands = {"status": self._status, "counters": self._counters, "set": self._set, "reload": self._reload, "stop": self._stop}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a client until it closes the connection."""
        with suppress(OSError, ValueError):  # ValueError: a line longer than the reader's limit.
            while line := await reader.readline():
                writer.write(json.dumps(self.answer(line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the answer to one request."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or request.get("command") not in self._commands:
                raise InputError("unknown command", hint=f"commands: {', '.join(self._commands)}")
            command = request.pop("command")
            return {"ok": True, "result": self._commands[command](request)}
        except json.JSONDecodeError as error:
            return {"ok": False, "cause": f"the request is not JSON: {error}", "hint": "", "path": ""}
        except RackwrightError as error:
            return {"ok": False, "cause": error.cause, "hint": error.hint, "path": error.path}
        except OSError as error:
            return {"ok": False, "cause": str(error), "hint": "", "path": ""}

    def _status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        service, network = self._service, self._service.network
        return {
            "version": rackwright.__version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._since, 1),
            "topology": service.topology.digest(),
            "switches": {name: {"mtu": network.mtu(name)} for name in sorted(network.mtus)},
            "ports": {
                name: {**_link_row(port), "switch": port.switch, "machine_present": service.sockets[name].connect()}
                for name, port in sorted(network.ports.items())
            },
            "cables": {name: {**_link_row(cable), "a": cable.a, "b": cable.b} for name, cable in sorted(network.cables.items())},
            "differences": [difference._asdict() for difference in network.differences()],
        }

    def _counters(self, _: Mapping[str, Any]) -> dict[str, Any]:
        network = self._service.network
        return {
            kind: {name: {way.name: way.counters.as_row() for way in link.directions()} for name, link in sorted(links.items())}
            for kind, links in (("ports", network.ports), ("cables", network.cables))
        }

    def _set(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Set a fault; return the differences."""
        network, name = self._service.network, request.pop("name", None)
        if name not in {*network.ports, *network.cables, *network.mtus}:
            raise InputError(f"no switch, port or cable {name!r}", hint="`status` lists the names")
        problems = setting_problems(request, switch=name in network.mtus) if request else ["nothing to change"]
        if problems:
            raise InputError("; ".join(problems), path=name)
        self._service.set_fault(name, request)
        log.info("%s: fault %s", name, json.dumps(request))
        return [difference._asdict() for difference in network.differences()]

    def _reload(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Apply topology.json; with `clear_faults`, also return every link to it."""
        self._service.reload(clear_faults=request.get("clear_faults") is True)
        return {"topology": self._service.topology.digest()}

    def _stop(self, _: Mapping[str, Any]) -> None:
        self._service.stopped.set()


def _link_row(link: Link) -> dict[str, Any]:
    return {"live": asdict(link.live), "declared": asdict(link.declared)}
