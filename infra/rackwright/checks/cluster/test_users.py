"""The planned users exist on every node, identically, and no others."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import Lines, quoted
from rackwright.checks.cluster.probes.accounts import ACCOUNTS, ADMIN_GROUPS, public_key
from rackwright.errors import UndeterminedError


def test_uids_match_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A shared file system identifies users by UID: another UID on one node is another owner."""
    found = ask(ACCOUNTS).named({user.name for user in cluster.users})
    expect(
        Lines({name: f"{account.uid}:{account.gid}" for name, account in found.items()}, found.unread),
        {user.name: f"{user.uid}:{user.gid}" for user in cluster.users},
    )


def test_shells_match_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A user whose login shell does not exist cannot log in."""
    found = ask(ACCOUNTS).named({user.name for user in cluster.users})
    shells = {name: account.shell or "/bin/sh" for name, account in found.items()}  # passwd(5): an empty shell means /bin/sh
    expect(Lines(shells, found.unread), {user.name: user.shell for user in cluster.users})


def test_groups_match_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A shared file system identifies groups by GID, and members can read the group's files."""
    answer, planned = ask(ACCOUNTS), {group.name: group.gid for group in cluster.user_groups}
    found = {name: (answer.gids[name], set(answer.groups[name])) for name in planned if name in answer.gids}
    members = {name: {user.name for user in cluster.users if name in user.groups} for name in planned}
    expect(Lines(found, answer.gids.unread), {name: (gid, members[name]) for name, gid in planned.items()})


def test_keys_match_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A key that was removed from the plan must no longer permit login. Keys that users add in their home directories are not checked."""
    found, planned = ask(ACCOUNTS).keys, {user.name: {public_key(key) for key in user.ssh_keys} for user in cluster.users}
    shown = {name: set(found.get(name, ())) for name in {**planned, **found} if name in found or not planned[name]}
    expect(Lines(shown, found.unread), {name: planned.get(name, set()) for name in {**planned, **found}})


def test_homes_belong_to_their_users(cluster: Record, ask: Ask, expect: Expect) -> None:
    """sshd rejects keys in a home directory that others may write, and jobs fail in one that does not exist."""
    answer = ask(ACCOUNTS)
    wrong, unread = [], [*answer.accounts.unread, *answer.homes.unread]
    for user in cluster.users:
        account = answer.accounts.get(user.name)
        home = answer.homes.get(account.home) if account else None
        if home is None and unread:
            continue
        if home is None or home.kind != "directory":
            wrong.append(f"{user.name} has no home")
        elif home.uid != user.uid or home.mode & 0o022:
            wrong.append(f"{home.path} has owner {home.uid} and mode {home.mode:o}")
    expect(wrong, "owned by the user, not writable by others", holds=not wrong)
    _refuse_unread(*unread)


def test_no_unmanaged_accounts(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """An account outside the plan is unmonitored access."""
    planned = {node.user, *(user.name for user in cluster.users)}
    accounts = ask(ACCOUNTS).accounts
    expect([account.name for account in accounts.values() if account.is_ordinary and account.name not in planned], [])
    _refuse_unread(*accounts.unread)


def test_no_password_is_empty(ask: Ask, expect: Expect) -> None:
    """An account with an empty password is open to everyone."""
    expect(ask(ACCOUNTS).without_password, ())


def test_single_uid_zero(ask: Ask, expect: Expect) -> None:
    """A second account with UID 0 is root under a name that audits overlook."""
    accounts = ask(ACCOUNTS).accounts
    expect([account.name for account in accounts.values() if account.uid == 0], ["root"])
    _refuse_unread(*accounts.unread)


def test_admins_match_plan(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """The plan defines who may become root."""
    answer = ask(ACCOUNTS)
    admins = {member for group in ADMIN_GROUPS for member in answer.members_of(group)} - {node.user}
    expect(admins, {user.name for user in cluster.users if user.admin})
    _refuse_unread(*answer.groups.unread, *answer.accounts.unread)


def _refuse_unread(*lines: str) -> None:
    """Raise UndeterminedError for a line that was not read: it may name another account."""
    if lines:
        raise UndeterminedError(f'a line cannot be read: "{quoted(lines[0])}"')
