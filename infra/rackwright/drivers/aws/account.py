"""AWS account of the environment's credentials, and AWS's errors with a cause and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from rackwright.errors import UndeterminedError

_CREDENTIALS: Final = "log in (`aws sso login`), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_REFUSED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException"})
_BAD_CREDENTIALS: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


class AwsCredentialsError(UndeterminedError):
    """Credentials are missing or rejected, or AWS does not respond: no further query can succeed."""


class AwsAccessDeniedError(UndeterminedError):
    """The credentials do not allow the call."""


class AwsRequestError(UndeterminedError):
    """AWS returned an error."""

    def __init__(self, cause: str, *, code: str, path: str = "", hint: str = "") -> None:
        super().__init__(cause, path=path, hint=hint)
        self.code = code


class Account:
    """Clients of one region; each is created once."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._made: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Return a boto3 client. Its calls run inside `translate_errors`."""
        if service not in self._made:
            with translate_errors(service):
                self._made[service] = _client(service, self.region)
        return self._made[service]

    def ask(self, service: str, call: str, **arguments: Any) -> dict[str, Any]:
        """Return the response of one call."""
        with translate_errors(f"{service}:{call}"):
            answer: dict[str, Any] = getattr(self.client(service), call)(**arguments)
        return answer

    def every(self, service: str, call: str, key: str, **arguments: Any) -> Iterable[dict[str, Any]]:
        """Return all items of a call with pages."""
        with translate_errors(f"{service}:{call}"):
            pages = list(self.client(service).get_paginator(call).paginate(**arguments))
        return [item for page in pages for item in page.get(key, [])]

    def wait(self, service: str, until: str, **arguments: Any) -> None:
        """Wait for a state that AWS reports. Raise AwsRequestError if it is not reached."""
        with translate_errors(f"{service}:{until}"):
            self.client(service).get_waiter(until).wait(**arguments)

    def identity(self) -> tuple[str, str]:
        """Return account number and caller ARN. Raise AwsCredentialsError without working credentials."""
        response = self.ask("sts", "get_caller_identity")
        return response["Account"], response["Arn"]


def _client(service: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": 5})
    return boto3.session.Session().client(service, region_name=region, config=config)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Translate botocore's errors into place, cause and hint. `what` is the call, like `ec2:describe_images`."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        yield
    except exceptions.ClientError as answer:
        raise _error_of(what, answer) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as silent:
        hint = "check the network, the region's name and AWS_ENDPOINT_URL"
        raise AwsCredentialsError(f"AWS does not respond: {silent}", path=what, hint=hint) from None
    except ResponseParserError:
        hint = "a proxy may stand between here and AWS; check the network and AWS_ENDPOINT_URL"
        raise AwsRequestError("the response is not AWS's: it cannot be parsed", code="Unreadable", path=what, hint=hint) from None
    except exceptions.WaiterError as waited:
        raise AwsRequestError(str(waited), code="WaiterError", path=what, hint="run the command again later") from None
    except exceptions.BotoCoreError as unusable:
        hint = (
            _CREDENTIALS
            if isinstance(unusable, _about_credentials())
            else "this is boto3's message; check the AWS settings in the environment"
        )
        raise AwsCredentialsError(str(unusable).rstrip("."), path=what, hint=hint) from None


@cache
def _about_credentials() -> tuple[type[Exception], ...]:
    from botocore import exceptions

    return (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.ProfileNotFound,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
    )


def _error_of(what: str, answer: Any) -> UndeterminedError:
    code, message = answer.response["Error"]["Code"], answer.response["Error"].get("Message", "").rstrip(".")
    if code in _BAD_CREDENTIALS:
        return AwsCredentialsError(f"AWS does not accept the credentials: {message or code}", path=what, hint=_CREDENTIALS)
    if code in _REFUSED:
        return AwsAccessDeniedError(
            "these credentials do not allow the call", path=what, hint=f"allow the action `{_action(what)}`, or use other credentials"
        )
    return AwsRequestError(f"AWS returned {code}: {message}", code=code, path=what, hint="message of AWS; run the command again")


_PREFIXES: Final = {"service-quotas": "servicequotas", "resourcegroupstaggingapi": "tag"}
_ACTIONS: Final = {"budgets:describe_budgets": "budgets:ViewBudget", "budgets:delete_budget": "budgets:ModifyBudget"}
"""Calls whose IAM action has another name than the API call (Service Authorization Reference)."""


def _action(what: str) -> str:
    """Return the IAM action of a call.

    >>> _action("service-quotas:get_service_quota")
    'servicequotas:GetServiceQuota'
    """
    service, _, call = what.partition(":")
    camel = "".join(part.capitalize() for part in call.split("_"))
    return _ACTIONS.get(what, f"{_PREFIXES.get(service, service)}:{camel}")
