"""Plan the changes of accounts with shares, limits and members, and of qualities of service.

Pure: input is the output of sacctmgr, output are arguments of sacctmgr.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

QOS_FORMAT = "format=Name,Priority,MaxTRESPU,MaxJobsPU,MaxWall,Preempt"
ACCOUNT_FORMAT = "format=Account,User,ParentName,Fairshare,GrpTRES,GrpJobs,QOS,DefaultQOS"
USER_FORMAT = "format=User,DefaultAccount"
ACCOUNT = {
    "name": {"type": "str", "required": True},
    "parent": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "str", "required": True},
    "fairshare": {"type": "int", "required": True},
    "gpus": {"type": "int"},
    "running_jobs": {"type": "int"},
    "qos": {"type": "list", "elements": "str", "required": True},
}
QOS = {
    "name": {"type": "str", "required": True},
    "priority": {"type": "int", "required": True},
    "gpus_per_user": {"type": "int"},
    "running_jobs_per_user": {"type": "int"},
    "max_time_s": {"type": "int"},
    "preempts": {"type": "list", "elements": "str", "required": True},
}
NO_LIMIT = "-1"
ORDINARY = "normal"  # the quality of service that Slurm creates itself
Step = tuple[str, list[str]]  # description, and arguments of sacctmgr


class Live(NamedTuple):
    """Current accounting. Settings are the declared ones, by their names in sacctmgr."""

    qos: dict[str, dict[str, str]]
    accounts: dict[str, dict[str, str]]
    members: dict[str, set[str]]
    defaults: dict[str, str]
    """Each user's default account."""


def rows(text: str, count: int) -> list[list[str]]:
    """Parse lines of `sacctmgr --parsable2`. Raise ValueError if a line has another number of fields."""
    found = [line.split("|") for line in text.splitlines() if line.strip()]
    for row in found:
        if len(row) != count:
            raise ValueError("|".join(row))
    return found


def read(qos: str, associations: str, users: str) -> Live:
    """Parse the three listings, each in its format above."""
    accounts, members = {}, {}
    for account, user, parent, share, tres, jobs, levels, default in rows(associations, 8):
        if user:
            members.setdefault(account, set()).add(user)
        else:
            accounts[account] = {
                "parent": parent,
                "Fairshare": share,
                "GrpTRES": gpus_of(tres),
                "GrpJobs": jobs or NO_LIMIT,
                "QosLevel": ordered(levels),
                "DefaultQOS": default or NO_LIMIT,
            }
    found = {
        name: {
            "Priority": priority,
            "MaxTRESPU": gpus_of(tres),
            "MaxJobsPU": jobs or NO_LIMIT,
            "MaxWall": duration(wall),
            "Preempt": ordered(preempts),
        }
        for name, priority, tres, jobs, wall, preempts in rows(qos, 6)
    }
    return Live(found, accounts, members, {row[0]: row[1] for row in rows(users, 2)})


def gpus_of(tres: str) -> str:
    """Return the limit on GPUs; other limits of the list are not managed.

    >>> gpus_of("cpu=4,gres/gpu=16"), gpus_of("")
    ('gres/gpu=16', 'gres/gpu=-1')
    """
    found = re.search(r"(?:^|,)gres/gpu=(\d+)", tres)
    return f"gres/gpu={found.group(1) if found else NO_LIMIT}"


def duration(shown: str) -> str:
    """Convert a duration of sacctmgr to minutes, which sacctmgr accepts as input.

    >>> duration("1-02:00:00"), duration("01:30:00"), duration("")
    ('1560', '90', '-1')
    """
    if shown.strip().upper() in ("", "UNLIMITED", "INFINITE"):
        return NO_LIMIT
    days, _, rest = shown.rpartition("-")
    hours, minutes, _ = (int(part) for part in rest.split(":"))
    return str((int(days or 0) * 24 + hours) * 60 + minutes)


def ordered(names: str) -> str:
    """Return a list of names in a fixed order."""
    return ",".join(sorted(filter(None, names.split(","))))


