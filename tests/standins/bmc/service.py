"""The Redfish service of an emulated BMC, with a certificate of its own."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from standins.bmc.certificate import create_certificate
from standins.bmc.machine import Machine
from standins.bmc.profiles import Profile

SESSIONS = "/redfish/v1/SessionService/Sessions"
ROOT = "/redfish/v1/"


@dataclass
class EmulatedBmc:
    """A BMC's state, and what it was asked."""

    profile: Profile
    machine: Machine
    password: str
    username: str = "rackwright"
    role: str = "Operator"
    max_sessions: int = 16
    failures: list[tuple[int, str]] = field(default_factory=list)
    """Status and message with which the next requests are answered, of those with a login."""
    delay: float = 0.0
    """Seconds before each answer."""
    echoes_password: bool = False
    redirects_to: str = ""
    hang_ups: int = 0
    """Number of requests with a login after which the connection ends without an answer."""
    is_empty: int = 0
    """Number of answers about systems that have no body."""
    port: int = 0
    fingerprint: str = ""
    certificate: Path = Path()
    sessions: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    logins: int = 0
    transition: str = ""

    @property
    def power_state(self) -> str:
        """Return PowerState, once the state between two."""
        passing, self.transition = self.transition, ""
        return passing or ("On" if self.machine.is_on() else "Off")


