"""What an edit of a stack file does, in the words a person reads before it is done."""

from __future__ import annotations

from typing import Any

import pytest
from support.edited_stack import committed_stack, described, edited

from rackwright.impact import Action, ClusterPlan, impact
from rackwright.impact.planned_change import Transition, named
from rackwright.model.update_policy import UpdatePolicy
from rackwright.stackfile.diff import Edit, Kind

from .conftest import HOSTS, KUBERNETES, LAB, consequences

RACK = committed_stack("rack-h100")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"fabric__max_nodes": 128}, "requires manual work on the fabric: 511 cables to move, 16 switches fewer (fabric.max_nodes)"),
        (
            {"fabric__oversubscription": 2},
            "requires manual work on the fabric: 592 cables to move, 176 cables to remove, 11 switches fewer (fabric.oversubscription)",
        ),
        ({"groups__worker__count": 63}, "requires manual work on the fabric: 8 cables to remove (groups.worker.count)"),
        ({"fabric": None}, "requires manual work on the fabric: 1024 cables to remove, 48 switches fewer (fabric)"),
    ],
)
def test_cables_of_a_real_fabric_are_told_as_work_for_people(fields: dict[str, Any], words: str) -> None:
    """A run moves none, and no edit that moves none says it does."""
    found = impact(described(RACK), described(edited(RACK, **fields)))
    (said,) = [consequence for consequence in found if consequence.action is Action.RECABLE]
    assert str(said).splitlines()[0] == words
    assert ("planned for more nodes" in said.hint) == ("to move," in words)


@pytest.mark.parametrize(
    "fields", [{"fabric__floor_plan__row_pitch_cm": 200}, {"fabric__management_network": None}, {"groups__worker__cpus": 64}]
)
def test_edits_that_move_no_cable_say_nothing_of_cables(fields: dict[str, Any]) -> None:
    found = impact(described(RACK), described(edited(RACK, **fields)))
    assert found and not [consequence for consequence in found if consequence.action is Action.RECABLE]


def test_threads_of_running_instances_are_refused() -> None:
    """An instance keeps those that it was launched with; on machines Slurm learns of them."""
    aws, hosts = committed_stack("aws-budget"), edited(HOSTS, groups__worker__cpus=4)
    (refused,) = [
        one for one in impact(described(aws), described(edited(aws, groups__worker__threads_per_core=1))) if one.action is Action.REFUSE
    ]
    assert refused.affected == ("groups.worker.threads_per_core",)
    assert Action.REFUSE not in {
        one.action for one in impact(described(hosts), described(edited(hosts, groups__worker__threads_per_core=2)))
    }
    assert any("slurmctld" in words for words in consequences(hosts, groups__worker__threads_per_core=2))


def test_a_worker_joins_the_scheduler_that_there_is() -> None:
    assert "adds worker2, joins it to Kubernetes and verifies it (groups.worker.count)" in consequences(KUBERNETES, groups__worker__count=3)
    assert not [words for words in consequences(KUBERNETES, nodes={"worker1": {"state": "out"}}) if "Slurm" in words]


def test_a_simulated_fabric_needs_no_people() -> None:
    found = impact(described(LAB), described(edited(LAB, fabric__max_nodes=16)))
    assert {consequence.action for consequence in found} == {Action.RESTART}


