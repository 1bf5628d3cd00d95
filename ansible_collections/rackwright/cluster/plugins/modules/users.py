"""Manage the cluster's users and their groups on a node, in one task.

Ids are the same on every node; there are no passwords. The account of a user that is no longer declared is deleted, the files stay.
Accounts that this module did not create are not changed. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: users
short_description: Manage the cluster's users on a node
options:
  users:
    description:
      - Users with C(name), C(uid), C(gid) (of the group of the same name), C(shell), C(admin) (member of the admins' group) and C(groups)
        (further groups).
    type: list
    elements: dict
    required: true
  groups:
    description: Shared groups, with C(name) and C(gid). Only users that declare the group are members.
    type: list
    elements: dict
    default: []
  admins:
    description: Groups whose members may become root, by distribution; the first existing group is used.
    type: list
    elements: str
    default: [sudo, wheel]
  home:
    description: Parent folder of the home directories.
    type: path
    default: /home
  create_homes:
    description: Whether a new user gets a home directory; false if C(home) is on a server whose content is not to be changed.
    type: bool
    default: true
  known:
    description: File with the names of the users that this module created; used to detect removed users.
    type: path
    default: /var/lib/rackwright/users.json
  known_groups:
    description: File with the names of the groups that this module created or added users to.
    type: path
    default: /var/lib/rackwright/groups.json
notes:
  - C(ansible.builtin.user) in a loop takes one connection for each user, and cannot remove users that are no longer declared.
"""

EXAMPLES = r"""
- name: Manage the users of the cluster
  rackwright.cluster.users:
    groups:
      - {name: research, gid: 10100}
    users:
      - {name: alice, uid: 10001, gid: 10001, shell: /bin/bash, admin: true, groups: [research]}
      - {name: bob, uid: 10002, gid: 10002, shell: /bin/bash, admin: false, groups: []}
"""

RETURN = r"""
changes: {description: "Changes that were, or in check mode would be, made.", returned: always, type: list}
"""

USER = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "gid": {"type": "int", "required": True},
    "shell": {"type": "path", "default": "/bin/bash"},
    "admin": {"type": "bool", "default": False},
    "groups": {"type": "list", "elements": "str", "default": []},
}
GROUP = {"name": {"type": "str", "required": True}, "gid": {"type": "int", "required": True}}
ARGUMENTS = {
    "users": {"type": "list", "elements": "dict", "required": True, "options": USER},
    "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP},
    "admins": {"type": "list", "elements": "str", "default": ["sudo", "wheel"]},
    "home": {"type": "path", "default": "/home"},
    "create_homes": {"type": "bool", "default": True},
    "known": {"type": "path", "default": "/var/lib/rackwright/users.json"},
    "known_groups": {"type": "path", "default": "/var/lib/rackwright/groups.json"},
}


PASSWD = "/etc/passwd"


class UserError(Exception):
    """A user error: place, problem, hint."""


class Database(NamedTuple):
    """Current users and groups of the node."""

    users: dict[str, pwd.struct_passwd]
    groups: dict[str, grp.struct_group]
    foreign: frozenset[str] = frozenset()
    """Users that a directory service provides (SSSD, LDAP, NIS): no command of this node can change them."""


class Step(NamedTuple):
    """A command and its description."""

    what: str
    command: tuple[str, ...]


def read_database(wanted: dict[str, Any]) -> Database:
    """Return the node's users and groups, with those of a directory service that have a wanted name or number.

    A directory service lists its users only if configured to (sssd.conf(5), enumerate), but finds each by name and number.
    """
    users = {user.pw_name: user for user in pwd.getpwall()}
    groups = {group.gr_name: group for group in grp.getgrall()}
    for user in wanted["users"]:
        for person in (find(pwd.getpwnam, user["name"]), find(pwd.getpwuid, user["uid"])):
            users.update({} if person is None else {person.pw_name: person})
    for one in [*wanted["groups"], *wanted["users"]]:
        for group in (find(grp.getgrnam, one["name"]), find(grp.getgrgid, one["gid"])):
            groups.update({} if group is None else {group.gr_name: group})
    return Database(users, groups, frozenset(users) - local_names())


def find(query: Callable[[Any], Any], key: object) -> Any:
    """Return the entry of a name or number; None if there is none."""
    try:
        return query(key)
    except KeyError:
        return None


