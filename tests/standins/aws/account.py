"""The only place that creates clients: for an endpoint on this machine, with invalid credentials, or not at all."""

from __future__ import annotations

import json
import os
import threading
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
import botocore.client
from botocore import xform_name
from botocore.exceptions import ClientError

from rackwright.errors import RackwrightError

PARTITION: Final = "aws"
_HERE: Final = ("127.0.0.1", "localhost", "::1")
_GONE: Final = ("NotFound", "NoSuch", ".Unknown", "404", "NotFoundException")


class Account:
    """One account in one region, as in the program's provider."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._clients: dict[str, Any] = {}
        self._building = threading.Lock()
        self._elsewhere: dict[str, Account] = {}

    def at(self, region: str | None) -> Account:
        """Return the same account in another region; every resource may name its own."""
        if not region or region == self.region:
            return self
        return self._elsewhere.setdefault(region, Account({**self._config, "region": region}))

    @cached_property
    def region(self) -> str:
        """Return the provider's region: its own setting, else the environment's."""
        found = self._config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not found:
            raise RackwrightError(
                "aws:region is not set", hint="set `aws:region` in the stack's config, `region` of the provider, or AWS_REGION"
            )
        return str(found)

    @cached_property
    def number(self) -> str:
        """Return the account's twelve digits."""
        return str(self.call("sts", "GetCallerIdentity")["Account"])

    @property
    def default_tags(self) -> dict[str, str]:
        """Return the tags that the provider adds to everything."""
        return dict((self._config.get("defaultTags") or {}).get("tags") or {})

    def demand_allowed(self) -> None:
        """Refuse an account that the program's provider does not allow, as the real one does."""
        allowed, forbidden = self._config.get("allowedAccountIds"), self._config.get("forbiddenAccountIds")
        if not allowed and not forbidden:
            return
        if (allowed and self.number not in allowed) or self.number in (forbidden or ()):
            raise RackwrightError(f"AWS account ID not allowed: {self.number}")

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Make one API call, e.g. `call("ec2", "DescribeVpcs", VpcIds=[…])`."""
        method = getattr(self.client(service), xform_name(operation))
        answer: dict[str, Any] = method(**parameters)
        return answer

    def client(self, service: str) -> Any:
        """Return the client of a service; created once."""
        with self._building:
            if service not in self._clients:
                self._clients[service] = _client(service, self.region, self._endpoint(service))
            return self._clients[service]

    def arn(self, service: str, rest: str, *, region: str | None = None) -> str:
        """Return an ARN in this account; `region=""` for a service without regions."""
        return f"arn:{PARTITION}:{service}:{self.region if region is None else region}:{self.number}:{rest}"

    def _endpoint(self, service: str) -> str:
        """Return the endpoint of a service; never AWS."""
        said = [endpoints.get(service) for endpoints in self._config.get("endpoints") or []]
        environment = (os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}"), os.environ.get("AWS_ENDPOINT_URL"))
        found = next((one for one in (*said, *environment) if one), None)
        if found is None:
            raise RackwrightError(
                f"the stand-in for the aws provider has no endpoint for {service}: it never talks to AWS",
                hint="start the moto server of tests/standins and set AWS_ENDPOINT_URL to it",
            )
        if urlsplit(found).hostname not in _HERE:
            raise RackwrightError(
                f"the stand-in for the aws provider will not talk to {found}: it is for a moto server on this machine",
                hint="set AWS_ENDPOINT_URL to http://127.0.0.1:PORT",
            )
        return str(found)


def configured(arguments: dict[str, Any]) -> Account:
    """Return the account of the provider's inputs; structured ones arrive as JSON text."""
    return Account({key: _parsed(value) for key, value in arguments.items() if value is not None})


def gone(error: ClientError) -> bool:
    """Return whether the error reports a resource that does not exist."""
    return any(word in error.response["Error"]["Code"] for word in _GONE)


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        return json.loads(value)
    return value


def _client(service: str, region: str, endpoint: str) -> Any:
    config = botocore.client.Config(
        max_pool_connections=64, retries={"max_attempts": 1, "mode": "standard"}, s3={"addressing_style": "path"}
    )
    session = boto3.Session(aws_access_key_id="standin", aws_secret_access_key="standin", region_name=region)
    return session.client(service, endpoint_url=endpoint, config=config)
