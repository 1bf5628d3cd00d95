"""The impact of an edit, compared with the engine's actions: the resources that each target registers, and the providers' own diffs."""

from __future__ import annotations

from typing import Any

import pytest
from recording import Recording, built
from support.edited_stack import committed_stack, described, edited

from rackwright.impact import Action, ClusterPlan, impact
from rackwright.model.update_policy import UpdatePolicy
from rackwright.provider import registry
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.resource import RecordedState
from rackwright.stackfile.diff import edits

NODE, HOST, VOLUME = "rackwright:lab:Node", "rackwright:hosts:Host", "rackwright:lab:Volume"


def edited_pair(stack: str, path: str, value: Any) -> tuple[ClusterPlan, ClusterPlan]:
    """Return a committed stack before and after one edit; None removes a key."""
    declared = committed_stack(stack)
    return described(declared, stack), described(edited(declared, **{path.replace(".", "__"): value}), stack)


def differences(old: Recording, new: Recording, token: str) -> dict[str, DiffResult]:
    """Return the provider's diff of every resource of a type that stays."""
    resource = registry.resource(token)
    assert resource is not None
    before, after = old.of(token), new.of(token)
    return {
        name: resource.diff(RecordedState(name, resource.apply_defaults(before[name]), {}), resource.apply_defaults(after[name]))
        for name in before.keys() & after.keys()
    }


def subjects(found: tuple[Any, ...], *actions: Action) -> set[str]:
    return {name for consequence in found if consequence.action in actions for name in consequence.affected}


LAB_EDITS: list[tuple[str, Any]] = [
    ("groups.worker.count", 3),
    ("groups.worker.count", 1),
    ("groups.worker.cpus", 4),
    ("groups.worker.memory", "1GiB"),
    ("groups.worker.gpus.model", "a100"),
    ("groups.worker.gpus.count", 4),
    ("groups.worker.gpus", None),
    ("groups.worker.rack", "r1"),
    ("groups.login.roles", ["login", "controller"]),
    ("groups.storage.count", 2),
    ("groups.storage.reserved_addresses", 9),
    ("nodes", {"worker1": {"gpus": {"count": 7}}}),
    ("nodes", {"worker1": {"cpus": 4, "memory": "1GiB", "rack": "r2"}}),
    ("nodes", {"worker1": {"state": "out", "reason": "bad DIMM", "until": "2999-01-01"}}),
    ("network.cidr", "10.80.0.0/24"),
    ("network.domain", "other.internal"),
    ("access.port", 2300),
    ("access.bind_address", "127.0.0.2"),
    ("access.allowed_cidrs", ["10.0.0.0/8"]),
    ("storage.sharedfs.size", "9GiB"),
    ("storage.sharedfs.mount", "/mnt/b"),
    ("storage.sharedfs.mode", "0755"),
    ("storage.sharedfs.clients", ["login"]),
    ("storage.sharedfs", None),
    ("scheduler.power_saving", {"suspend_time": "10m"}),
    ("scheduler.partitions", {"all": {"groups": ["worker"], "max_time": "1h"}}),
    ("scheduler.drain_timeout", "1m"),
    ("users.bob", {"uid": 2002, "admin": True}),
    ("users.alice", None),
    ("users.alice.shell", "/bin/sh"),
    ("target.mirror", "http://mirror.example/debian"),
    ("target.image", "pull"),
    ("verify_level", "checks"),
    ("refresh_scope", "resources"),
    ("rolling", {"max_unavailable": 2}),
    ("time_zone", "Europe/Berlin"),
]


@pytest.mark.parametrize(("path", "value"), LAB_EDITS, ids=lambda value: str(value))
def test_impact_replaces_same_nodes_as_provider(path: str, value: Any) -> None:
    before, after = edited_pair("lab", path, value)
    found, old, new = impact(before, after), built(before.plan), built(after.plan)
    replaced = {name for name, difference in differences(old, new, NODE).items() if difference.replaces}
    assert subjects(found, Action.REPLACE) == replaced
    assert subjects(found, Action.DRAIN, Action.REMOVE) == set(old.of(NODE)) - set(new.of(NODE))
    assert {name for name in subjects(found, Action.ADD) if name in new.of(NODE)} == set(new.of(NODE)) - set(old.of(NODE))