def local_names() -> frozenset[str]:
    """Return the names in /etc/passwd."""
    with open(PASSWD, encoding="utf-8", errors="replace") as stream:
        return frozenset(line.partition(":")[0] for line in stream)


def steps_for(user: dict[str, Any], home: str, admins: list[str], database: Database, *, create_homes: bool = True) -> list[Step]:
    """Return the steps for one user and the group of the same name."""
    name, uid, gid = user["name"], user["uid"], user["gid"]
    for other in database.users.values():
        if other.pw_uid == uid and other.pw_name != name:
            raise UserError(f"user {name}: uid {uid} belongs to {other.pw_name} on this node - choose another in the stack file")
    refuse_taken(f"user {name}", name, gid, database)
    return [
        *group_steps(name, gid, database),
        *user_steps(user, home, database, create_homes=create_homes),
        *admin_steps(user, admins, database),
    ]


def refuse_taken(whose: str, name: str, gid: int, database: Database) -> None:
    """Raise UserError if another group has the gid."""
    for other in database.groups.values():
        if other.gr_gid == gid and other.gr_name != name:
            raise UserError(f"{whose}: gid {gid} belongs to group {other.gr_name} on this node - choose another in the stack file")


def shared_steps(groups: list[dict[str, Any]], database: Database) -> list[Step]:
    """Return the steps for shared groups."""
    for group in groups:
        refuse_taken(f"group {group['name']}", group["name"], group["gid"], database)
    return [step for group in groups for step in group_steps(group["name"], group["gid"], database)]


def member_steps(wanted: dict[str, Any], known: list[str], database: Database) -> list[Step]:
    """Return the steps that add users to their further groups and remove others from known groups."""
    shared, steps = {group["name"] for group in wanted["groups"]}, []
    wanted_members = {name: [user["name"] for user in wanted["users"] if name in user["groups"]] for name in names_of_groups(wanted)}
    for name, members in wanted_members.items():
        if name not in database.groups and name not in shared:
            raise UserError(
                f"user {members[0]}: group {name} not found on this node"
                " - declare the group in `user_groups`, or install the package that creates it"
            )
    for name in dict.fromkeys([*wanted_members, *sorted(shared), *known]):
        live, members = database.groups[name].gr_mem if name in database.groups else [], wanted_members.get(name, [])
        steps += [Step(f"add user {user} to group {name}", ("gpasswd", "--add", user, name)) for user in members if user not in live]
        # In a system group, members that rackwright does not manage stay.
        ours = live if name in shared else [user["name"] for user in wanted["users"] if user["name"] in live]
        gone = [user for user in ours if user not in members]
        steps += [Step(f"remove user {user} from group {name}", ("gpasswd", "--delete", user, name)) for user in gone]
    return steps


def names_of_groups(wanted: dict[str, Any]) -> list[str]:
    """Return the further groups of all users, each once."""
    return list(dict.fromkeys(name for user in wanted["users"] for name in user["groups"]))


def group_steps(name: str, gid: int, database: Database) -> list[Step]:
    """Return the steps for the user's own group."""
    group = database.groups.get(name)
    if group is None:
        return [Step(f"create group {name}", ("groupadd", "--gid", str(gid), name))]
    if group.gr_gid != gid:
        return [Step(f"set gid {gid} of group {name}", ("groupmod", "--gid", str(gid), name))]
    return []


def user_steps(user: dict[str, Any], home: str, database: Database, *, create_homes: bool) -> list[Step]:
    """Return the steps for the user's account."""
    name, uid, gid, shell = user["name"], str(user["uid"]), str(user["gid"]), user["shell"]
    live = database.users.get(name)
    if live is None:
        create = "--create-home" if create_homes else "--no-create-home"
        words = ("useradd", "--uid", uid, "--gid", gid, "--shell", shell, create, "--home-dir", os.path.join(home, name), name)
        return [Step(f"create user {name}", words)]
    if (live.pw_uid, live.pw_gid, live.pw_shell) == (user["uid"], user["gid"], shell):
        return []
    if not create_homes and (live.pw_uid, live.pw_gid) != (user["uid"], user["gid"]):  # usermod(8): it changes the files in the home, too
        raise UserError(
            f"user {name}: has uid {live.pw_uid} and gid {live.pw_gid} on this node, and the home directory is on an existing server"
            f" - declare these ids, or run `usermod --uid {uid} --gid {gid}` while the home is not mounted"
        )
    if name in database.foreign:
        raise UserError(
            f"user {name}: comes from a directory service on this node, with uid {live.pw_uid}, gid {live.pw_gid} and shell {live.pw_shell}"
            " - remove the user from `users` in the stack file, or declare these values"
        )
    return [
        Step(f"set uid {uid}, gid {gid} and shell {shell} of user {name}", ("usermod", "--uid", uid, "--gid", gid, "--shell", shell, name))
    ]


