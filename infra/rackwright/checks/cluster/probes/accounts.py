"""Probe of local accounts: names, numbers, homes and shells. Password hashes are never read, only whether a password is empty."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext

ORDINARY = range(1000, 60000)
"""Range of the user IDs of people (UID_MIN and UID_MAX of login.defs; 65534 is nobody)."""


@dataclass(frozen=True)
class Account:
    """One line of the account database."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True)
class Home:
    """The home directory of an account, if it exists."""

    path: str
    kind: str
    uid: int
    mode: int


@dataclass(frozen=True)
class Accounts:
    """All accounts of a node."""

    accounts: dict[str, Account]
    without_password: tuple[str, ...]
    """Accounts with an empty password, which allow a login without one."""
    groups: dict[str, tuple[str, ...]]
    """Members by group, without those whose primary group it is."""
    gids: dict[str, int]
    homes: dict[str, Home]
    keys: dict[str, frozenset[str]]
    """Type and base64 of the public keys that root installed for each user, without options and comments."""

    def named(self, wanted: set[str]) -> dict[str, Account]:
        """Return the wanted accounts that exist."""
        return {name: account for name, account in self.accounts.items() if name in wanted}


def parse_accounts(text: str) -> Accounts:
    """Return accounts from five sections that begin with `== name`: passwd, empty, group, homes, keys. `== shadow N` counts passwords."""
    sections: dict[str, list[str]] = {}
    for line in text.split("\n"):  # names and comments may contain characters at which splitlines() splits lines
        if line.startswith("== "):
            sections[line[3:]] = []
        elif line:
            sections[list(sections)[-1]].append(line)
    accounts = [_account(line) for line in sections["passwd"]]
    if not any(account.uid == 0 for account in accounts):
        raise ValueError("root is not listed")
    if not any(re.fullmatch(r"shadow [1-9]\d*", section) for section in sections):
        raise ValueError("no password was read")
    groups = [line.split(":") for line in sections["group"]]
    if not any(group[2] == "0" for group in groups):
        raise ValueError("the group of root is not listed")
    members = {name: tuple(filter(None, who.split(","))) for name, _, _, who in groups}
    gids = {name: int(gid) for name, _, gid, _ in groups}
    homes = {home.path: home for home in (_home(line) for line in sections["homes"])}
    keys: dict[str, frozenset[str]] = {}
    for line in sections["keys"]:
        name, mark, key = line.partition("|")
        if not mark:
            raise ValueError(f'"{line}" is no key of a user')
        keys[name] = keys.get(name, frozenset()) | ({public_key(key)} if key.strip() and not key.startswith("#") else set())
    return Accounts({account.name: account for account in accounts}, tuple(sections["empty"]), members, gids, homes, keys)


def public_key(line: str) -> str:
    """Return type and base64 of a line of authorized_keys.

    >>> public_key('restrict,command="echo hi" ssh-ed25519 AAAAC3 alice@desk')
    'ssh-ed25519 AAAAC3'
    """
    words = line.split()
    kind = next((number for number, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))), None)
    if kind is None or kind + 1 >= len(words):
        raise ValueError("no public key")
    return f"{words[kind]} {words[kind + 1]}"


def _account(line: str) -> Account:
    name, _, uid, gid, _, home, shell = line.split(":")
    return Account(name, int(uid), int(gid), home, shell)


def _home(line: str) -> Home:
    path, uid, mode, kind = line.split("|")
    return Home(path, kind, int(uid), int(mode, 8))


def _command(context: ProbeContext) -> str:
    names = " ".join(user["name"] for user in context.declared.cluster.get("users") or ())
    return (
        "echo '== passwd'; getent passwd; echo '== empty'; awk -F: '$2 == \"\" {print $1} END {print \"== shadow \" NR}' /etc/shadow; "
        "echo '== group'; getent group; echo '== homes'; "
        f'for n in {names}; do h=$(getent passwd $n | cut -d: -f6); [ -n "$h" ] && stat -L -c "%n|%u|%a|%F" "$h"; done 2>/dev/null; '
        f"echo '== keys'; cd /etc/ssh/authorized_keys.d 2>/dev/null && for n in {names}; do [ -e $n ] && sed \"s/^/$n|/\" $n; done; true"
    )


ACCOUNTS = Probe("accounts", on="nodes", command=_command, parse=parse_accounts)
