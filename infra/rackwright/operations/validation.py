"""Validation of a stack file: offline by the rules, and on request by queries of its AWS account."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rackwright.errors import InputError
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity
from rackwright.model.targets.aws import AwsTarget
from rackwright.operations.stack import ValidatedStack, load_and_validate
from rackwright.stackfile.load import LoadedStack


@dataclass(frozen=True, slots=True)
class Validation:
    """A stack with all its findings."""

    stack: ValidatedStack
    account_unknown: bool = False
    """Whether AWS could not be queried, although the stack file itself has no errors."""


def validate(name_or_path: str, *, online: bool) -> Validation:
    """Return the findings of a stack by name or path; with `online` those of its AWS account as well.

    A missing file is a finding, and so is an account that cannot be queried.
    """
    offline = _load(name_or_path)
    if not online or offline.loaded.cluster is None:
        return Validation(offline)
    findings, unknown = _query_account(offline.loaded.stack, offline.loaded.cluster)
    return Validation(replace(offline, findings=(*offline.findings, *findings)), account_unknown=unknown and offline.ok)


def _load(name_or_path: str) -> ValidatedStack:
    try:
        return load_and_validate(name_or_path)
    except InputError as missing:
        finding = Finding(Severity.ERROR, "stack-file", missing.path, missing.cause, missing.hint)
        return ValidatedStack(LoadedStack(name_or_path, None, (finding,)), (finding,))


def _query_account(stack: str, cluster: Cluster) -> tuple[tuple[Finding, ...], bool]:
    """Return the findings of the AWS queries, and whether AWS could not be queried at all."""
    if not isinstance(cluster.target, AwsTarget):
        cause = f"target {cluster.target.kind} has no online checks"
        return (Finding(Severity.INFO, "online-account", "target.kind", cause, "use --online with target aws"),), False
    from rackwright.drivers.aws import account_checks
    from rackwright.drivers.aws.account import Account, AwsCredentialsError

    context = account_checks.AccountCheckContext(Account(cluster.target.region), cluster, cluster.target, stack, datetime.now(UTC))
    try:
        return tuple(account_checks.run_checks(context)), False
    except AwsCredentialsError as refused:
        return (account_checks.no_account(refused),), True
