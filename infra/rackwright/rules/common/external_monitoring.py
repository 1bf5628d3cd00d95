"""Monitoring with the site: who may read the exporters, how the checks query its Prometheus, and what is forwarded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from rackwright.model.external_monitoring import ExternalMonitoring
from rackwright.model.monitoring import Monitoring
from rackwright.rules.registry import RuleContext, Violation, rule

if TYPE_CHECKING:  # imported where it is used: `validate` starts for every stack file
    from cryptography.x509 import Certificate

_AUTHORITY = "monitoring.client.authority"


@rule("monitoring-sources")
def monitoring_sources(case: RuleContext) -> Iterator[Violation]:
    """The exporters demand a certificate; their port must not be open to all addresses."""
    declared = case.cluster.monitoring
    if not isinstance(declared, ExternalMonitoring):
        return
    for network in declared.sources:
        if network.prefixlen == 0:
            yield Violation("monitoring.sources", f"{network} opens port 9100 to every address", "name the servers, as 192.0.2.10/32")


@rule("monitoring-authority")
def monitoring_authority(case: RuleContext) -> Iterator[Violation]:
    """An exporter with an authority that it cannot read does not start; one that has ended refuses every client."""
    declared = case.cluster.monitoring
    if not isinstance(declared, ExternalMonitoring) or declared.client is None:
        return
    if "PRIVATE KEY" in declared.client.authority:
        hint = "remove it from the file, and replace the authority if the file was shared"
        yield Violation(_AUTHORITY, "contains a private key", hint)
        return
    certificates = _certificates(declared.client.authority)
    if not certificates:
        yield Violation(
            _AUTHORITY, "is not a certificate in PEM", "paste the text from BEGIN CERTIFICATE to END CERTIFICATE, indented, after `|`"
        )
    for one in certificates:
        yield from (Violation(_AUTHORITY, f"{one.subject.rfc4514_string()} {fault}", hint) for fault, hint in _faults(one, case.today))


def _certificates(text: str) -> list[Certificate]:
    """Return the certificates of a PEM text; none where it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        return []


def _faults(one: Certificate, today: date) -> Iterator[tuple[str, str]]:
    """Yield why a certificate cannot be the authority of clients, with what to do."""
    from cryptography import x509

    try:
        signs = one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        signs = False
    if not signs:
        yield "is not a CA certificate", "enter the certificate that signs those of the clients (`CA:TRUE`)"
    if one.not_valid_after_utc.date() < today:
        yield f"ended on {one.not_valid_after_utc.date()}", "enter the authority's current certificate"


@rule("monitoring-query")
def monitoring_query(case: RuleContext) -> Iterator[Violation]:
    """Each machine on the way can read a token that is sent over plain HTTP."""
    declared = case.cluster.monitoring
    if not isinstance(declared, ExternalMonitoring) or declared.prometheus is None:
        return
    queried = declared.prometheus
    if not queried.url.startswith("http://"):
        return
    if queried.token_file:
        yield Violation("monitoring.prometheus.url", "sends the token without encryption", "use https://, or remove `token_file`")
    if queried.authority_file:
        yield Violation("monitoring.prometheus.authority_file", "has no use with http://", "use https://, or remove it")


@rule("monitoring-remote-write")
def monitoring_remote_write(case: RuleContext) -> Iterator[Violation]:
    """Prometheus refuses two kinds of credentials, and credentials over plain HTTP are read on the way."""
    declared = case.cluster.monitoring
    if not isinstance(declared, Monitoring):
        return
    for name, one in declared.remote_write.items():
        path = f"monitoring.remote_write.{name}"
        if (one.username is None) != (one.password_file is None):
            yield Violation(path, "has only one of `username` and `password_file`", "declare both, or none of them")
        if one.token_file and (one.username or one.password_file):
            yield Violation(path, "has a token and a password", "declare one of them")
        if one.url.startswith("http://") and (one.token_file or one.password_file):
            yield Violation(f"{path}.url", "sends credentials without encryption", "use https://, or remove the credentials")
        if one.url.startswith("http://") and one.authority_file:
            yield Violation(f"{path}.authority_file", "has no use with http://", "use https://, or remove it")
