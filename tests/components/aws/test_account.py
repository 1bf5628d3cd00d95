"""AWS's refusals, and what boto3 raises where AWS is not reached: where, what, what now, and never a traceback."""

from __future__ import annotations

import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError

from rackwright.drivers.aws.account import Account, AwsAccessDeniedError, AwsCredentialsError, AwsRequestError, translate_errors
from rackwright.errors import UndeterminedError


def translate(raised: Exception) -> UndeterminedError:
    """Return the translated error."""
    with pytest.raises(UndeterminedError) as error, translate_errors("ec2:describe_images"):
        raise raised
    assert error.value.path == "ec2:describe_images" and error.value.cause and error.value.hint
    return error.value


def aws_error(code: str) -> exceptions.ClientError:
    """Return an error of AWS."""
    return exceptions.ClientError({"Error": {"Code": code, "Message": "Because."}}, "DescribeImages")


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (aws_error("UnauthorizedOperation"), AwsAccessDeniedError, "allow the action `ec2:DescribeImages`"),
        (aws_error("ExpiredToken"), AwsCredentialsError, "does not accept the credentials: Because\n  log in"),
        (aws_error("Throttling"), AwsRequestError, "AWS returned Throttling: Because"),
        (exceptions.NoCredentialsError(), AwsCredentialsError, "log in (`aws sso login`)"),
        (exceptions.ProfileNotFound(profile="work"), AwsCredentialsError, "(work) could not be found\n  log in"),
        (exceptions.EndpointConnectionError(endpoint_url="https://ec2.nowhere"), AwsCredentialsError, "AWS does not respond"),
        (exceptions.NoRegionError(), AwsCredentialsError, "check the AWS settings"),
        (exceptions.WaiterError("InstanceTerminated", "Max attempts exceeded", {}), AwsRequestError, "run the command again later"),
        (ResponseParserError("<html>"), AwsRequestError, "a proxy may stand between"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_boto3_errors_are_translated(raised: Exception, kind: type[UndeterminedError], words: str) -> None:
    error = translate(raised)
    assert type(error) is kind
    assert words in str(error)


def test_other_exceptions_are_not_translated() -> None:
    """Only errors of AWS and boto3 are translated."""
    with pytest.raises(KeyError), translate_errors("ec2:describe_images"):
        raise KeyError("x")


def test_missing_credentials_are_reported(no_account: None) -> None:
    with pytest.raises(AwsCredentialsError, match="Unable to locate credentials"):
        Account("us-east-1").identity()