RELOAD = "reloads slurmctld on login0"
REWIRE = "restarts rackwright-ibsim on login0"
"""No job is interrupted: no data goes over a simulated fabric."""
ROWS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"groups__worker__count": 3},
        [
            f"{REWIRE} (groups.worker.count)",
            f"{RELOAD} (groups.worker.count)",
            "adds worker2, joins it to Slurm and verifies it (groups.worker.count)",
        ],
    ),
    (
        {"groups__worker__count": 1},
        ["drains worker1, then removes it (groups.worker.count)", f"{REWIRE} (groups.worker.count)", f"{RELOAD} (groups.worker.count)"],
    ),
    ({"groups__worker__cpus": 4}, [f"{RELOAD} (groups.worker.cpus)"]),
    ({"groups__storage__cpus": 4}, ["changes nothing on any node (groups.storage.cpus)"]),
    ({"groups__login__memory": "4GiB"}, ["changes nothing on any node (groups.login.memory)"]),
    ({"groups__login__memory": "16GiB"}, ["restarts mariadb on login0 (groups.login.memory)"]),
    (
        {"groups__worker__gpus__count": 4},
        [
            "replaces worker0, worker1 without draining first: jobs there end (groups.worker.gpus.count)",
            f"{REWIRE} (groups.worker.gpus.count)",
            f"{RELOAD} (groups.worker.gpus.count)",
        ],
    ),
    (
        {"nodes__worker1": {"gpus": {"count": 7}}},
        ["replaces worker1 without draining first: jobs there end (nodes.worker1.gpus.count)", f"{RELOAD} (nodes.worker1.gpus.count)"],
    ),
    ({"groups__worker__gpus__model": "a100"}, [f"{RELOAD} (groups.worker.gpus.model)"]),
    ({"groups__worker__rack": "r1"}, ["affects runs only; no node changes (groups.worker.rack)"]),
    ({"groups__storage__reserved_addresses": 9}, ["changes nothing on any node (groups.storage.reserved_addresses)"]),
    ({"groups__worker__reserved_addresses": 65}, ["renumbers group storage: refused (groups.worker.reserved_addresses)"]),
    (
        {"nodes__worker1": {"state": "out", "reason": "bad DIMM"}},
        [
            "removes worker1 from Slurm, phases and checks, without draining first (nodes.worker1.state)",
            f"{RELOAD} (nodes.worker1.state)",
            "affects runs only; no node changes (nodes.worker1.reason)",
        ],
    ),
    (
        {"access__port": 2300},
        [
            "replaces login0: sessions there end; Slurm unavailable meanwhile (access.port)",
            "keeps the accounting database of login0",
            "keeps Slurm's queue of login0",
        ],
    ),
    ({"access__allowed_cidrs": ["10.0.0.0/8"]}, ["sets access.allowed_cidrs in place (access.allowed_cidrs)"]),
    (
        {"network__cidr": "10.80.0.0/24"},
        [
            "replaces login0: sessions there end; Slurm unavailable meanwhile (network.cidr)",
            "replaces worker0, worker1 without draining first: jobs there end (network.cidr)",
            "replaces storage0: sessions there end; /mnt/sharedfs unavailable meanwhile (network.cidr)",
            "keeps /mnt/sharedfs and its data",
            "keeps the accounting database of login0",
            "keeps Slurm's queue of login0",
        ],
    ),
    ({"storage__sharedfs__size": "9GiB"}, ["restarts moosefs-chunkserver on storage0 (storage.sharedfs.size)"]),
    (
        {"storage__sharedfs__mount": "/mnt/b"},
        [
            "mounts /mnt/b on login0, worker0, worker1, storage0 (storage.sharedfs.mount)",
            "leaves /mnt/sharedfs mounted on login0, worker0, worker1, storage0: `up` does not unmount it (storage.sharedfs.mount)",
        ],
    ),
    (
        {"storage__sharedfs": None},
        [
            "deletes /mnt/sharedfs and all data on it (storage.sharedfs)",
            "replaces storage0: sessions there end (storage.sharedfs)",
        ],
    ),
    (
        {"groups__login__roles": ["login", "controller"]},
        [
            "deletes the accounting database on login0 (groups.login.roles)",
            "replaces login0: sessions there end; Slurm unavailable meanwhile (groups.login.roles)",
            "keeps Slurm's queue of login0",
        ],
    ),
    (
        {"scheduler__power_saving": {"suspend_time": "10m"}},
        ["restarts slurmd on worker0, worker1 (scheduler.power_saving)", f"{RELOAD} (scheduler.power_saving)"],
    ),
    ({"scheduler__drain_timeout": "1m"}, ["affects runs only; no node changes (scheduler.drain_timeout)"]),
    ({"scheduler__partitions": {"all": {"groups": ["worker"]}}}, [f"{RELOAD} (scheduler.partitions.all)"]),
    ({"users__bob": {"uid": 2002}}, ["creates user bob (users.bob)"]),
    ({"users__alice": None}, ["removes user alice, whose files stay (users.alice)"]),
    ({"users__alice__admin": True}, ["changes admin of user alice (users.alice.admin)"]),
    ({"users__alice__uid": 3000}, ["changes users.alice.uid from 2001 to 3000: refused (users.alice.uid)"]),
    ({"verify_level": "full"}, ["verifies at level full (verify_level)"]),
    (
        {"hooks": {"after_storage": ["site/archive.yml"]}},
        ["runs hooks.after_storage; its interruptions are unknown (hooks.after_storage)"],
    ),
    ({"time_zone": "Europe/Berlin"}, ["sets time_zone in place (time_zone)"]),
    ({"target__os": "debian-12"}, ["changes target.os from debian-13 to debian-12: refused (target.os)"]),
    ({"target__mirror": "http://mirror.example/debian"}, ["applies to new nodes only (target.mirror)"]),
]