@pytest.mark.parametrize(("path", "value"), LAB_EDITS, ids=lambda value: str(value))
def test_replace_policy_matches_provider_diff(path: str, value: Any) -> None:
    """Roles, counts and file systems may replace nodes through their volumes; then the plan decides, not the field."""
    before, after = edited_pair("lab", path, value)
    said = {edit.change for edit in edits(before.cluster, after.cluster)}
    replaced = [name for name, difference in differences(built(before.plan), built(after.plan), NODE).items() if difference.replaces]
    if replaced:
        assert said & {UpdatePolicy.REPLACE, UpdatePolicy.MEMBERS, UpdatePolicy.DATA_LOSS}
    else:
        assert UpdatePolicy.REPLACE not in said


@pytest.mark.parametrize(("path", "value"), LAB_EDITS, ids=lambda value: str(value))
def test_data_loss_matches_deleted_volumes(path: str, value: Any) -> None:
    before, after = edited_pair("lab", path, value)
    gone = set(built(before.plan).of(VOLUME)) - set(built(after.plan).of(VOLUME))
    assert bool(subjects(impact(before, after), Action.DESTROY)) == bool(gone)


def test_edits_cover_every_replacing_policy() -> None:
    """The edits above cover them, so that a field that starts to replace nodes is compared with the provider, too."""
    compared = {
        str(edit)
        for path, value in LAB_EDITS
        for edit in edits(*(one.cluster for one in edited_pair("lab", path, value)))
        if edit.change is UpdatePolicy.REPLACE
    }
    assert {path.replace("nodes.worker1", "nodes.*").replace("groups.worker", "groups.*") for path in compared} == {
        "access.bind_address", "access.port", "groups.*.gpus", "groups.*.gpus.count", "network.cidr", "nodes.*.gpus.count"
    }  # fmt: skip


HOSTS_EDITS: list[tuple[str, Any]] = [
    ("groups.worker.cpus", 8),
    ("groups.worker.memory", "8GiB"),
    ("groups.worker.gpus", {"model": "a100", "count": 2}),
    ("groups.worker.rack", "r1"),
    ("groups.worker.reserved_addresses", 65),
    ("network.cidr", "10.20.0.0/16"),
    ("network.domain", "other.internal"),
    ("access.port", 2300),
    ("target.os", "debian-12"),
    ("target.user", "root"),
    ("target.port", 2222),
    ("target.jump_host", None),
    ("target.jump_host", "storage0"),
    ("target.machines.login0.ssh_address", "203.0.113.99"),
    ("target.ssh_private_key_file", "~/.ssh/other"),
    ("target.on_removal", "clean"),
    ("target.machine_type", "system-container"),
    ("target.machines.worker1.address", "10.20.0.99"),
    ("target.machines.worker1.ssh_address", "203.0.113.11"),
    ("target.machines.worker1.port", 2222),
    ("target.machines.worker1.user", "root"),
    ("target.machines.worker1.host_key", "SHA256:" + "5" * 43),
    ("target.machines.worker1.os", "debian-12"),
    ("storage.sharedfs", None),
    ("users.bob", {"uid": 2002}),
    ("verify_level", "checks"),
]


@pytest.mark.parametrize(("path", "value"), HOSTS_EDITS, ids=lambda value: str(value))
def test_revalidated_machines_match_provider_updates(path: str, value: Any) -> None:
    before, after = edited_pair("budget-vms", path, value)
    found = differences(built(before.plan), built(after.plan), HOST)
    assert not [name for name, difference in found.items() if difference.replaces]
    assert subjects(impact(before, after), Action.ADOPT) == {name for name, difference in found.items() if difference.changes}
