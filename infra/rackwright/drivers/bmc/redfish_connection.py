"""Connection of sushy to a BMC: TLS with a pinned certificate or an authority, never without; sessions that are ended; no log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import sushy
from requests.adapters import HTTPAdapter
from sushy import auth, connector, exceptions

from rackwright.drivers.bmc.access import BmcError, BmcLogin
from rackwright.time_limits import BMC_ANSWER, BMC_CONNECT, slowness

_UNAUTHORIZED: Final = 401
_RETRIES: Final = 1
"""Repetitions of a request within sushy, which sleeps a second between them. The operation repeats for longer, and can be interrupted."""


def _silence_sushy() -> None:
    """Disable sushy's log: it quotes what BMCs answer, which may repeat a password. What matters is raised."""
    for name, log in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "sushy" and isinstance(log, logging.Logger):
            log.disabled = True  # Levels and handlers of the caller's have no effect on it.


class _OneRequestAdapter(HTTPAdapter):
    """One connection for each request. sushy asks for that, and a BMC that ends the connection need not say so in its answer (RFC 9112,
    section 9.6): the next request on it would be lost."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Forget earlier connections first."""
        self.poolmanager.clear()
        return super().send(*args, **kwargs)


class _PinnedAdapter(_OneRequestAdapter):
    """Connections on which the peer's certificate has a fingerprint. urllib3 compares it before anything is sent."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Add the fingerprint to the pools."""
        super().init_poolmanager(*args, assert_fingerprint=self._fingerprint, **kwargs)


class _NoPlainHttp(HTTPAdapter):
    """Refuses requests without TLS: a BMC may redirect to http, or name such a session."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Raise instead of sending."""
        raise requests.exceptions.InvalidSchema(f"the BMC refers to {request.url}, which is not encrypted")


class _Login(auth.SessionOrBasicAuth):  # type: ignore[misc]
    """A session, or HTTP Basic where a BMC has no session left. A refused password is not tried a second time: BMCs lock users out."""

    _session_resource_id: str | None

    def _do_authenticate(self) -> None:
        try:
            auth.SessionAuth._do_authenticate(self)
        except exceptions.AccessError as refused:
            if refused.status_code == _UNAUTHORIZED:
                raise
            self._fallback_to_basic_authentication()
        except exceptions.ConnectionError:
            raise
        except exceptions.SushyError:
            self._fallback_to_basic_authentication()
        if self._session_resource_id is not None:
            # `Location` may be absolute, with a name of the BMC that is not ours: the token goes to the BMC alone.
            self._session_resource_id = urlsplit(self._session_resource_id).path


def connect(login: BmcLogin) -> sushy.Sushy:
    """Return the service root of a BMC, with a session. Raises BmcError without authentication of the BMC, and sushy's errors."""
    _silence_sushy()
    address = f"https://{login.address}:{login.port}"
    patience = {"default_request_timeout": BMC_ANSWER * slowness(), "connect_timeout": BMC_CONNECT * slowness()}
    retries = {"server_side_retries": _RETRIES, "server_side_retries_delay": 1}
    pinned = login.certificate is not None
    found = connector.Connector(address, verify=False if pinned else _authority(login), **patience, **retries)
    session: requests.Session = found._session
    session.trust_env = False  # No proxy and no .netrc of the user's environment.
    session.mount("http://", _NoPlainHttp())
    session.mount("https://", _PinnedAdapter(str(login.certificate).replace(":", "")) if pinned else _OneRequestAdapter())
    return sushy.Sushy(address, auth=_Login(login.username, login.password), connector=found)


def _authority(login: BmcLogin) -> str:
    """Return the file with the authorities; raise BmcError if there is none."""
    hint = f"declare `power.certificate` or `power.ca_file` of {login.node}"
    if login.ca_file is None:
        raise BmcError("neither the certificate of the BMC nor its authority is declared", path=login.node, hint=hint)
    file = Path(login.ca_file).expanduser()
    if not file.is_file():
        raise BmcError(f"{login.ca_file} does not exist", path=login.node, hint=hint)
    return str(file)
