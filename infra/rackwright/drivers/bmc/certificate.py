"""The certificate that a BMC presents. No password is sent: the connection ends after the TLS handshake."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl

from rackwright.drivers.bmc.access import BmcUnavailableError
from rackwright.model.targets.bmc import parse_fingerprint
from rackwright.time_limits import BMC_CONNECT, slowness


async def fetch_fingerprint(node: str, address: str, port: int) -> str:
    """Return the SHA-256 fingerprint of a BMC's certificate; raise BmcUnavailableError if it presents none."""
    return await asyncio.to_thread(_fetch, node, address, port)


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 fingerprint of a certificate in DER."""
    return parse_fingerprint(hashlib.sha256(certificate).hexdigest())


def _fetch(node: str, address: str, port: int) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # The certificate is what a person compares.
    try:
        with (
            socket.create_connection((address, port), timeout=BMC_CONNECT * slowness()) as connection,
            context.wrap_socket(connection, server_hostname=address) as encrypted,
        ):
            presented = encrypted.getpeercert(binary_form=True)
    except OSError as error:  # ssl.SSLError and TimeoutError are among them.
        cause = f"the BMC at {address}:{port} presents no certificate: {error.strerror or error}"
        raise BmcUnavailableError(cause, path=node, hint="check address and port, and that HTTPS is enabled on the BMC") from None
    assert presented is not None  # A TLS server without a certificate fails the handshake.
    return fingerprint(presented)
