"""Import of a list of machines into a stack file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, did_you_mean
from rackwright.model.targets.hosts import HostsTarget
from rackwright.operations.stack_edit import Change, change_machines
from rackwright.stackfile.load import LoadedStack, find_stack_file, load_stack, load_text
from rackwright.stackfile.machine_list import as_nodes, read


@dataclass(frozen=True, slots=True)
class MachineImport:
    """An edit of a stack file, not yet written, and the machines that it adds and updates."""

    change: Change
    added: int
    updated: int
    total: int
    """Number of machines in the edited file."""
    without_key: int
    """Number of machines in the edited file that have no host key."""


def import_machines(name_or_path: str, file: Path, group: str | None) -> MachineImport:
    """Return the edit that writes the machines of a CSV file into a stack file; with `group`, other names become its nodes, in order.

    Raises InputError with all errors: of the list, of the stack file, and those that the edit would add.
    """
    stack_file = find_stack_file(name_or_path, paths.stacks())
    cluster = _require_hosts(stack_file, load_stack(stack_file))
    if group is not None and group not in cluster.groups:
        raise InputError(f"unknown group `{group}`", path="--group", hint=did_you_mean(group, cluster.groups))
    rows, wrong = read(_text(file), file.name)
    fields, homeless = as_nodes(rows, cluster, group, file.name)
    _refuse([*wrong, *homeless])
    if not fields:
        raise InputError("contains no machine", path=str(file), hint="add one line per machine below the line with the column names")
    change = change_machines(stack_file, fields)
    machines = _target(_require_hosts(stack_file, load_text(stack_file, change.after))).machine_by_node.values()
    new = sum(name not in _target(cluster).machines for name in fields)
    return MachineImport(change, new, len(fields) - new, len(machines), sum(machine.host_key is None for machine in machines))


def _require_hosts(file: Path, loaded: LoadedStack) -> Cluster:
    """Return the file's cluster, even if it is incomplete; raise InputError if a field is invalid or the target is not hosts."""
    if loaded.cluster is None:
        _refuse(loaded.findings)
        raise InputError("cannot be read", path=str(file), hint="pass the path of the stack file to write to")
    if not isinstance(loaded.cluster.target, HostsTarget):
        hint = "use a stack with target hosts: docs/targets/hosts.md"
        raise InputError(f"target {loaded.cluster.target.kind} creates its own nodes (expected target hosts)", path=file.name, hint=hint)
    return loaded.cluster


def _target(cluster: Cluster) -> HostsTarget:
    assert isinstance(cluster.target, HostsTarget)
    return cluster.target


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as broken:
        raise InputError(f"byte {broken.start} is not UTF-8", path=str(file), hint="save the list as CSV in UTF-8") from None
    except OSError as refused:
        raise InputError(
            f"cannot be read: {refused.strerror}", path=str(file), hint="pass the path of a CSV file whose first line names the columns"
        ) from None


def _refuse(findings: Sequence[Finding]) -> None:
    if findings:
        raise InputError("\n".join(map(str, findings)))
