"""A stack's own certificate authority and the certificates that it signs, generated once and renewed before they expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, get_args

from rackwright.drivers.certificates import KeyAndCertificate, Usage, create_authority, create_certificate
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind
from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret
from rackwright.provider.protocol.resource import CheckFailure, LiveResource, RecordedState, RequestContext, Resource

RENEWED_BEFORE: Final = timedelta(days=60)
"""An `up` within this time before the expiry replaces the certificate. Alerts begin later: CertificateExpires."""


class _Generated(Resource):
    """A certificate with its key. Outputs: `certificate`, `private_key` (secret), `not_after`."""

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return changed inputs, or the expiry as the reason to replace the certificate."""
        found = super().diff(state, news)
        expires = datetime.fromisoformat(state.outputs["not_after"])
        due = expires - datetime.now(UTC) < RENEWED_BEFORE
        return found.with_change("not_after", PropertyDiffKind.UPDATE_REPLACE) if due else found

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown certificate."""
        return {**news, "certificate": UNKNOWN, "private_key": Secret(UNKNOWN), "not_after": UNKNOWN}

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the key exists in the state and on nodes, which the roles manage."""


def _outputs(news: Properties, made: KeyAndCertificate) -> dict[str, Any]:
    return {**news, "certificate": made.certificate, "private_key": Secret(made.private_key), "not_after": made.not_after}


class CertificateAuthority(_Generated):
    """Inputs: common_name. The key signs certificates of the stack, and is on no node."""

    token: ClassVar[str] = "rackwright:secret:CertificateAuthority"
    required: ClassVar[tuple[str, ...]] = ("common_name",)
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"common_name"})

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Generate the authority."""
        return LiveResource(operation.name, _outputs(news, create_authority(news["common_name"], datetime.now(UTC))))


class Certificate(_Generated):
    """Inputs: common_name, usage (server or client), names (alternative names), authority and authority_key (PEM, the latter secret)."""

    token: ClassVar[str] = "rackwright:secret:Certificate"
    required: ClassVar[tuple[str, ...]] = ("common_name", "usage", "names", "authority", "authority_key")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset(required)

    def check(self, news: Properties) -> list[CheckFailure]:
        """Return a failure for an unknown usage or a server without names."""
        found = super().check(news)
        if not found and news["usage"] not in (*get_args(Usage), UNKNOWN):
            found.append(CheckFailure("usage", f"{news['usage']} is neither server nor client"))
        if not found and not news["names"]:
            found.append(CheckFailure("names", "is empty: TLS clients compare alternative names only"))
        return found

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Generate a key and sign its certificate."""
        authority = (news["authority"], news["authority_key"])
        made = create_certificate(news["common_name"], news["usage"], news["names"], authority, datetime.now(UTC))
        return LiveResource(operation.name, _outputs(news, made))
