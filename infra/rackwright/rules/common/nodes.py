"""Single nodes: whether they exist, and consequences of the state `out`."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role, State
from rackwright.rules.registry import RuleContext, Violation, rule

_NEEDED = (Role.LOGIN, Role.CONTROLLER, Role.WORKER)


@rule("node-unknown")
def node_unknown(case: RuleContext) -> Iterator[Violation]:
    """Settings for a node that does not exist have no effect."""
    for name in case.cluster.nodes:
        if name not in case.node_names:
            yield Violation(f"nodes.{name}", "there is no such node", did_you_mean(name, case.node_names))


@rule("out-without-reason")
def out_without_reason(case: RuleContext) -> Iterator[Violation]:
    """Readers of `passed, 63 of 64` need the reason."""
    for name, node in case.cluster.nodes.items():
        if node.state is State.OUT and not (node.reason or "").strip():
            yield Violation(f"nodes.{name}.reason", f"{name} is out without a reason", 'add a reason, like `reason: "bad DIMM"`')


@rule("out-overdue", Severity.WARNING)
def out_overdue(case: RuleContext) -> Iterator[Violation]:
    """A node whose return is overdue is either back, or needs another date."""
    for name, node in case.cluster.nodes.items():
        if node.state is State.OUT and node.until is not None and node.until < case.today:
            yield Violation(f"nodes.{name}.until", f"{name} was due to return on {node.until}", "set `state: in`, or change the date")


@rule("reason-without-out", Severity.WARNING)
def reason_without_out(case: RuleContext) -> Iterator[Violation]:
    """`reason` and `until` belong to a node that is out."""
    for name, node in case.cluster.nodes.items():
        if node.state is State.IN and (node.reason is not None or node.until is not None):
            yield Violation(f"nodes.{name}", "has a reason or a date, but is not out", "add `state: out`, or remove them")


@rule("role-all-out")
def role_all_out(case: RuleContext) -> Iterator[Violation]:
    """A cluster needs a controller, a login node and a worker that are not out."""
    for role in _NEEDED:
        holders = case.with_role(role)
        if holders and not any(member.is_in for member in holders):
            yield Violation(
                "nodes",
                f"every node with the role {role} is out: {', '.join(m.name for m in holders)}",
                "set one of them to `state: in`, or add one",
            )


@rule("storage-all-out")
def storage_all_out(case: RuleContext) -> Iterator[Violation]:
    """A file system without a running server blocks every process that uses it."""
    for name, declared in case.cluster.storage.items():
        if not declared.served_by_nodes:
            continue
        serving = [m for m in case.members if (m.group in declared.servers if declared.servers else Role.STORAGE in m.roles)]
        if serving and not any(member.is_in for member in serving):
            yield Violation(
                "nodes", f"every server of {name} is out: {', '.join(m.name for m in serving)}", f"remove storage.{name} until one returns"
            )


@rule("accounting-out", Severity.WARNING)
def accounting_out(case: RuleContext) -> Iterator[Violation]:
    """Without its database, the scheduler continues but records nothing."""
    holders = case.with_role(Role.ACCOUNTING)
    if holders and not any(member.is_in for member in holders):
        yield Violation(
            "nodes", f"{holders[0].name} is out: jobs will not be recorded", "set it to `state: in`, or move the role accounting"
        )


@rule("node-override-empty", Severity.INFO)
def node_override_empty(case: RuleContext) -> Iterator[Violation]:
    """An entry without settings is a leftover."""
    for name, node in case.cluster.nodes.items():
        if not node.model_fields_set:
            yield Violation(f"nodes.{name}", "has no settings", "remove the entry")