def admin_steps(user: dict[str, Any], admins: list[str], database: Database) -> list[Step]:
    """Return the steps that add the user to the admins' group or remove the user from it."""
    name = user["name"]
    group = next((database.groups[group] for group in admins if group in database.groups), None)
    if group is None:
        if user["admin"]:
            raise UserError(
                f"user {name}: declared as admin, but none of the groups {', '.join(admins)} exists on this node - install sudo"
            )
        return []
    if user["admin"] == (name in group.gr_mem):
        return []
    if user["admin"] and name in database.foreign:  # usermod(8) changes local users only
        return [Step(f"grant admin rights to user {name}", ("gpasswd", "--add", name, group.gr_name))]
    if user["admin"]:
        return [Step(f"grant admin rights to user {name}", ("usermod", "--append", "--groups", group.gr_name, name))]
    return [Step(f"revoke admin rights of user {name}", ("gpasswd", "--delete", name, group.gr_name))]


def leaving_steps(declared: set[str], known: list[str], database: Database) -> list[Step]:
    """Return the steps that delete users that are no longer declared; their files stay."""
    gone = [name for name in known if name not in declared and name in database.users and name not in database.foreign]
    return [Step(f"delete user {name}, which is no longer declared", ("userdel", name)) for name in gone]


def read_known(path: str) -> list[str]:
    """Return the names that earlier runs recorded."""
    try:
        with open(path, encoding="utf-8") as stream:
            known = json.load(stream)
    except FileNotFoundError:
        return []
    return [str(name) for name in known]


def remember(path: str, known: list[str], names: list[str]) -> None:
    """Record the managed names if they changed."""
    if known == names:
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump(names, stream)
    os.replace(f"{path}.new", path)


def carry_out(step: Step) -> None:
    """Run one step. Raise UserError if it fails."""
    done = subprocess.run(step.command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise UserError(f"{step.what}: {step.command[0]} failed: {(done.stderr or done.stdout).strip()}")


def apply(wanted: dict[str, Any], check: bool) -> list[str]:
    """Apply the changes; return their descriptions."""
    database, known, known_groups = read_database(wanted), read_known(wanted["known"]), read_known(wanted["known_groups"])
    declared = [user["name"] for user in wanted["users"]]
    groups = sorted({*names_of_groups(wanted), *(group["name"] for group in wanted["groups"])})
    steps = leaving_steps(set(declared), known, database) + shared_steps(wanted["groups"], database)
    place = (wanted["home"], wanted["admins"], database)
    steps += [step for user in wanted["users"] for step in steps_for(user, *place, create_homes=wanted.get("create_homes", True))]
    steps += member_steps(wanted, known_groups, database)
    if not check:
        # Recorded before the changes, so that a killed run knows which users it created.
        remember(wanted["known"], known, sorted({*known, *declared}))
        remember(wanted["known_groups"], known_groups, sorted({*known_groups, *groups}))
        for step in steps:
            carry_out(step)
        remember(wanted["known"], sorted({*known, *declared}), sorted(declared))
        remember(wanted["known_groups"], sorted({*known_groups, *groups}), groups)
    descriptions = [step.what for step in steps]
    return (
        descriptions
        if descriptions or (sorted(known), sorted(known_groups)) == (sorted(declared), groups)
        else ["record the managed users"]
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        actions = apply(module.params, bool(module.check_mode))
    except UserError as error:
        module.fail_json(msg=str(error))
    result: dict[str, Any] = {"changed": bool(actions), "changes": actions}
    if module._diff and actions:
        result["diff"] = {"prepared": "".join(f"{action}\n" for action in actions)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
