"""Baseboard management controllers (BMCs) of existing machines. The password is in a file on this machine, never in a stack file."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from rackwright.model.addresses import SshAddress
from rackwright.model.base import ConfigModel
from rackwright.model.notation import refuse
from rackwright.model.receivers import SecretFile
from rackwright.model.update_policy import UpdatePolicy

REDFISH_PORT: Final = 443
"""Port of HTTPS, over which Redfish is served (DSP0266, Protocol details)."""
IPMI_PORT: Final = 623
"""Primary RMCP port (IPMI 2.0, section 13.1.2)."""
_FINGERPRINT: Final = r"(SHA256[:=])?([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}"
_LAST_ADDRESS: Final = int(IPv4Address("255.255.255.255"))


def parse_fingerprint(value: object) -> str:
    """Return a SHA-256 fingerprint as OpenSSL prints it: 32 bytes in upper-case hexadecimal, separated by colons."""
    if not isinstance(value, str) or not re.fullmatch(_FINGERPRINT, value.strip()):
        hint = 'run `rackwright power STACK certificates`, compare, and write the fingerprint in quotes, like "3F:9A:…"'
        cause = f"`{str(value)[:100]}` is not a SHA-256 fingerprint of a certificate (64 hexadecimal digits)"
        refuse("certificate-fingerprint", cause, hint)
    digits = re.sub(r"^SHA256.|:", "", value.strip()).upper()
    return ":".join(digits[place : place + 2] for place in range(0, 64, 2))


CertificateFingerprint = Annotated[
    str, BeforeValidator(parse_fingerprint), WithJsonSchema({"type": "string", "pattern": f"^{_FINGERPRINT}$"})
]


class BmcKind(StrEnum):
    """Protocols of BMCs: `redfish` (HTTPS) or `ipmi` (IPMI 2.0 over LAN, through the program ipmitool)."""

    REDFISH = "redfish"
    IPMI = "ipmi"


class Bmc(ConfigModel):
    """The BMC of a machine, or what the BMCs of several machines have in common. For `rackwright power`, and for power saving."""

    kind: Annotated[BmcKind | None, UpdatePolicy.LIVE] = Field(default=None, description="Protocol: `redfish` or `ipmi`.")
    address: Annotated[SshAddress | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Address or name of the BMC. For a range, the IPv4 address of the first machine's BMC; it counts up."
    )
    port: Annotated[int | None, UpdatePolicy.LIVE] = Field(
        default=None, ge=1, le=65535, description=f"Port of the BMC. Default: {REDFISH_PORT} for redfish, {IPMI_PORT} for ipmi."
    )
    username: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None, pattern=r"^[!-~]+$", max_length=64, description="User of the BMC, with the right to change the power."
    )
    password_file: Annotated[SecretFile | None, UpdatePolicy.LIVE] = Field(
        default=None, description="File on this machine that contains only the password, with mode 0600."
    )
    system: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None,
        pattern=r"^[!-.0-~]+$",
        max_length=128,
        description="Id of the machine's Redfish system, for a BMC with several. Default: the only system that can be reset.",
    )
    certificate: Annotated[CertificateFingerprint | None, UpdatePolicy.LIVE] = Field(
        default=None, description="SHA-256 fingerprint of the BMC's certificate; no other certificate is accepted."
    )
    ca_file: Annotated[SecretFile | None, UpdatePolicy.LIVE] = Field(
        default=None, description="PEM file on this machine with the authorities that sign BMC certificates. Ignored with `certificate`."
    )

    def merged_with(self, shared: Bmc | None) -> Bmc:
        """Return this BMC with missing fields taken from `shared`."""
        if shared is None:
            return self
        return shared.model_copy(update={name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None})

    def counted(self, place: int) -> Bmc:
        """Return a range's BMC for the machine at a position. A name does not count up, and past 255.255.255.255 there is no address."""
        try:
            first = int(IPv4Address(self.address or ""))
        except AddressValueError:
            return self
        return self.model_copy(update={"address": str(IPv4Address(first + place)) if first + place <= _LAST_ADDRESS else None})

    @property
    def own_port(self) -> int:
        """Return the port, by default that of the protocol."""
        return self.port or (IPMI_PORT if self.kind is BmcKind.IPMI else REDFISH_PORT)
