"""Probe of local accounts: names, numbers, homes and shells. Password hashes are never read, only whether a password is empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, is_cut
from rackwright.model.public_keys import is_type, split_line

T = TypeVar("T")

_FIRST: Final = 1000
"""First user ID of people (login.defs(5), UID_MIN)."""
_LAST: Final = 60000
"""Last user ID that useradd(8) assigns to people (login.defs(5), UID_MAX). Sites with a directory of their own use higher ones, too."""
_NOBODY: Final = frozenset({65534, 65535, 2**32 - 2, 2**32 - 1})
"""User IDs of `nobody` and `nfsnobody`, and those that mean no user (credentials(7), chown(2))."""
ADMIN_GROUPS: Final = ("sudo", "wheel", "admin")
"""Groups whose members may become root: /etc/sudoers of Debian, of Enterprise Linux, and of Ubuntu, which has `%admin`, too."""
_NO_LOGIN: Final = frozenset({"nologin", "false", "true", "sync"})
"""Names of shells that permit no login: packages use them for accounts with IDs above 60000 (Debian Policy 9.2.2; snapd)."""


@dataclass(frozen=True)
class Account:
    """One line of the account database."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @property
    def is_ordinary(self) -> bool:
        """Return whether the account is a person's: an ID of people, or a higher one with a shell that permits login."""
        if self.uid < _FIRST or self.uid in _NOBODY:
            return False
        return self.uid <= _LAST or self.shell.rpartition("/")[2] not in _NO_LOGIN


@dataclass(frozen=True)
class Home:
    """The home directory of an account, if it exists."""

    path: str
    kind: str
    uid: int
    mode: int


@dataclass(frozen=True)
class Accounts:
    """The local accounts of a node, without those of a directory service."""

    accounts: Lines[Account]
    without_password: tuple[str, ...]
    """Accounts with an empty password, which allow a login without one."""
    groups: Lines[tuple[str, ...]]
    """Members by group, without those whose primary group it is."""
    gids: Lines[int]
    homes: Lines[Home]
    keys: Lines[frozenset[str | UnreadableValue]]
    """Type and base64 of the public keys that root installed for each user, without options and comments."""

    def members_of(self, group: str) -> set[str]:
        """Return the members of a group, with those whose primary group it is."""
        gid = self.gids.get(group)
        return {*self.groups.get(group, ()), *(name for name, account in self.accounts.items() if account.gid == gid)}

    def named(self, wanted: set[str]) -> Lines[Account]:
        """Return the wanted accounts that exist."""
        return Lines({name: account for name, account in self.accounts.items() if name in wanted}, self.accounts.unread)


def parse_accounts(text: str) -> Accounts:
    """Return accounts from five sections that begin with `== name`: passwd, empty, group, homes, keys. `== shadow N` counts passwords.

    A line that cannot be read is kept as unread. Lines of NIS (`+`, `-`: passwd(5)) and comments name no account.
    """
    if is_cut(text):
        raise ValueError("the answer is cut")  # a shortened name or key is that of another user
    sections: dict[str, list[str]] = {}
    for line in text.split("\n"):  # names and comments may contain characters at which splitlines() splits lines
        if line.startswith("== "):
            sections[line[3:].rstrip("\r")] = []
        elif line.strip() and sections:
            sections[list(sections)[-1]].append(line.rstrip("\r"))
    accounts = _each(sections["passwd"], _account)
    if not any(account.uid == 0 for account in accounts.values()):
        raise ValueError("root is not listed")
    if not any(re.fullmatch(r"shadow [1-9]\d*", section) for section in sections):
        raise ValueError("no password was read")
    groups = _each(sections["group"], _group)
    if 0 not in (gid for gid, _ in groups.values()):
        raise ValueError("the group of root is not listed")
    open_ones = [line.split(":")[0] for line in sections["passwd"] if re.match(r"[^:+-][^:]*::", line)]  # passwd(5): no password at all
    empty = tuple(dict.fromkeys(name for name in [*sections["empty"], *open_ones] if not name.startswith(("+", "-"))))
    return Accounts(
        accounts,
        empty,
        Lines({name: members for name, (_, members) in groups.items()}, groups.unread),
        Lines({name: gid for name, (gid, _) in groups.items()}, groups.unread),
        _each(sections["homes"], _home),
        _keys(sections["keys"]),
    )


