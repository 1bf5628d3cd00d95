"""Manage the cluster, its accounts, users and limits in Slurm accounting, in one task.

The module removes users only from accounts that they have left. Other entries that are no longer declared stay, because the history
refers to them.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import subprocess
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils import slurm_shares as shares
from ansible_collections.rackwright.cluster.plugins.module_utils.systemd import suspended_units

DOCUMENTATION = r"""
module: slurm_accounting
short_description: Manage cluster, accounts and users in Slurm accounting
description:
  - Runs as root on a controller, because sacctmgr needs slurm.conf. In check mode, a slurmdbd that does not answer counts as a change,
    because a run starts it first.
options:
  cluster: {type: str, required: true, description: Name of the cluster in slurm.conf.}
  account: {type: str, required: true, description: Account of users without another account.}
  users: {type: list, elements: str, default: [], description: Users of that account.}
  accounts:
    description: Further accounts, parents first; with name, parent, users, fairshare, gpus, running_jobs, qos (the first is the default).
    type: list
    elements: dict
    default: []
  qos:
    description:
      - Qualities of service, with name, priority, gpus, running_jobs, gpus_per_job, gpus_per_user, running_jobs_per_user, max_time_s,
        preempts, grace_time_s, usage_factor and flags.
    type: list
    elements: dict
    default: []
  only_qos_names:
    description:
      - Add missing qualities of service without limits, and nothing else. A slurmctld whose partition names an unknown QOS does not start,
        and limits on GPUs need the resources that slurmctld registers.
    type: bool
    default: false
notes:
  - No module manages C(sacctmgr).
"""

EXAMPLES = r"""
- name: Manage accounts and users
  rackwright.cluster.slurm_accounting:
    cluster: lab
    account: users
    users: [bob]
    accounts:
      - {name: research, parent: root, users: [alice], fairshare: 10, gpus: 8, qos: [normal, urgent]}
    qos:
      - {name: normal, priority: 0, preempts: []}
      - {name: urgent, priority: 100, max_time_s: 3600, preempts: [normal]}
"""

RETURN = r"""
added:
  description:
    - "Entries that were, or in check mode would be, added or set, as C(cluster lab), C(user alice), C(account research: Fairshare=3)."
  returned: always
  type: list
"""

ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "account": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "str", "default": []},
    "accounts": {"type": "list", "elements": "dict", "default": [], "options": shares.ACCOUNT},
    "qos": {"type": "list", "elements": "dict", "default": [], "options": shares.QOS},
    "only_qos_names": {"type": "bool", "default": False},
}


class AccountingError(Exception):
    """An accounting error: place, problem, hint."""


class Missing(NamedTuple):
    """Declared entries that the accounting lacks."""

    cluster: bool
    account: bool
    users: tuple[str, ...]


def parse_associations(text: str) -> set[tuple[str, str, str]]:
    """Parse cluster, account and user of each association.

    >>> sorted(parse_associations("lab|root|\\nlab|root|root\\n"))
    [('lab', 'root', ''), ('lab', 'root', 'root')]
    """
    associations = set()
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        if len(fields) != 3:
            raise AccountingError(f"sacctmgr: cannot parse line {line!r} as cluster|account|user - check the Slurm version")
        associations.add((fields[0], fields[1], fields[2]))
    return associations


def missing(associations: set[tuple[str, str, str]], cluster: str, account: str, users: list[str]) -> Missing:
    """Return missing entries. Slurm's accounting stores names in lower case."""
    present = {tuple(part.lower() for part in association) for association in associations}
    name, group = cluster.lower(), account.lower()
    return Missing(
        cluster=not any(association[0] == name for association in present),
        account=(name, group, "") not in present,
        users=tuple(user for user in users if (name, group, user.lower()) not in present),
    )