def limit(number: int | None) -> str:
    """Return a number for sacctmgr, which has no empty value."""
    return NO_LIMIT if number is None else str(number)


def of_account(row: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a declared account."""
    return {
        "parent": row["parent"],
        "Fairshare": str(row["fairshare"]),
        "GrpTRES": f"gres/gpu={limit(row['gpus'])}",
        "GrpJobs": limit(row["running_jobs"]),
        "QosLevel": ordered(",".join(row["qos"])) or ORDINARY,
        "DefaultQOS": row["qos"][0] if row["qos"] else NO_LIMIT,
    }


def of_qos(row: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a declared quality of service; time limits are whole minutes, rounded up."""
    minutes = None if row["max_time_s"] is None else -(-row["max_time_s"] // 60)
    return {
        "Priority": str(row["priority"]),
        "MaxTRESPU": f"gres/gpu={limit(row['gpus_per_user'])}",
        "MaxJobsPU": limit(row["running_jobs_per_user"]),
        "MaxWall": limit(minutes),
        "Preempt": ordered(",".join(row["preempts"])),
    }


def settings(kind: str, name: str, where: list[str], live: dict[str, str], wanted: dict[str, str]) -> list[Step]:
    """Return the settings to change of one account or quality of service."""
    apart = {key: value for key, value in wanted.items() if live.get(key) != value}
    if not apart:
        return []
    words = [f"{key}={value}" for key, value in apart.items()]
    return [(f"{kind} {name}: {', '.join(words)}", ["modify", kind, "where", f"name={name}", *where, "set", *words])]


def qos_steps(live: Live, declared: list[dict[str, Any]]) -> list[Step]:
    """Return the steps for qualities of service; all are created before preemption is set."""
    new = [(f"qos {row['name']}", ["add", "qos", row["name"]]) for row in declared if row["name"] not in live.qos]
    fresh = {"Priority": "0", "MaxTRESPU": "gres/gpu=-1", "MaxJobsPU": NO_LIMIT, "MaxWall": NO_LIMIT, "Preempt": ""}
    return new + [step for row in declared for step in settings("qos", row["name"], [], live.qos.get(row["name"], fresh), of_qos(row))]


def account_steps(live: Live, declared: list[dict[str, Any]], cluster: str) -> list[Step]:
    """Return the steps for accounts, parents before children."""
    where, steps = [f"cluster={cluster}"], []
    for row in declared:
        name, there = row["name"], live.accounts.get(row["name"])
        if there is None:
            words = ["add", "account", name, *where, f"parent={row['parent']}", "description=rackwright", "organization=rackwright"]
            steps.append((f"account {name}", words))
            there = {**of_account({**row, "fairshare": 1, "gpus": None, "running_jobs": None, "qos": []})}
        steps += settings("account", name, where, there, of_account(row))
    return steps


def member_steps(live: Live, declared: dict[str, list[str]], cluster: str) -> list[Step]:
    """Return the steps for members of accounts, the first account being the default; only users who moved are removed.

    `declared`: users by account, with all managed accounts.
    """
    steps = []
    homes: dict[str, list[str]] = {}
    for account, users in declared.items():
        lacking = [user for user in users if user not in live.members.get(account, set())]
        if lacking:
            words = ["add", "user", ",".join(lacking), f"account={account}", f"cluster={cluster}"]
            steps.append((", ".join(f"user {user} in {account}" for user in lacking), words))
        for user in users:
            homes.setdefault(user, []).append(account)
    for user, accounts in homes.items():
        if live.defaults.get(user, accounts[0]) not in accounts:
            words = ["modify", "user", "where", f"name={user}", f"cluster={cluster}", "set", f"DefaultAccount={accounts[0]}"]
            steps.append((f"user {user}: DefaultAccount={accounts[0]}", words))
    for account in declared:
        moved = sorted(user for user in live.members.get(account, set()) if user in homes and account not in homes[user])
        if moved:
            words = ["delete", "user", "where", f"name={','.join(moved)}", f"account={account}", f"cluster={cluster}"]
            steps.append((", ".join(f"user {user} removed from {account}" for user in moved), words))
    return steps
