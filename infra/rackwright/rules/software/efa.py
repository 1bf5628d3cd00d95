"""The EFA installer: its driver, libfabric and NCCL plugin, against NCCL, NVIDIA's driver, systems and instance types."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog import compatibility, version_key
from rackwright.catalog.compatibility import EfaConflict
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.rules.registry import RuleContext, Violation, rule
from rackwright.rules.software.versions import VersionSelection, selection_of


@rule("efa-installer")
def efa_installer(case: RuleContext) -> Iterator[Violation]:
    """Collectives hang, or use TCP without a warning, with releases that do not work together (aws-ofi-nccl; EFA release notes)."""
    yield from _conflicts(case, known=True)


@rule("efa-installer-untested", Severity.WARNING)
def efa_installer_untested(case: RuleContext) -> Iterator[Violation]:
    """Older plugins do not know newer instance types and releases of NCCL (release notes of aws-ofi-nccl)."""
    yield from _conflicts(case, known=False)


def _conflicts(case: RuleContext, *, known: bool) -> Iterator[Violation]:
    efa = case.cluster.rdma.efa if case.cluster.rdma else None
    if efa is None:
        return
    found = [row for row in compatibility.efa_conflicts() if version_key(efa.version) < version_key(row.before) and _applies(row, case)]
    newest = max((row.before for row in found), key=version_key, default="")
    worse = {row.nccl for row in found if row.known}
    for row in found:
        if row.known is known and (known or row.nccl is None or row.nccl not in worse):
            hint = f"use EFA installer {newest} or later"
            yield Violation(
                "rdma.efa.version", f"EFA installer {efa.version}: {row.reason}", hint + (", or another NCCL" if row.nccl else "")
            )


def _applies(row: EfaConflict, case: RuleContext) -> bool:
    """Return whether all conditions of a row hold, for the declared versions and for one of the nodes."""
    choice = selection_of(case)
    return _has_versions(row, choice) and any(_is_about(row, member, case) for member in _members(case))


def _has_versions(row: EfaConflict, choice: VersionSelection | None) -> bool:
    if row.nccl is None and row.driver is None:
        return True
    if choice is None or not choice.gpus:
        return False
    first, last = row.nccl or (None, None)
    nccl = version_key(choice.versions["nccl"])
    within = (first is None or nccl >= version_key(first)) and (last is None or nccl <= version_key(last))
    return within and (row.driver is None or choice.branch >= row.driver)


def _members(case: RuleContext) -> list[DeclaredNode]:
    """Return the nodes that get the installer."""
    groups = case.cluster.rdma.groups if case.cluster.rdma else ()
    return [member for member in case.members if (member.group in groups if groups else Role.WORKER in member.roles)]


def _is_about(row: EfaConflict, member: DeclaredNode, case: RuleContext) -> bool:
    """Return whether a node meets the conditions on systems, processors, instance types and GPUs."""
    type_ = case.cluster.target.instance_type_of(member.group) or ""
    return (
        row.os in (None, case.cluster.target.os_of(member.name))
        and row.architecture in (None, member.architecture)
        and (row.family is None or type_.partition(".")[0] == row.family)
        and (not row.gpus or member.gpus is not None)
    )
