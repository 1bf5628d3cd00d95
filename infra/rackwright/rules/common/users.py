"""Users: unique IDs and names, valid keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright import catalog
from rackwright.model.finding import Severity
from rackwright.model.public_keys import fault_of, fingerprint
from rackwright.rules.registry import RuleContext, Violation, rule

FIRST_UID: Final = 1000
"""First id of ordinary users (login.defs(5), UID_MIN)."""
LAST_UID: Final = 60000
"""Debian's useradd ends here (login.defs); systemd assigns ids above 60000 to homes and services, and 65534 is `nobody`."""
_FIRST_HIGH: Final = 65536
_LAST_HIGH: Final = 2**31 - 1
"""Ids of directories such as Active Directory: beyond 16 bits, and signed, as some file systems and tools store them."""
_SUBORDINATE: Final = 100_000
"""First id that useradd assigns to the containers of ordinary users (login.defs(5), SUB_UID_MIN and SUB_GID_MIN)."""


def _is_ordinary(number: int) -> bool:
    return FIRST_UID <= number <= LAST_UID or _FIRST_HIGH <= number <= _LAST_HIGH


def _range() -> str:
    return f"use {FIRST_UID} to {LAST_UID}, or an id of a directory from {_FIRST_HIGH} on"


@rule("uid-range")
def uid_range(case: RuleContext) -> Iterator[Violation]:
    """Lower ids belong to the system; higher ones are assigned at run time."""
    for name, user in case.cluster.users.items():
        if not _is_ordinary(user.uid):
            yield Violation(f"users.{name}.uid", f"{user.uid} is not a UID for ordinary users", _range())


@rule("uid-subordinate", Severity.WARNING)
def uid_subordinate(case: RuleContext) -> Iterator[Violation]:
    """Processes of a rootless container run under subordinate ids: one of them could be the user's."""
    software = case.cluster.software
    rootless = [runtime.value for runtime in software.containers if runtime.value != "docker"] if software else []
    for name, user in case.cluster.users.items():
        if rootless and user.uid >= _SUBORDINATE:
            cause = f"{user.uid} may be a subordinate id of another user's containers ({', '.join(rootless)})"
            hint = f"use an id below {_SUBORDINATE}, or check that /etc/subuid on the nodes does not include it"
            yield Violation(f"users.{name}.uid", cause, hint)


@rule("duplicate-uid")
def duplicate_uid(case: RuleContext) -> Iterator[Violation]:
    """File systems treat two users with one id as one user."""
    first: dict[int, str] = {}
    for name, user in case.cluster.users.items():
        other = first.setdefault(user.uid, name)
        if other != name:
            yield Violation(f"users.{name}.uid", f"{user.uid} is also the UID of {other}", "use a unique UID for each user")


@rule("user-reserved")
def user_reserved(case: RuleContext) -> Iterator[Violation]:
    """These names already exist on every node."""
    for name in case.cluster.users:
        if name in catalog.accounts():
            yield Violation(f"users.{name}", f"`{name}` is a system account", "choose another name")


@rule("privileged-user-group")
def privileged_user_group(case: RuleContext) -> Iterator[Violation]:
    """Members of these groups can become root without the setting `admin`."""
    for name, user in case.cluster.users.items():
        for group in user.groups:
            if catalog.accounts().get(group, False):
                yield Violation(f"users.{name}.groups", f"members of group {group} can become root", "use `admin: true` instead")


@rule("user-group-unknown")
def user_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """A group without a number would have another one on every node, and files of a shared file system another owner."""
    for name, user in case.cluster.users.items():
        for group in user.groups:
            if group not in case.cluster.user_groups and group not in catalog.accounts():
                hint = f"declare it with its GID: `user_groups: {{{group}: {{gid: 3001}}}}`"
                yield Violation(f"users.{name}.groups", f"there is no group `{group}`", hint)


@rule("user-group-gid")
def user_group_gid(case: RuleContext) -> Iterator[Violation]:
    """A user's own group has the user's id; file systems treat two groups with one id as one group."""
    first = {user.uid: f"user {name}" for name, user in case.cluster.users.items()}
    for name, group in case.cluster.user_groups.items():
        owner = first.setdefault(group.gid, f"group {name}")
        if not _is_ordinary(group.gid):
            yield Violation(f"user_groups.{name}.gid", f"{group.gid} is not a GID for ordinary groups", _range())
        elif owner != f"group {name}":
            yield Violation(f"user_groups.{name}.gid", f"{group.gid} is also the ID of {owner}", "use a unique GID for each group")


@rule("user-group-name")
def user_group_name(case: RuleContext) -> Iterator[Violation]:
    """Every user has a group of the same name, and the system has its own."""
    for name in case.cluster.user_groups:
        if name in case.cluster.users:
            yield Violation(f"user_groups.{name}", f"user {name} already has a group of this name", "choose another name")
        elif name in catalog.accounts():
            yield Violation(f"user_groups.{name}", f"`{name}` is a system group", "choose another name")


@rule("ssh-key")
def ssh_key(case: RuleContext) -> Iterator[Violation]:
    """A key that sshd cannot read locks the user out without a message."""
    for name, user in case.cluster.users.items():
        for index, key in enumerate(user.ssh_keys):
            wrong = fault_of(key)
            if wrong:
                hint = "enter the content of ~/.ssh/id_ed25519.pub: type, base64, comment, on one line"
                yield Violation(f"users.{name}.ssh_keys[{index}]", wrong, hint)


@rule("ssh-key-shared", Severity.WARNING)
def ssh_key_shared(case: RuleContext) -> Iterator[Violation]:
    """If two users share a key, logs do not show which of them logged in."""
    first: dict[str, str] = {}
    for name, user in case.cluster.users.items():
        for index, key in enumerate(user.ssh_keys):
            other = first.setdefault(fingerprint(key) or key, name)
            if other != name:
                yield Violation(f"users.{name}.ssh_keys[{index}]", f"is also a key of {other}", "use a separate key for each user")


@rule("users-missing", Severity.WARNING)
def users_missing(case: RuleContext) -> Iterator[Violation]:
    """Jobs are submitted, and proven at level smoke, by an ordinary user."""
    if not case.cluster.users and not case.is_runner:
        yield Violation("users", "no ordinary user is declared to submit jobs", "add a user: `users: {alice: {uid: 2001}}`")