@pytest.mark.parametrize(("fields", "expected"), ROWS, ids=lambda value: " ".join(value) if isinstance(value, dict) else "")
def test_an_edit_of_the_lab_is_told_before_it_is_done(fields: dict[str, Any], expected: list[str]) -> None:
    assert consequences(LAB, **fields) == expected


STARTS_ANEW = "revalidates {}, and stops if a machine differs from its description"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"target__port": 2222}, [f"{STARTS_ANEW.format('login0, worker0, worker1, storage0')} (target.port)"]),
        (
            {"target__machines__worker1__address": "10.20.0.99"},
            [
                f"{STARTS_ANEW.format('worker1')} (target.machines.worker1.address)",
                f"{RELOAD} (target.machines.worker1.address)",
            ],
        ),
        ({"groups__worker__cpus": 8}, [f"{STARTS_ANEW.format('worker0, worker1')} (groups.worker.cpus)", f"{RELOAD} (groups.worker.cpus)"]),
        ({"network__cidr": "10.20.0.0/16"}, ["restarts moosefs-master on storage0 (network.cidr)"]),
        (
            {"groups__worker__count": 1, "target__machines__worker1": None},
            [
                "drains worker1, then releases it (on_removal: keep) (groups.worker.count)",
                f"{RELOAD} (target.machines.worker1, groups.worker.count)",
            ],
        ),
        ({"storage__sharedfs": None}, ["leaves /mnt/sharedfs served and mounted (storage.sharedfs)"]),
        (
            {"storage__home": {"kind": "existing-nfs", "mount": "/mnt/home", "source": "nas:/export/home"}},
            ["mounts /mnt/home from nas:/export/home (storage.home)"],
        ),
        (
            {"groups__login__roles": ["login", "controller"]},
            ["removes the role accounting from login0, whose daemons would keep running: refused (groups.login.roles)"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_an_edit_of_machines_that_exist_replaces_none(fields: dict[str, Any], expected: list[str]) -> None:
    assert consequences(HOSTS, **fields) == expected


def test_existing_file_system_stays_mounted_and_keeps_its_data() -> None:
    existing = {"kind": "existing-nfs", "mount": "/mnt/home", "source": "nas:/export/home"}
    assert consequences({**HOSTS, "storage": {**HOSTS["storage"], "home": existing}}, storage__home=None) == [
        "leaves /mnt/home mounted, which `up` does not unmount; nothing on nas:/export/home is deleted (storage.home)"
    ]


def test_an_old_release_of_slurm_restarts_where_a_new_one_reloads() -> None:
    old = edited(LAB, target__os="debian-12")
    assert consequences(old, groups__worker__count=3) == [
        "restarts slurmctld and rackwright-ibsim on login0 (groups.worker.count)",
        "restarts slurmd on worker0, worker1 (groups.worker.count)",
        "adds worker2, joins it to Slurm and verifies it (groups.worker.count)",
    ]


def test_groups_that_change_places_move_each_other() -> None:
    """The workers stay: what lies before them, login or storage, has the same capacity."""
    moved = {**LAB, "groups": dict(reversed(LAB["groups"].items()))}
    found = impact(described(LAB), described(moved))
    assert {consequence.action for consequence in found} == {Action.REFUSE}
    assert [str(consequence).splitlines()[0] for consequence in found] == [
        f"renumbers group {group}: refused (groups)" for group in ("storage", "login")
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"groups__worker__names": "worker[0-3]"}, "changes nothing on any node (groups.worker.names)"),
        ({"groups__worker__names": "worker[0-1],node[001-009]"}, "changes nothing on any node (groups.worker.names)"),
        ({"groups__worker__names": "worker0,node[001-009]"}, "renames worker1 to node001: refused (groups.worker.names)"),
        ({"groups__worker__names": "node[001-009]"}, "renames worker0, worker1 to node001, node002: refused (groups.worker.names)"),
    ],
)
def test_no_existing_node_is_renamed(fields: dict[str, Any], words: str) -> None:
    assert consequences(LAB, **fields) == [words]


