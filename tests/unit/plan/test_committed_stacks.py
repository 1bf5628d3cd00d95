"""What the plan of every committed stack keeps to; tests/unit/plan/test_expand.py says the same of made-up groups."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from support.rows import each_row

from rackwright.derive.layout import capacity_of
from rackwright.inventory import paths
from rackwright.model import Role
from rackwright.plan import Plan, expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster

STACKS = sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in paths.stacks().glob("Pulumi.*.yaml"))
of_each_stack = each_row("stack", STACKS)


@functools.cache
def said(stack: str) -> dict[str, Any]:
    """What the stack file says of its cluster."""
    data, _ = yaml_reader.read(paths.stack_file(stack))
    found: dict[str, Any] = data["config"]["rackwright:cluster"]
    return found


def planned(described: dict[str, Any], stack: str) -> Plan:
    """The plan of a described cluster."""
    loaded = load_cluster(described)
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, stack)


@functools.cache
def plan_of(stack: str) -> Plan:
    """The plan of the stack as it is committed."""
    return planned(said(stack), stack)


def groups_with_room() -> Iterator[tuple[str, str]]:
    """(stack, group) wherever a node can be added."""
    for stack in STACKS:
        cluster = load_cluster(said(stack)).cluster
        assert cluster is not None
        yield from ((stack, name) for name, group in cluster.groups.items() if group.count < capacity_of(name, group))


def grown(stack: str, group: str) -> dict[str, Any]:
    """The stack with a node more at the end of a group: on a machine of its own, where machines are listed."""
    described, plan = copy.deepcopy(said(stack)), plan_of(stack)
    count = sum(node.group == group for node in plan.nodes)
    described["groups"].setdefault(group, {})["count"] = count + 1
    if machines := described["target"].get("machines"):
        taken = {node.address for node in plan.nodes}
        free = next(str(host) for host in reversed(list(IPv4Network(plan.network.cidr).hosts())) if str(host) not in taken)
        machines[f"{group}{count}"] = {"address": free, "host_key": "SHA256:" + "9" * 43}
    return described


@of_each_stack
def test_names_addresses_and_macs_are_unique(stack: str) -> None:
    nodes = plan_of(stack).nodes
    for values in ([n.name for n in nodes], [n.address for n in nodes], [n.fqdn for n in nodes], [n.mac for n in nodes if n.mac]):
        assert len(set(values)) == len(values)


@of_each_stack
def test_addresses_are_hosts_of_the_network(stack: str) -> None:
    plan = plan_of(stack)
    network = IPv4Network(plan.network.cidr)
    reserved = {network.network_address, network.broadcast_address, plan.network.gateway and IPv4Address(plan.network.gateway)}
    addresses = {IPv4Address(node.address) for node in plan.nodes}
    assert all(address in network for address in addresses)
    assert not addresses & reserved


@pytest.mark.parametrize(("stack", "group"), list(groups_with_room()))
def test_a_node_more_changes_no_other_node(stack: str, group: str) -> None:
    """A renumbered node is a replaced node, with its disks."""
    before, after = plan_of(stack), planned(grown(stack, group), stack)
    (added,) = after.by_name.keys() - before.by_name.keys()
    assert after.by_name[added].group == group
    assert [node for node in after.nodes if node.name != added] == list(before.nodes)
    assert [volume for volume in after.volumes if volume.node != added] == list(before.volumes)
    assert {name: port for name, port in after.access.ports.items() if name != added} == before.access.ports


@of_each_stack
def test_every_node_is_in_the_inventory_group_of_its_own_group_and_roles_alone(stack: str) -> None:
    plan = plan_of(stack)
    declared = said(stack)["groups"]
    for node in plan.nodes:
        assert [group for group in declared if node.name in plan.groups[group]] == [node.group]
        assert {role for role in Role if node.name in plan.groups.get(f"role_{role}", ())} == set(node.roles)
        assert node.roles


@of_each_stack
def test_groups_and_services_name_planned_nodes_only(stack: str) -> None:
    plan = plan_of(stack)
    named: set[str] = {*plan.access.jump_hosts, *plan.access.ports, *(volume.node for volume in plan.volumes)}
    named |= {name for members in plan.groups.values() for name in members}
    named |= {name for storage in plan.storage for name in (*storage.servers, *storage.clients)}
    named |= {*plan.scheduler.controllers, *plan.scheduler.submit_hosts, *(node.name for node in plan.scheduler.nodes)}
    if plan.fabric and plan.fabric.subnet_manager:
        named.add(plan.fabric.subnet_manager)
    assert named <= plan.by_name.keys()


@of_each_stack
def test_every_worker_is_counted_by_the_scheduler_with_its_own_hardware(stack: str) -> None:
    plan = plan_of(stack)
    if plan.scheduler.kind == "slurm":
        counted = {node.name: (node.cpus, node.gpus, node.gpu_type) for node in plan.scheduler.nodes}
        own = {node.name: (node.cpus, node.gpus.count if node.gpus else 0, node.gpus.model if node.gpus else None) for node in plan.nodes}
    else:
        counted = {node.name: (node.address, node.gpus) for node in plan.scheduler.nodes if node.runs_workloads}
        own = {node.name: (node.address, node.gpus.count if node.gpus else 0) for node in plan.nodes}
    assert counted == {name: own[name] for name in plan.groups["role_worker"]}


@of_each_stack
def test_partitions_hold_nodes_of_the_scheduler_and_one_is_the_default(stack: str) -> None:
    scheduler = plan_of(stack).scheduler
    if scheduler.kind != "slurm":
        assert {user for one in scheduler.namespaces for user in one.users} <= {user.name for user in plan_of(stack).users}
        return
    nodes = {node.name for node in scheduler.nodes}
    assert all(set(partition.nodes) <= nodes and partition.nodes for partition in scheduler.partitions)
    assert [partition.default for partition in scheduler.partitions].count(True) == bool(nodes)  # Runners of CI have no scheduler.


@of_each_stack
def test_the_fabric_has_a_place_for_every_node_on_it(stack: str) -> None:
    plan = plan_of(stack)
    if plan.fabric is None:
        assert not any(node.rails for node in plan.nodes)
        return
    placed = [plan.fabric.places[node.group] + node.index for node in plan.nodes if node.group in plan.fabric.places]
    assert len(set(placed)) == len(placed)
    assert max(placed) < plan.fabric.nodes
    assert plan.fabric.places.keys() | {dpu.group for dpu in plan.fabric.dpus} <= said(stack)["groups"].keys()
    assert all(node.rails == plan.fabric.rails_of(node.name, node.group) for node in plan.nodes)