def additions(lacking: Missing, cluster: str, account: str) -> list[tuple[str, list[str]]]:
    """Return the additions in order, each with the arguments of sacctmgr."""
    steps = []
    if lacking.cluster:
        steps.append((f"cluster {cluster}", ["add", "cluster", cluster]))
    if lacking.account:
        words = ["add", "account", account, f"cluster={cluster}", "description=rackwright", "organization=rackwright"]
        steps.append((f"account {account}", words))
    if lacking.users:
        words = ["add", "user", ",".join(lacking.users), f"account={account}", f"cluster={cluster}"]
        steps.append((", ".join(f"user {user}" for user in lacking.users), words))
    return steps


def sacctmgr(*words: str) -> str:
    """Return the output of sacctmgr. Raise AccountingError if it fails."""
    try:
        done = subprocess.run(
            ("sacctmgr", *words), capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=60
        )
    except FileNotFoundError:
        raise AccountingError("sacctmgr: command not found - install slurm-client on this node") from None
    except subprocess.TimeoutExpired:
        raise AccountingError(f"sacctmgr {' '.join(words)}: no answer in 60 s - see `journalctl -u slurmdbd`") from None
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise AccountingError(f"sacctmgr {' '.join(words)}: {message} - check that slurmdbd runs; see `journalctl -u slurmdbd`")
    return done.stdout


def apply(wanted: dict[str, Any], check: bool) -> list[str]:
    """Query the accounting, add missing entries, and return them."""
    if wanted["only_qos_names"]:
        listed = sacctmgr("--noheader", "--parsable2", "show", "qos", "format=Name").splitlines()
        new = shares.new_qos_steps(set(filter(None, listed)), [row["name"] for row in wanted["qos"]])
        carry_out(new, check)
        return [what for what, _ in new]
    listing = sacctmgr("--noheader", "--parsable2", "show", "association", "format=Cluster,Account,User")
    lacking = missing(parse_associations(listing), wanted["cluster"], wanted["account"], wanted["users"])
    steps = additions(lacking, wanted["cluster"], wanted["account"])
    carry_out(steps, check)
    further = share_steps(wanted)
    carry_out(further, check)
    return [what for what, _ in steps + further]


def carry_out(steps: list[tuple[str, list[str]]], check: bool) -> None:
    """Execute the steps in order; none in check mode."""
    for _, words in steps:
        if not check:
            sacctmgr("--immediate", "--quiet", *words)


def share_steps(wanted: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the steps for qualities of service, accounts and their members."""
    cluster, declared = wanted["cluster"], wanted["accounts"]
    if not declared and not wanted["qos"]:
        return []
    listing = ("--noheader", "--parsable2", "show")
    try:
        live = shares.read(
            sacctmgr(*listing, "qos", shares.QOS_FORMAT),
            sacctmgr(*listing, "association", "where", f"cluster={cluster}", shares.ACCOUNT_FORMAT),
            sacctmgr(*listing, "user", shares.USER_FORMAT),
        )
    except ValueError as error:
        raise AccountingError(f"sacctmgr: cannot parse line {error} - check the Slurm version") from None
    members = {wanted["account"]: wanted["users"], **{row["name"]: row["users"] for row in declared}}
    return [
        *shares.qos_steps(live, wanted["qos"]),
        *shares.account_steps(live, declared, cluster),
        *shares.member_steps(live, members, cluster),
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    # Check mode does not wait for these units, and attributes nothing to the accounts: the task that restarts a unit reports it.
    if module.check_mode and (suspended := suspended_units("munge.service", "slurmdbd.service", "mariadb.service")):
        module.exit_json(changed=False, added=[], msg=f"not queried in check mode, because {'; '.join(suspended)}")
    try:
        added = apply(module.params, bool(module.check_mode))
    except AccountingError as error:
        if module.check_mode:
            module.exit_json(changed=True, added=[], msg=f"cannot be queried in check mode, because a run starts slurmdbd first: {error}")
        module.fail_json(msg=str(error))
    result: dict[str, Any] = {"changed": bool(added), "added": added}
    if module._diff and added:
        result["diff"] = {"prepared": "".join(f"{what}\n" for what in added)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