@contextmanager
def serving(bmc: EmulatedBmc, folder: Path, address: str = "127.0.0.1") -> Iterator[EmulatedBmc]:
    """Serve a BMC at an address of this machine for the duration of the context."""
    bmc.certificate, key, bmc.fingerprint = create_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bmc.certificate, key)

    class Handler(_Handler):
        state = bmc

    with ThreadingHTTPServer((address, 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        bmc.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield bmc
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: EmulatedBmc
    protocol_version = "HTTP/1.1"
    timeout = 300
    is_used = False

    def parse_request(self) -> bool:
        """End a connection at its second request, as a BMC that honours `Connection: close` without a word, and late."""
        is_valid = super().parse_request()
        self.close_connection, is_first, self.is_used = self.is_used, not self.is_used, True
        return is_valid and is_first

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer a query."""
        self._received()
        if self.path.rstrip("/") == ROOT.rstrip("/"):
            links = {"Links": {"Sessions": {"@odata.id": SESSIONS}}, "Systems": {"@odata.id": "/redfish/v1/Systems"}}
            self._answer(200, {"@odata.id": ROOT, "Id": "RootService", "Name": "Root", "RedfishVersion": "1.11.0", **links})
        elif self._permitted():
            self._system()

    def do_POST(self) -> None:
        """Log in, or reset."""
        body = self._received()
        if self.path.rstrip("/") == SESSIONS:
            self._log_in(body)
        elif self._permitted():
            self._reset(str(body.get("ResetType")))

    def do_DELETE(self) -> None:
        """Log out."""
        self._received()
        if self._permitted() and self.state.sessions.pop(self.path.rpartition("/")[2], None):
            self._answer(204, None)

    def do_PATCH(self) -> None:
        """Refuse: power control changes no setting."""
        self._received()
        self._fail(428, "Base.1.8.PreconditionRequired")

    def _received(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        self.state.requests.append((self.command, self.path))
        self.state.headers.append(dict(self.headers))
        time.sleep(self.state.delay)
        return dict(json.loads(text)) if text and text != b"null" else {}

    def _permitted(self) -> bool:
        bmc = self.state
        basic = base64.b64encode(f"{bmc.username}:{bmc.password}".encode()).decode()
        by_basic = bmc.profile.basic and self.headers.get("Authorization") == f"Basic {basic}"
        if bmc.redirects_to:
            self.send_response(307)
            self.send_header("Location", bmc.redirects_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif bmc.hang_ups and self.command != "DELETE":
            bmc.hang_ups -= 1
            self.close_connection = True
        elif bmc.failures and self.command != "DELETE":
            self._fail(*bmc.failures.pop(0))
        elif not by_basic and self.headers.get("X-Auth-Token") not in bmc.sessions.values():
            self._fail(401, "Base.1.8.NoValidSession")
        elif self.command == "POST" and bmc.role == "ReadOnly":
            self._fail(403, "Base.1.8.InsufficientPrivilege")
        else:
            return True
        return False

    def _log_in(self, body: dict[str, Any]) -> None:
        bmc = self.state
        bmc.logins += 1
        if body != {"UserName": bmc.username, "Password": bmc.password}:
            return self._fail(
                401, f"the value {body.get('Password')} is wrong" if bmc.echoes_password else "Base.1.8.ResourceAtUriUnauthorized"
            )
        if len(bmc.sessions) >= bmc.max_sessions:
            # bb-Ricardo/check_redfish#89
            return self._fail(503, "IDRAC.2.4.RAC0218: The maximum number of user sessions is reached.")
        number = str(len(bmc.requests))
        bmc.sessions[number] = f"token-{number}"
        host = "https://bmc-internal.invalid" if bmc.profile.location == "absolute" else ""
        return self._answer(201, {"Id": number}, {"X-Auth-Token": bmc.sessions[number], "Location": f"{host}{SESSIONS}/{number}"})

    def _system(self) -> None:
        bmc, parts = self.state, self.path.strip("/").split("/")[2:]
        if bmc.is_empty and len(parts) > 1:
            bmc.is_empty -= 1
            return self._answer(200, None)
        if parts == ["Systems"]:
            members = [{"@odata.id": f"/redfish/v1/Systems/{name}"} for name in bmc.profile.systems]
            return self._answer(200, {"@odata.id": "/redfish/v1/Systems", "Name": "Systems", "Members": members})
        if len(parts) < 2 or parts[0] != "Systems" or parts[1] not in bmc.profile.systems:
            return self._fail(404, "Base.1.8.ResourceMissingAtURI")
        if parts[2:] == ["ResetActionInfo"]:
            values = {"Name": "ResetType", "Required": True, "AllowableValues": list(bmc.profile.reset_types)}
            return self._answer(200, {"@odata.id": self.path, "Id": "ResetActionInfo", "Name": "Reset", "Parameters": [values]})
        return self._answer(200, self._described(parts[1]))

    def _described(self, name: str) -> dict[str, Any]:
        own, path = name == self.state.profile.systems[0], f"/redfish/v1/Systems/{name}"
        action: dict[str, Any] = {"target": f"{path}/Actions/ComputerSystem.Reset"}
        if self.state.profile.announced == "action":
            action["ResetType@Redfish.AllowableValues"] = list(self.state.profile.reset_types)
        elif self.state.profile.announced == "action-info":
            action["@Redfish.ActionInfo"] = f"{path}/ResetActionInfo"
        state = self.state.power_state if own else "On"
        return {"@odata.id": path, "Id": name, "Name": name, "PowerState": state, "Actions": {"#ComputerSystem.Reset": action}}

    def _reset(self, kind: str) -> None:
        bmc, system = self.state, self.path.strip("/").split("/")[3]
        if kind not in bmc.profile.reset_types or system != bmc.profile.systems[0]:
            return self._fail(400, "Base.1.8.ActionParameterNotSupported")
        wants_on = kind in ("On", "ForceOn")
        if bmc.profile.already_status and wants_on == bmc.machine.is_on() and kind != "PushPowerButton":
            return self._fail(bmc.profile.already_status, bmc.profile.already_message)
        before = bmc.machine.is_on()
        bmc.machine.reset(kind)
        if bmc.profile.transitions and before != bmc.machine.is_on():
            bmc.transition = "PoweringOff" if before else "PoweringOn"
        body = {"Id": "1", "TaskState": "New"} if bmc.profile.reset_status == 202 else None
        return self._answer(bmc.profile.reset_status, body)

    def _fail(self, status: int, message: str) -> None:
        info = [{"MessageId": message.partition(":")[0], "Message": message, "Severity": "Warning"}]
        self._answer(status, {"error": {"code": "Base.1.8.GeneralError", "message": message, "@Message.ExtendedInfo": info}})

    def _answer(self, status: int, body: dict[str, Any] | None, headers: dict[str, str] | None = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        etag = {"ETag": self.state.profile.etag} if self.state.profile.etag else {}
        for name, value in {**etag, **(headers or {}), "Content-Type": "application/json", "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)
