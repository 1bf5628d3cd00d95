"""Accounts and qualities of service: references to existing names, and limits that Slurm can count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import did_you_mean
from rackwright.model.groups import Role
from rackwright.rules.registry import RuleContext, Violation, rule

_TAKEN: Final = {"root": "Slurm's root of all accounts", "default": "the account of users without an account of their own"}
_ORDINARY: Final = "normal"
"""The quality of service that Slurm creates itself (sacctmgr(1))."""


@rule("accounts-without-accounting")
def accounts_without_accounting(case: RuleContext) -> Iterator[Violation]:
    """The accounting database stores limits and shares."""
    for field, declared in (("accounts", case.slurm.accounts), ("qos", case.slurm.qos)):
        if declared and not case.with_role(Role.ACCOUNTING):
            yield Violation(f"scheduler.{field}", "no node has the role accounting", "add the role to the controller's group")


@rule("account-reserved")
def account_reserved(case: RuleContext) -> Iterator[Violation]:
    """These accounts exist without being declared."""
    for name in case.slurm.accounts:
        if name in _TAKEN:
            yield Violation(f"scheduler.accounts.{name}", f"the name is reserved: {_TAKEN[name]}", "choose another name")


@rule("account-user-unknown")
def account_user_unknown(case: RuleContext) -> Iterator[Violation]:
    """Only users of the cluster can submit to an account."""
    for name, account in case.slurm.accounts.items():
        for index, user in enumerate(account.users):
            if user not in case.cluster.users:
                path = f"scheduler.accounts.{name}.users[{index}]"
                yield Violation(path, f"there is no user `{user}`", did_you_mean(user, case.cluster.users))


@rule("account-parent-unknown")
def account_parent_unknown(case: RuleContext) -> Iterator[Violation]:
    """The parent of an account is a declared account, or the root."""
    accounts = case.slurm.accounts
    for name, account in accounts.items():
        if account.parent is not None and account.parent not in accounts:
            path, cause = f"scheduler.accounts.{name}.parent", f"there is no account `{account.parent}`"
            yield Violation(path, cause, did_you_mean(account.parent, accounts))


@rule("account-cycle")
def account_cycle(case: RuleContext) -> Iterator[Violation]:
    """A cycle of accounts has no path to the root."""
    accounts = case.slurm.accounts
    for name in accounts:
        above, seen = accounts[name].parent, [name]
        while above in accounts and above not in seen:
            seen.append(above)
            above = accounts[above].parent
        if above == name:
            yield Violation(
                f"scheduler.accounts.{name}.parent", f"the account is below itself: {' below '.join([*seen, name])}", "remove one `parent`"
            )


@rule("account-qos-unknown")
def account_qos_unknown(case: RuleContext) -> Iterator[Violation]:
    """An account can use declared QOS and Slurm's own."""
    known = {*case.slurm.qos, _ORDINARY}
    for name, account in case.slurm.accounts.items():
        for index, qos in enumerate(account.qos):
            if qos not in known:
                path = f"scheduler.accounts.{name}.qos[{index}]"
                yield Violation(path, f"there is no QOS `{qos}`", did_you_mean(qos, known))


@rule("qos-reserved")
def qos_reserved(case: RuleContext) -> Iterator[Violation]:
    """Jobs that request no QOS get Slurm's own; rackwright does not change it."""
    if _ORDINARY in case.slurm.qos:
        yield Violation(f"scheduler.qos.{_ORDINARY}", "the name is reserved: Slurm creates this QOS itself", "choose another name")


@rule("qos-preempts-unknown")
def qos_preempts_unknown(case: RuleContext) -> Iterator[Violation]:
    """A QOS preempts only other QOS, which must exist."""
    known = {*case.slurm.qos, _ORDINARY}
    for name, qos in case.slurm.qos.items():
        for index, other in enumerate(qos.preempt):
            path = f"scheduler.qos.{name}.preempt[{index}]"
            if other == name:
                yield Violation(path, "the QOS preempts itself", "remove the entry")
            elif other not in known:
                yield Violation(path, f"there is no QOS `{other}`", did_you_mean(other, known))


@rule("qos-preempts-mutually")
def qos_preempts_mutually(case: RuleContext) -> Iterator[Violation]:
    """Jobs of two QOS that preempt each other requeue each other, and none of them ends."""
    declared = case.slurm.qos
    for name, qos in declared.items():
        for index, other in enumerate(qos.preempt):
            back = declared[other].preempt if other in declared else ()
            if other != name and name in back:
                cause = f"`{name}` and `{other}` preempt each other"
                yield Violation(
                    f"scheduler.qos.{name}.preempt[{index}]", cause, f"remove `{name}` from the `preempt` of {other}, or this entry"
                )


@rule("gpu-limit-without-gpus")
def gpu_limit_without_gpus(case: RuleContext) -> Iterator[Violation]:
    """A GPU limit has no effect without GPUs."""
    if any(member.gpus for member in case.with_role(Role.WORKER)):
        return
    scheduler = case.slurm
    limits = [(f"scheduler.accounts.{name}.grp_gpus", account.grp_gpus) for name, account in scheduler.accounts.items()]
    limits += [
        (f"scheduler.qos.{name}.{key}", getattr(qos, key))
        for name, qos in scheduler.qos.items()
        for key in ("grp_gpus", "max_gpus_per_job", "max_gpus_per_user")
    ]
    for path, limit in limits:
        if limit is not None:
            yield Violation(path, "no worker has GPUs", "remove the limit")
