"""Generation of X.509 certificates for daemons of one stack: an authority of its own, and certificates that it signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # imported where it is used: the engine starts this process for every preview
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

Usage = Literal["server", "client"]
AUTHORITY_DAYS: Final = 3650
"""Lifetime of an authority: longer than a cluster's, because a new authority replaces all certificates at once."""
CERTIFICATE_DAYS: Final = 825
"""Lifetime of a certificate: the longest that TLS clients accept of any authority (support.apple.com/103769)."""
_BACKDATED: Final = timedelta(minutes=5)
"""Clocks of nodes may be behind; the checks report offsets from 2 s (catalog/checks.yml, node.clock_synchronized)."""


@dataclass(frozen=True)
class KeyAndCertificate:
    """A certificate and its key in PEM, and the end of its validity as ISO 8601 in UTC."""

    certificate: str
    private_key: str
    not_after: str


def create_authority(name: str, now: datetime) -> KeyAndCertificate:
    """Return a new self-signed authority that may sign certificates of servers and clients, and no other authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = _builder(subject, subject, key, now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    # Python 3.13 refuses an authority without this extension (docs.python.org, ssl.VERIFY_X509_STRICT).
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return _signed(builder, key, key)


def create_certificate(
    name: str, usage: Usage, alternative_names: Sequence[str], authority: KeyAndCertificate | tuple[str, str], now: datetime
) -> KeyAndCertificate:
    """Return a new certificate that the authority (or its certificate and private key in PEM) signs.

    A server's certificate is refused as a client's and vice versa: a node that presents the former cannot read other nodes with it.
    Raise ValueError for an authority that cannot be read.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    pem, key_pem = (authority.certificate, authority.private_key) if isinstance(authority, KeyAndCertificate) else authority
    issuer = x509.load_pem_x509_certificate(pem.encode())
    issuer_key = serialization.load_pem_private_key(key_pem.encode(), None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if usage == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = _builder(_subject(name), issuer.subject, key, now, CERTIFICATE_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(one) for one in alternative_names]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return _signed(builder.add_extension(identifier, critical=False), key, issuer_key)


def _alternative(name: str) -> x509.GeneralName:
    """Return an alternative name: TLS clients compare an address with entries of that kind only (RFC 9525, 6.4)."""
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now: datetime, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _BACKDATED)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, issuer_key: EllipticCurvePrivateKey) -> KeyAndCertificate:
    from cryptography.hazmat.primitives import hashes, serialization

    made = builder.sign(issuer_key, hashes.SHA256())
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyAndCertificate(
        made.public_bytes(serialization.Encoding.PEM).decode(),
        private.decode(),
        made.not_valid_after_utc.isoformat(timespec="seconds"),
    )
