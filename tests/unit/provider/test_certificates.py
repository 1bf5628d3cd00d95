"""Certificates of a stack's daemons: what TLS makes of them, and when they are renewed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.certificates import AUTHORITY_DAYS, CERTIFICATE_DAYS, KeyAndCertificate, create_authority, create_certificate
from rackwright.provider import registry
from rackwright.provider.generated import certificates
from rackwright.provider.protocol.property_values import UNKNOWN, Secret
from rackwright.provider.protocol.resource import RecordedState, RequestContext

NOW = datetime.now(UTC)
AUTHORITY = create_authority("lab monitoring", NOW)
OTHER = create_authority("lab monitoring", NOW)


def server(authority: KeyAndCertificate = AUTHORITY, *, now: datetime = NOW) -> KeyAndCertificate:
    return create_certificate("worker0", "server", ["worker0", "worker0.lab.internal"], authority, now)


def client(authority: KeyAndCertificate = AUTHORITY) -> KeyAndCertificate:
    return create_certificate("scraper", "client", ["scraper"], authority, NOW)


def shake_hands(folder: Path, presented: KeyAndCertificate, by: KeyAndCertificate | None, name: str = "worker0") -> str:
    """Return `done`, or the reason of the side that ends a TLS 1.3 handshake in which the server demands a certificate."""
    accepts, asks = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accepts.verify_mode = ssl.CERT_REQUIRED
    for context, own in ((accepts, presented), (asks, by)):
        context.load_verify_locations(cadata=AUTHORITY.certificate)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if own:
            (folder / "own.pem").write_text(own.certificate + own.private_key)
            context.load_cert_chain(folder / "own.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [asks.wrap_bio(down, up, server_hostname=name), accepts.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
    return "done"


def test_tls_accepts_server_and_client_of_authority(tmp_path: Path) -> None:
    assert shake_hands(tmp_path, server(), client()) == "done"
    assert shake_hands(tmp_path, server(), client(), "worker0.lab.internal") == "done"


@pytest.mark.parametrize(
    ("presented", "by", "name", "reason"),
    [
        pytest.param(server(), None, "worker0", "peer did not return a certificate", id="client-without-certificate"),
        pytest.param(server(), server(), "worker0", "unsuitable certificate purpose", id="certificate-of-node-as-client"),
        pytest.param(server(), client(OTHER), "worker0", "certificate verify failed", id="client-of-another-authority"),
        pytest.param(server(OTHER), client(), "worker0", "certificate verify failed", id="server-of-another-authority"),
        pytest.param(client(), client(), "scraper", "unsuitable certificate purpose", id="client-as-server"),
        pytest.param(server(), client(), "worker1", "Hostname mismatch", id="server-of-another-name"),
        pytest.param(server(now=NOW - timedelta(days=CERTIFICATE_DAYS + 1)), client(), "worker0", "expired", id="expired"),
    ],
)
def test_tls_refuses(tmp_path: Path, presented: KeyAndCertificate, by: KeyAndCertificate | None, name: str, reason: str) -> None:
    assert reason.lower() in shake_hands(tmp_path, presented, by, name).lower()


def test_authority_cannot_sign_authorities() -> None:
    from cryptography import x509

    constraints = x509.load_pem_x509_certificate(AUTHORITY.certificate.encode()).extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)


def test_authority_of_other_kind_is_refused() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with pytest.raises(ValueError, match="elliptic-curve"):
        create_certificate(
            "a", "server", ["a"], (AUTHORITY.certificate, Ed25519PrivateKey.generate().private_bytes(*formats).decode()), NOW
        )


async def _status(_: str) -> None: ...


INPUTS: dict[str, Any] = {
    "common_name": "worker0",
    "usage": "server",
    "names": ["worker0"],
    "authority": AUTHORITY.certificate,
    "authority_key": AUTHORITY.private_key,
}
CONTEXT = RequestContext("urn", "lab", "worker0", False, _status, _status, _status)
CREATED: Callable[[], dict[str, Any]] = lambda: asyncio.run(certificates.Certificate().create(CONTEXT, INPUTS)).outputs  # noqa: E731


@pytest.mark.parametrize("token", ["rackwright:secret:CertificateAuthority", "rackwright:secret:Certificate"])
def test_provider_serves_certificates(token: str) -> None:
    resource = registry.resource(token)
    assert resource is not None and resource.token == token
    assert isinstance(resource.preview_outputs({})["private_key"], Secret)


def test_only_the_private_key_is_secret() -> None:
    created = CREATED()
    assert isinstance(created["private_key"], Secret) and "PRIVATE KEY" in created["private_key"].value
    assert created["certificate"].startswith("-----BEGIN CERTIFICATE")
    lifetime = datetime.fromisoformat(created["not_after"]) - datetime.now(UTC)
    assert timedelta(days=CERTIFICATE_DAYS - 1) < lifetime <= timedelta(days=CERTIFICATE_DAYS)


def test_authority_outlives_certificates() -> None:
    made = asyncio.run(certificates.CertificateAuthority().create(CONTEXT, {"common_name": "lab"})).outputs
    assert datetime.fromisoformat(made["not_after"]) - datetime.now(UTC) > timedelta(days=AUTHORITY_DAYS - 1)


@pytest.mark.parametrize(
    ("days", "change", "replaced"),
    [
        pytest.param(61, {}, [], id="valid"),
        pytest.param(59, {}, ["not_after"], id="expires-soon"),
        pytest.param(-1, {}, ["not_after"], id="expired"),
        pytest.param(61, {"authority": OTHER.certificate}, ["authority"], id="another-authority"),
        pytest.param(61, {"names": ["worker0", "worker0.b"]}, ["names"], id="another-name"),
    ],
)
def test_certificate_is_replaced(days: int, change: dict[str, Any], replaced: list[str]) -> None:
    expires = (datetime.now(UTC) + timedelta(days=days, hours=1)).isoformat()
    found = certificates.Certificate().diff(RecordedState("id", INPUTS, {**INPUTS, "not_after": expires}), {**INPUTS, **change})
    assert found.replaces == replaced


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        pytest.param({}, [], id="valid"),
        pytest.param({"authority": UNKNOWN, "authority_key": UNKNOWN}, [], id="unknown-in-preview"),
        pytest.param({"usage": "both"}, ["usage"], id="unknown-usage"),
        pytest.param({"names": []}, ["names"], id="no-name"),
        pytest.param({"authority": None}, ["authority"], id="no-authority"),
    ],
)
def test_inputs_are_checked(change: dict[str, Any], failed: list[str]) -> None:
    assert [failure.property for failure in certificates.Certificate().check({**INPUTS, **change})] == failed
