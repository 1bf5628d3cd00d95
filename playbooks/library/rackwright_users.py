"""The cluster's users and their groups on one node, in one task.

Same numbers on every node, no passwords. A user who is no longer declared is expired, not deleted: files keep their owner, and a
number is not given away twice by accident. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rackwright_users
short_description: The cluster's users on one node
options:
  users:
    description: Users with C(name), C(uid), C(gid) (of the group of the same name) and C(shell).
    type: list
    elements: dict
    required: true
  home:
    description: Where home directories are made.
    type: path
    default: /home
  known:
    description: Where the names of the users that this module has made are kept, so that it knows who has left.
    type: path
    default: /var/lib/rackwright/users.json
"""

RETURN = r"""
changes: {description: What was, or in check mode would be, done, in words., returned: always, type: list}
"""

USER = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "gid": {"type": "int", "required": True},
    "shell": {"type": "path", "default": "/bin/bash"},
}
ARGUMENTS = {
    "users": {"type": "list", "elements": "dict", "required": True, "options": USER},
    "home": {"type": "path", "default": "/home"},
    "known": {"type": "path", "default": "/var/lib/rackwright/users.json"},
}
EXPIRED = "1"  # the second of January 1970: an expired account refuses keys as well as passwords


class UserError(Exception):
    """A user that cannot be brought to the declared state: where, what, what now."""


class Database(NamedTuple):
    """The node's users and groups as they are."""

    users: dict[str, pwd.struct_passwd]
    groups: dict[str, grp.struct_group]
    expiries: dict[str, str]


class Step(NamedTuple):
    """One command, with what it is for in words."""

    what: str
    command: tuple[str, ...]


def read_database(shadow: str = "/etc/shadow") -> Database:
    """The node's local users and groups, one look at each file."""
    with open(shadow, encoding="utf-8") as stream:
        fields = [line.rstrip("\n").split(":") for line in stream]
    return Database(
        users={user.pw_name: user for user in pwd.getpwall()},
        groups={group.gr_name: group for group in grp.getgrall()},
        expiries={line[0]: line[7] for line in fields if len(line) > 7},
    )


def steps_for(user: dict[str, Any], home: str, database: Database) -> list[Step]:
    """What brings one user and the group of the same name to the declared state."""
    name, uid, gid = user["name"], user["uid"], user["gid"]
    for other in database.users.values():
        if other.pw_uid == uid and other.pw_name != name:
            raise UserError(f"user {name}: uid {uid} belongs to {other.pw_name} on this node - choose another in the stack file")
    for other_group in database.groups.values():
        if other_group.gr_gid == gid and other_group.gr_name != name:
            raise UserError(
                f"user {name}: gid {gid} belongs to group {other_group.gr_name} on this node - choose another in the stack file"
            )
    return [*group_steps(name, gid, database), *user_steps(user, home, database)]


def group_steps(name: str, gid: int, database: Database) -> list[Step]:
    """What brings the user's own group to its number."""
    group = database.groups.get(name)
    if group is None:
        return [Step(f"make group {name}", ("groupadd", "--gid", str(gid), name))]
    if group.gr_gid != gid:
        return [Step(f"give group {name} gid {gid}", ("groupmod", "--gid", str(gid), name))]
    return []


def user_steps(user: dict[str, Any], home: str, database: Database) -> list[Step]:
    """What brings the user's entry to the declared values."""
    name, uid, gid, shell = user["name"], str(user["uid"]), str(user["gid"]), user["shell"]
    live = database.users.get(name)
    if live is None:
        words = ("useradd", "--uid", uid, "--gid", gid, "--shell", shell, "--create-home", "--home-dir", os.path.join(home, name), name)
        return [Step(f"make user {name}", words)]
    steps = []
    if (live.pw_uid, live.pw_gid, live.pw_shell) != (user["uid"], user["gid"], shell):
        words = ("usermod", "--uid", uid, "--gid", gid, "--shell", shell, name)
        steps.append(Step(f"give user {name} uid {uid}, gid {gid}, shell {shell}", words))
    if database.expiries.get(name):
        steps.append(Step(f"let user {name} in again", ("usermod", "--expiredate", "", name)))
    return steps


def leaving_steps(declared: set[str], known: list[str], database: Database) -> list[Step]:
    """What shuts out users that were made here and are no longer declared."""
    gone = [name for name in known if name not in declared and name in database.users]
    return [
        Step(f"shut out user {name}, who is no longer declared", ("usermod", "--expiredate", EXPIRED, name))
        for name in gone
        if not database.expiries.get(name)
    ]


def read_known(path: str) -> list[str]:
    """Users that were made here before."""
    try:
        with open(path, encoding="utf-8") as stream:
            known = json.load(stream)
    except FileNotFoundError:
        return []
    return [str(name) for name in known]


def write_known(path: str, names: list[str]) -> None:
    """Remembers who was made here."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump(names, stream)
    os.replace(f"{path}.new", path)


def carry_out(step: Step) -> None:
    """Runs one step."""
    done = subprocess.run(step.command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{step.what}: {step.command[0]} says: {(done.stderr or done.stdout).strip()}")


def bring_about(wanted: dict[str, Any], check: bool) -> list[str]:
    """What was done, in words."""
    database, known = read_database(), read_known(wanted["known"])
    declared = [user["name"] for user in wanted["users"]]
    steps = [step for user in wanted["users"] for step in steps_for(user, wanted["home"], database)]
    steps += leaving_steps(set(declared), known, database)
    everyone = sorted({*known, *declared})
    if not check:
        if everyone != known:
            write_known(wanted["known"], everyone)  # first, so that a killed run forgets nobody whom it made
        for step in steps:
            carry_out(step)
    return [step.what for step in steps] + (["remember who is known here"] if everyone != known and not steps else [])


def main() -> None:
    """One task."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        actions = bring_about(module.params, bool(module.check_mode))
    except UserError as error:
        module.fail_json(msg=str(error))
    told: dict[str, Any] = {"changed": bool(actions), "changes": actions}
    if module._diff and actions:
        told["diff"] = {"prepared": "".join(f"{action}\n" for action in actions)}
    module.exit_json(**told)


if __name__ == "__main__":
    main()
