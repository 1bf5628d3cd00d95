"""Monitoring by a Prometheus that the site already has: rackwright installs exporters only."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from rackwright.model.addresses import Network4
from rackwright.model.base import ConfigModel
from rackwright.model.units import Seconds
from rackwright.model.update_policy import UpdatePolicy

ClientName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@*-]{0,199}$")]
"""An alternative name of a certificate: DNS name, address, e-mail address or URI."""
ServerPath = Annotated[str, StringConstraints(pattern=r"^/[^\s\"'\\]*$")]
LocalPath = Annotated[str, StringConstraints(pattern=r"^[/~]\S*$")]


class ScrapeBy(StrEnum):
    """What a target is called in the rendered lists of targets."""

    ADDRESS = "address"
    NAME = "name"
    """The full name of the node, which the site's name servers must know."""


class ScrapeClient(ConfigModel):
    """The client certificate of the site's Prometheus, signed by an authority of the site."""

    authority: Annotated[str, UpdatePolicy.RESTART] = Field(
        description="Certificate in PEM of the authority that signs it; several certificates may follow each other."
    )
    names: Annotated[tuple[ClientName, ...], UpdatePolicy.RESTART] = Field(
        min_length=1, description="Alternative names in client certificates, one of which a client must have. Other clients are refused."
    )
    certificate_file: Annotated[ServerPath, UpdatePolicy.RUN] = Field(
        description="Path of the client's certificate on the machine of the site's Prometheus, for the rendered configuration."
    )
    key_file: Annotated[ServerPath, UpdatePolicy.RUN] = Field(
        description="Path of its private key on that machine. rackwright never reads it."
    )


class QueriedPrometheus(ConfigModel):
    """The API of the site's Prometheus, queried by the checks from this machine."""

    url: Annotated[str, UpdatePolicy.RUN] = Field(
        pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$", description="Base URL, for example https://prometheus.example.org. No credentials."
    )
    authority_file: Annotated[LocalPath | None, UpdatePolicy.RUN] = Field(
        default=None, description="File on this machine with the authority of its certificate, in PEM. Default: those of the system."
    )
    token_file: Annotated[LocalPath | None, UpdatePolicy.RUN] = Field(
        default=None, description="File on this machine that contains only a bearer token, sent with each query."
    )


class ExternalMonitoring(ConfigModel):
    """Exporters and collectors on all nodes for a Prometheus of the site; `rackwright export monitoring` writes its configuration."""

    kind: Annotated[Literal["external"], UpdatePolicy.FORBIDDEN] = Field(
        description="`external`: a Prometheus of the site reads the cluster, and only exporters are installed."
    )
    sources: Annotated[tuple[Network4, ...], UpdatePolicy.LIVE] = Field(
        min_length=1, description="Addresses of the site's Prometheus servers, as a.b.c.d/32 or networks, which may connect to port 9100."
    )
    scrape_interval: Annotated[Seconds, UpdatePolicy.RESTART] = Field(
        default=15, description="Time between two runs of a collector, and interval of the rendered configuration. Default: 15s."
    )
    scrape_by: Annotated[ScrapeBy, UpdatePolicy.RUN] = Field(
        default=ScrapeBy.ADDRESS, description="Targets in the rendered lists: `address`, or `name` (the full name). Default: address."
    )
    client: Annotated[ScrapeClient | None, UpdatePolicy.RESTART] = Field(
        default=None,
        description="Client certificate of the site. Default: the stack generates one, and "
        "`rackwright export monitoring STACK --with-client-key` writes it.",
    )
    prometheus: Annotated[QueriedPrometheus | None, UpdatePolicy.RUN] = Field(
        default=None, description="API of the site's Prometheus, for the checks. If omitted, nothing queries it."
    )