def test_a_node_that_is_added_may_have_any_name() -> None:
    found = consequences(LAB, groups__worker__names="worker[0-1],node003", groups__worker__count=3)
    assert "adds node003, joins it to Slurm and verifies it (groups.worker.count)" in found


def test_a_file_system_does_not_move_to_another_server() -> None:
    assert consequences(LAB, groups__worker__roles=["worker", "storage"]) == [
        "moves /mnt/sharedfs from storage0 to worker0, without its data: refused (groups.worker.roles)"
    ]


def test_what_is_refused_is_refused_alone_and_says_what_now() -> None:
    found = impact(described(LAB), described(edited(LAB, users__alice__uid=3000, groups__worker__count=1)))
    assert [consequence.action for consequence in found] == [Action.REFUSE]
    assert found[0].hint.startswith("remove the user")


def test_a_stack_that_was_never_applied_is_made() -> None:
    assert [str(consequence) for consequence in impact(None, described(LAB))] == ["creates 4 nodes: login0, worker0, worker1, storage0"]
    assert str(impact(None, described(HOSTS))[0]) == "adopts 4 machines: login0, worker0, worker1, storage0"


def test_a_run_that_did_not_end_well_is_done_again() -> None:
    now = described(LAB)
    [found] = impact(ClusterPlan(now.cluster, now.plan, converged=False), now)
    assert (found.action, found.message) == (Action.REAPPLY, "applies all phases again: the last run did not succeed")


def test_many_names_are_shown_as_first_and_last() -> None:
    assert named(f"worker{index}" for index in range(40)) == "worker0 … worker39 (40 of them)"


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("target.instances.worker.type", ["worker0", "worker1"]),
        ("target.instances.storage", ["storage0"]),
        ("target.image", ["login0", "worker0", "worker1", "storage0"]),
        ("nodes.worker1.cpus", ["worker1"]),
        ("access.port", ["login0"]),
        ("storage.sharedfs.size", ["storage0"]),
    ],
)
def test_a_field_concerns_the_nodes_its_path_names(path: str, concerned: list[str]) -> None:
    """Also a field that a target adds: where its path names a group, the group's nodes are concerned, otherwise all are."""
    lab = described(LAB)
    edit = Edit(tuple(path.split(".")), Kind.CHANGED, UpdatePolicy.REPLACE, 1, 2)
    assert [node.name for node in lab.plan.nodes if Transition(lab, lab).concerns(edit, node)] == concerned


def test_a_playbook_that_is_taken_out_undoes_nothing() -> None:
    own = edited(LAB, hooks={"after_storage": ["site/archive.yml"]})
    assert consequences(own, hooks=None) == ["no longer runs hooks.after_storage; its earlier changes stay (hooks.after_storage)"]
