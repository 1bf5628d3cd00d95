"""Plan the changes of accounts with shares, limits and members, and of qualities of service.

Pure: input is the output of sacctmgr, output are arguments of sacctmgr.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

QOS_COLUMNS = (
    "Name",
    "Priority",
    "GrpTRES",
    "GrpJobs",
    "MaxTRES",
    "MaxTRESPU",
    "MaxJobsPU",
    "MaxWall",
    "Preempt",
    "GraceTime",
    "UsageFactor",
    "Flags",
)
QOS_FORMAT = "format=" + ",".join(QOS_COLUMNS)
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
    "gpus": {"type": "int"},
    "running_jobs": {"type": "int"},
    "gpus_per_job": {"type": "int"},
    "gpus_per_user": {"type": "int"},
    "running_jobs_per_user": {"type": "int"},
    "max_time_s": {"type": "int"},
    "preempts": {"type": "list", "elements": "str", "required": True},
    "grace_time_s": {"type": "int", "default": 0},
    "usage_factor": {"type": "float", "default": 1.0},
    "flags": {"type": "list", "elements": "str", "default": []},
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
    found = [dict(zip(QOS_COLUMNS, row)) for row in rows(qos, len(QOS_COLUMNS))]
    return Live({row["Name"]: live_qos(row) for row in found}, accounts, members, {row[0]: row[1] for row in rows(users, 2)})


def live_qos(row: dict[str, str]) -> dict[str, str]:
    """Return the settings of a quality of service as sacctmgr accepts them as input."""
    return {
        "Priority": row["Priority"],
        **{name: gpus_of(row[name]) for name in ("GrpTRES", "MaxTRES", "MaxTRESPU")},
        **{name: row[name] or NO_LIMIT for name in ("GrpJobs", "MaxJobsPU")},
        "MaxWall": duration(row["MaxWall"]),
        "Preempt": ordered(row["Preempt"]),
        "GraceTime": str(seconds(row["GraceTime"])),
        "UsageFactor": factor(row["UsageFactor"]),
        "Flags": ordered(row["Flags"]) or NO_LIMIT,
    }


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
    return str(seconds(shown) // 60)


def seconds(shown: str) -> int:
    """Return the seconds of a duration of sacctmgr; an empty one is none.

    >>> seconds("1-02:00:05"), seconds("")
    (93605, 0)
    """
    days, _, rest = (shown.strip() or "00:00:00").rpartition("-")
    hours, minutes, last = (int(part) for part in rest.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + last


def factor(number: str | float) -> str:
    """Return a factor with the six digits that sacctmgr prints; an empty one is 1, its default.

    >>> factor("0.500000"), factor(2), factor("")
    ('0.500000', '2.000000', '1.000000')
    """
    return f"{1 if number == '' else float(number):.6f}"


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
        "GrpTRES": f"gres/gpu={limit(row['gpus'])}",
        "GrpJobs": limit(row["running_jobs"]),
        "MaxTRES": f"gres/gpu={limit(row['gpus_per_job'])}",
        "MaxTRESPU": f"gres/gpu={limit(row['gpus_per_user'])}",
        "MaxJobsPU": limit(row["running_jobs_per_user"]),
        "MaxWall": limit(minutes),
        "Preempt": ordered(",".join(row["preempts"])),
        "GraceTime": str(row["grace_time_s"]),
        "UsageFactor": factor(row["usage_factor"]),
        "Flags": ordered(",".join(row["flags"])) or NO_LIMIT,
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
    new = new_qos_steps(set(live.qos), [row["name"] for row in declared])
    fresh = live_qos({**dict.fromkeys(QOS_COLUMNS, ""), "Priority": "0"})
    return new + [step for row in declared for step in settings("qos", row["name"], [], live.qos.get(row["name"], fresh), of_qos(row))]


def new_qos_steps(live: set[str], declared: list[str]) -> list[Step]:
    """Return the steps that add missing qualities of service, without limits."""
    return [(f"qos {name}", ["add", "qos", name]) for name in declared if name not in live]


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