def _each(lines: Iterable[str], read: Callable[[str, Lines[T]], tuple[str, T]]) -> Lines[T]:
    """Return the values by name. The first account of a name counts, as in getpwnam(3). Unread lines are kept."""
    found = Lines[T]()
    unread: list[str] = []
    for line in lines:
        if line.lstrip().startswith(("#", "+", "-")):
            continue
        try:
            name, value = read(line, found)
        except ValueError:
            unread.append(line)
        else:
            found[name] = value
    found.unread = tuple(unread)
    return found


def _keys(lines: Iterable[str]) -> Lines[frozenset[str | UnreadableValue]]:
    keys = Lines[frozenset[str | UnreadableValue]]()
    for line in lines:
        name, mark, key = line.partition("|")
        if not mark:
            keys.unread += (line,)
            continue
        own: set[str | UnreadableValue] = set()
        if key.strip() and not key.lstrip().startswith("#"):
            try:
                own = {public_key(key)}
            except ValueError:  # sshd skips such a line
                own = {UnreadableValue(f"a key of {name}", key.strip(), line)}
        keys[name] = keys.get(name, frozenset()) | own
    return keys


def public_key(line: str) -> str:
    """Return type and base64 of a line of authorized_keys.

    >>> public_key('restrict,command="echo hi" ssh-ed25519 AAAAC3 alice@desk')
    'ssh-ed25519 AAAAC3'
    """
    key = split_line(line)
    if not is_type(key.kind) or not key.blob:
        raise ValueError("no public key")
    return f"{key.kind} {key.blob}"


def _account(line: str, found: Mapping[str, Account]) -> tuple[str, Account]:
    name, _, uid, gid, _, home, shell = line.split(":")
    return name, found.get(name) or Account(name, int(uid), int(gid), home, shell)


def _group(line: str, found: Mapping[str, tuple[int, tuple[str, ...]]]) -> tuple[str, tuple[int, tuple[str, ...]]]:
    """Return a group. Members of several lines are merged, as by nsswitch.conf(5) with `merge`."""
    name, _, number, who, *_ = [*line.split(":"), ""] if line.count(":") == 2 else line.split(":")
    gid, members = found.get(name, (int(number), ()))
    return name, (gid, tuple(dict.fromkeys([*members, *filter(None, (one.strip() for one in who.split(",")))])))


def _home(line: str, _: Mapping[str, Home]) -> tuple[str, Home]:
    path, uid, mode, kind = line.rsplit("|", 3)
    return path, Home(path, kind, int(uid), int(mode, 8))


def _command(context: ProbeContext) -> str:
    names = " ".join(user["name"] for user in context.declared.cluster.get("users") or ())
    return (
        "echo '== passwd'; getent -s files passwd; echo '== empty'; "
        'awk -F: \'$2 == "" {print $1} END {print "== shadow " NR}\' /etc/shadow; '
        "echo '== group'; getent group; echo '== homes'; "
        f'for n in {names}; do h=$(getent passwd $n | cut -d: -f6); [ -n "$h" ] && stat -L -c "%n|%u|%a|%F" "$h"; done 2>/dev/null; '
        f"echo '== keys'; cd /etc/ssh/authorized_keys.d 2>/dev/null && for n in {names}; do [ -e $n ] && sed \"s/^/$n|/\" $n; done; true"
    )


# `-s files`: users of a directory (SSSD with `enumerate`) are no accounts of this node, and listing them may take longer than a probe.
ACCOUNTS = Probe("accounts", on="nodes", command=_command, parse=parse_accounts)
