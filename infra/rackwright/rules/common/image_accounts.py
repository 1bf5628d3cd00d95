"""Accounts that exist on nodes before the first converge: the image's own user, and the user of the first login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.catalog.image_accounts import ImageAccount, image_account
from rackwright.model.finding import Severity
from rackwright.model.targets.aws import AwsTarget
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_ROOT: Final = "root"


def _login_users(case: RuleContext) -> dict[tuple[str, str], str]:
    """Map operating system and login user, without root, to the first node that has the pair."""
    target, found = case.cluster.target, dict[tuple[str, str], str]()
    for member in case.members:
        machine = target.machine_by_node.get(member.name) if isinstance(target, HostsTarget) else None
        declared = target.user if isinstance(target, HostsTarget) else target.bootstrap_user
        name = (machine.user if machine else None) or declared
        if name != _ROOT:
            found.setdefault((target.os_of(member.name), name), member.name)
    return found


def _accounts(case: RuleContext) -> dict[ImageAccount, str]:
    """Map the known accounts of the nodes' images to the first node that has the account."""
    known = {image_account(*pair): node for pair, node in _login_users(case).items()}
    return {account: node for account, node in known.items() if account is not None}


@rule("login-user-declared")
def login_user_declared(case: RuleContext) -> Iterator[Violation]:
    """The role `users` would change the account with which the playbooks log in: its id, its shell and its right to use sudo."""
    for name in dict.fromkeys(name for _, name in _login_users(case)):
        cause = f"`{name}` is the login user of the machines, whose account the role would change, and delete when it leaves `users`"
        if name in case.cluster.users:
            yield Violation(f"users.{name}", cause, "choose another name; the login user belongs to the machine, not to the cluster")


@rule("login-user-group")
def login_user_group(case: RuleContext) -> Iterator[Violation]:
    """The login user has a group of the same name, and groupmod(8) would change its id."""
    for name in dict.fromkeys(name for _, name in _login_users(case)):
        if name in case.cluster.user_groups:
            yield Violation(f"user_groups.{name}", f"the login user {name} already has a group of this name", "choose another name")


@rule("image-account-id")
def image_account_id(case: RuleContext) -> Iterator[Violation]:
    """Instances start from the image that the target declares, so that the ids of its user are taken."""
    if isinstance(case.cluster.target, AwsTarget):
        yield from _id_conflicts(case, "has")


@rule("machine-account-id", Severity.WARNING)
def machine_account_id(case: RuleContext) -> Iterator[Violation]:
    """An existing machine was probably installed from such an image; only the machine knows the id of its user."""
    if isinstance(case.cluster.target, HostsTarget):
        yield from _id_conflicts(case, "usually has")


def _id_conflicts(case: RuleContext, verb: str) -> Iterator[Violation]:
    """Yield a violation for each user and each group whose id an account of an image has."""
    for account, node in _accounts(case).items():
        image = f"of the {account.os} image {verb}" if account.os else f"of such images {verb}"
        for name, user in case.cluster.users.items():
            if user.uid == account.uid and name != account.name:
                yield _violation(f"users.{name}.uid", f"user {account.name} {image} UID {account.uid}", node, account)
        for name, group in case.cluster.user_groups.items():
            if group.gid == account.gid and name != account.name:
                yield _violation(f"user_groups.{name}.gid", f"group {account.name} {image} GID {account.gid}", node, account)


def _violation(path: str, cause: str, node: str, account: ImageAccount) -> Violation:
    hint = f"use an id above {max(account.uid, account.gid)}, for example from 2001; `id {account.name}` on {node} prints the ids there"
    return Violation(path, cause, hint)
