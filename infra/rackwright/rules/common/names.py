"""Names: of the stack, of groups, and of the nodes that follow from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.model.hostlists import expand_host_list
from rackwright.model.names import is_label
from rackwright.rules.registry import RuleContext, Violation, rule

STACK_LIMIT: Final = 40
"""Slurm's accounting database takes cluster names up to 40 characters."""
_OWN_GROUPS: Final = frozenset(
    {"all", "ungrouped", "nodes", "gpu", "nvswitch", "nvlink", "fabric", "mig", "neuron", "slurm", "smt", "kubernetes", "out", "localhost"}
)
"""Inventory groups with a meaning of their own; the others hold an underscore, which no label does."""
_NODE_LIMIT: Final = 63
_FULL_NAME_LIMIT: Final = 253
"""Characters of a label and of a full name: RFC 1035, section 2.3.4, allows 63 and 255 octets, of which the length of the first label and
the root label take one each."""


@rule("stack-name")
def stack_name(case: RuleContext) -> Iterator[Violation]:
    """The stack's name becomes part of host names, container names and folder names."""
    if not is_label(case.stack):
        yield Violation(
            "stack", f"`{case.stack}` is not a DNS label", "name the file Pulumi.<lower-case letters, digits, inner hyphens>.yaml"
        )


@rule("stack-name-length")
def stack_name_length(case: RuleContext) -> Iterator[Violation]:
    """The stack's name becomes the Slurm cluster's."""
    if len(case.stack) > STACK_LIMIT:
        yield Violation("stack", f"`{case.stack}` has {len(case.stack)} characters", f"rename the file: the limit is {STACK_LIMIT}")


@rule("group-name-reserved")
def group_name_reserved(case: RuleContext) -> Iterator[Violation]:
    """A group named like one of the inventory's own would mix its nodes into it."""
    for name in case.cluster.groups:
        if name in _OWN_GROUPS:
            yield Violation(
                f"groups.{name}", f"`{name}` is a reserved group of the inventory", f"rename the group, for example to {name}-nodes"
            )


@rule("node-name-collision")
def node_name_collision(case: RuleContext) -> Iterator[Violation]:
    """Groups `a` and `a1` can create two nodes with one name: a + 11 and a1 + 1."""
    owners: dict[str, list[str]] = defaultdict(list)
    for member in case.members:
        owners[member.name].append(member.group)
    for name, groups in owners.items():
        if len(groups) > 1:
            yield Violation(
                f"groups.{groups[-1]}", f"node {name} would exist twice, in groups {' and '.join(groups)}", "rename one of the groups"
            )


@rule("group-names-too-few")
def group_names_too_few(case: RuleContext) -> Iterator[Violation]:
    """Every node needs a name."""
    for name, group in case.cluster.groups.items():
        count = len(expand_host_list(group.names)) if group.names is not None else group.count
        if count < group.count:
            cause = f"`{group.names}` lists {count} of {group.count} names"
            yield Violation(f"groups.{name}.names", cause, "add names at the end of the list, or lower `count`")


@rule("group-name-is-node")
def group_name_is_node(case: RuleContext) -> Iterator[Violation]:
    """Ansible cannot tell a group from a host of the same name."""
    for name in case.cluster.groups:
        if name in case.node_names:
            yield Violation(f"groups.{name}", f"a node is also named {name}", "rename the group")


@rule("node-name-length")
def node_name_length(case: RuleContext) -> Iterator[Violation]:
    """A host name has at most 63 characters, the index included."""
    longest: dict[str, str] = {}
    for member in case.members:
        if len(member.name) > _NODE_LIMIT:
            longest[member.group] = member.name
    for group, name in longest.items():
        yield Violation(
            f"groups.{group}", f"node name {name} has {len(name)} characters", f"shorten the group's name: the limit is {_NODE_LIMIT}"
        )


@rule("node-domain-length")
def node_domain_length(case: RuleContext) -> Iterator[Violation]:
    """A full name has at most 253 characters (RFC 1035, 2.3.4: 255 octets with its length bytes)."""
    domain = case.cluster.network.domain
    longest = max((member.name for member in case.members), key=len, default="")
    length = len(f"{longest}.{domain}")
    if domain is not None and length > _FULL_NAME_LIMIT:
        yield Violation(
            "network.domain", f"{longest}'s full name has {length} characters", f"shorten the domain: the limit is {_FULL_NAME_LIMIT}"
        )


@rule("group-named-like-role", Severity.WARNING)
def group_named_like_role(case: RuleContext) -> Iterator[Violation]:
    """A group `storage` without the role is misleading in inventories and reports."""
    for name, group in case.cluster.groups.items():
        if group.roles and name in {role.value for role in Role} and name not in {role.value for role in group.roles}:
            yield Violation(f"groups.{name}.roles", f"group {name} does not have the role {name}", "add the role, or rename the group")


@rule("domain-dot-local", Severity.WARNING)
def domain_dot_local(case: RuleContext) -> Iterator[Violation]:
    """`.local` belongs to multicast DNS (RFC 6762): look-ups may hang or fail."""
    domain = case.cluster.network.domain
    if domain is not None and domain.split(".")[-1] == "local":
        yield Violation(
            "network.domain", f"many systems resolve `{domain}` with multicast DNS", f"use {domain.removesuffix('local')}internal"
        )
