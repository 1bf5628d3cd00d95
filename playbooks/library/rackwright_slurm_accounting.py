"""The cluster, its account and its users in Slurm's accounting, looked up and added in one task.

Only adds: a user or an account that the plan no longer names keeps its history. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import subprocess
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rackwright_slurm_accounting
short_description: Cluster, account and users in Slurm's accounting
description:
  - Runs where slurmdbd runs, as root. In check mode a slurmdbd that does not answer counts as a change, since a run starts it first.
options:
  cluster: {type: str, required: true, description: Name of the cluster, as in slurm.conf.}
  account: {type: str, required: true, description: The account that the users belong to.}
  users: {type: list, elements: str, default: [], description: Users who may submit jobs under that account.}
"""

RETURN = r"""
added:
  description: What was, or in check mode would be, added, as C(cluster lab), C(account default), C(user alice).
  returned: always
  type: list
"""

ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "account": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "str", "default": []},
}


class AccountingError(Exception):
    """Accounting that cannot be looked up or changed: where, what, what now."""


class Missing(NamedTuple):
    """What of the declared is not in the accounting yet."""

    cluster: bool
    account: bool
    users: tuple[str, ...]


def parse_associations(text: str) -> set[tuple[str, str, str]]:
    """Cluster, account and user of each association.

    >>> sorted(parse_associations("lab|root|\\nlab|root|root\\n"))
    [('lab', 'root', ''), ('lab', 'root', 'root')]
    """
    associations = set()
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        if len(fields) != 3:
            raise AccountingError(f"sacctmgr: cannot read its line {line!r} as cluster|account|user - has its output format changed?")
        associations.add((fields[0], fields[1], fields[2]))
    return associations


def missing(associations: set[tuple[str, str, str]], cluster: str, account: str, users: list[str]) -> Missing:
    """What has to be added. Names are in lower case in Slurm's accounting, whatever was asked for."""
    present = {tuple(part.lower() for part in association) for association in associations}
    name, group = cluster.lower(), account.lower()
    return Missing(
        cluster=not any(association[0] == name for association in present),
        account=(name, group, "") not in present,
        users=tuple(user for user in users if (name, group, user.lower()) not in present),
    )


def additions(lacking: Missing, cluster: str, account: str) -> list[tuple[str, list[str]]]:
    """What to add, in order, each with the words for sacctmgr."""
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
    """What sacctmgr prints; the accounting's own complaint where it fails."""
    try:
        done = subprocess.run(("sacctmgr", *words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    except FileNotFoundError:
        raise AccountingError("sacctmgr: there is no such command - is slurm-client installed on this node?") from None
    except subprocess.TimeoutExpired:
        raise AccountingError(f"sacctmgr {' '.join(words)}: no answer in 60 s - see `journalctl -u slurmdbd`") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise AccountingError(f"sacctmgr {' '.join(words)}: {said} - does slurmdbd run? See `journalctl -u slurmdbd`")
    return done.stdout


def bring_about(wanted: dict[str, Any], check: bool) -> list[str]:
    """Looks up, adds what is lacking, tells what that was."""
    listing = sacctmgr("--noheader", "--parsable2", "show", "association", "format=Cluster,Account,User")
    lacking = missing(parse_associations(listing), wanted["cluster"], wanted["account"], wanted["users"])
    steps = additions(lacking, wanted["cluster"], wanted["account"])
    for _, words in steps:
        if not check:
            sacctmgr("--immediate", "--quiet", *words)
    return [what for what, _ in steps]


def main() -> None:
    """One task."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        added = bring_about(module.params, bool(module.check_mode))
    except AccountingError as error:
        if module.check_mode:
            module.exit_json(changed=True, added=[], msg=f"cannot be looked up now, a run starts slurmdbd first: {error}")
        module.fail_json(msg=str(error))
    told: dict[str, Any] = {"changed": bool(added), "added": added}
    if module._diff and added:
        told["diff"] = {"prepared": "".join(f"add {what}\n" for what in added)}
    module.exit_json(**told)


if __name__ == "__main__":
    main()
