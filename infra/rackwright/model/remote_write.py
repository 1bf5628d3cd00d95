"""Metrics forwarded by the cluster's Prometheus to a receiver of the site."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.external_monitoring import LocalPath
from rackwright.model.update_policy import UpdatePolicy


class RemoteWrite(ConfigModel):
    """A receiver of all metrics by the remote write protocol of Prometheus."""

    url: Annotated[str, UpdatePolicy.RESTART] = Field(
        pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$",
        description="URL, for example https://metrics.example.org/api/v1/write. No credentials.",
    )
    username: Annotated[str | None, UpdatePolicy.RESTART] = Field(
        default=None, pattern=r"^[^\s:\"'\\]+$", description="User name for basic authentication. Default: none."
    )
    password_file: Annotated[LocalPath | None, UpdatePolicy.RESTART] = Field(
        default=None, description="File on this machine that contains only its password, copied to the monitoring node only."
    )
    token_file: Annotated[LocalPath | None, UpdatePolicy.RESTART] = Field(
        default=None, description="File on this machine that contains only a bearer token, copied to the monitoring node only."
    )
    authority_file: Annotated[LocalPath | None, UpdatePolicy.RESTART] = Field(
        default=None,
        description="File on this machine with the authority of the receiver's certificate, in PEM. Default: those of the node.",
    )
