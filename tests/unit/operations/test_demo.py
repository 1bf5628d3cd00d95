"""What a training run needs of a stack, the space it needs, and what is printed of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from rackwright.catalog.kubernetes import own_image
from rackwright.errors import InputError
from rackwright.inventory import Host, inventory
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.operations.demo.prerequisites import find_site
from rackwright.operations.demo.training import TrainingOptions, needed_mib
from rackwright.operations.stack import load_plan
from rackwright.plan import Plan

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"


def declared(stack: str = "lab-train", change: Callable[[dict[str, Any]], None] = lambda _variables: None) -> Inventory:
    """Return the inventory of a stack of this repository, with changed variables."""
    plan: Plan = load_plan(stack, lambda _finding: None)
    handed = copy.deepcopy(inventory(plan, {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes}))
    change(handed["all"]["vars"])
    return from_inventory(handed)


def test_lab_train_has_all_prerequisites() -> None:
    site = find_site(declared(), kill_worker=True)
    assert (site.submit_host, site.user, site.mount, site.python) == ("login0", "alice", "/mnt/sharedfs", "/usr/bin/python3")
    assert site.workers == ("worker0", "worker1") and site.ranks_per_node == 1, "its GPUs are simulated"
    assert (site.nodes, site.ranks, find_site(declared(), nodes=1).ranks) == (2, 2, 1)
    assert needed_mib(site) == 1024


def test_pods_of_kubernetes_lab_train_on_claim_of_namespace() -> None:
    site = find_site(declared("lab-k8s-train"), kill_worker=True)
    assert (site.submit_host, site.user, site.program) == ("login0", "alice", "training_pods")
    assert site.folder == "/mnt/sharedfs/kubernetes/research/training" and site.workers == ("worker0", "worker1")
    assert site.pods is not None and site.folder.startswith(site.pods.volume)
    assert (site.pods.namespace, site.pods.uid, site.ranks) == ("research", 2001, 2)
    assert site.pods.image == own_image("training") and needed_mib(site) == 1024
    assert find_site(declared()).program == "training_run"


def without(section: str) -> Callable[[dict[str, Any]], None]:
    """Return a change that empties a section of the cluster."""
    return lambda variables: variables["cluster"].__setitem__(section, [])


def private_storage(variables: dict[str, Any]) -> None:
    """Let only root write."""
    variables["cluster"]["storage"][0]["mode"] = "0755"


def of_scheduler(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the scheduler."""
    return lambda variables: variables["cluster"]["scheduler"].update(values)


def of_namespace(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the first namespace."""
    return lambda variables: variables["cluster"]["scheduler"]["namespaces"][0].update(values)


def on_aws(variables: dict[str, Any]) -> None:
    """Make nodes that this machine does not run."""
    variables["handover"]["target"] = variables["cluster"]["target"] = "aws"


@pytest.mark.parametrize(
    ("stack", "change", "options", "cause", "hint"),
    [
        ("lab-k8s", lambda _: None, {}, "has no Kubeflow Trainer", "add `addons: [jobset, trainer]` under `scheduler`"),
        ("lab-k8s-train", of_scheduler(training_image=None), {}, "has no image for training pods", "`training_image: bundle`"),
        ("lab-k8s-train", of_namespace(claim_mib=None), {}, "has no namespace with a user and a claim", "shared_volume: 4GiB"),
        ("lab-k8s-train", of_namespace(users=[]), {}, "has no namespace with a user and a claim", "users: [alice]"),
        ("lab-k8s-train", lambda _: None, {"nodes": 3}, "has 2 workers that run pods (expected 3)", "increase the `count`"),
        ("lab-k8s-train", lambda _: None, {"nodes": 1, "kill_worker": True}, "needs two workers", "second worker"),
        ("lab-small", lambda _: None, {}, "has no PyTorch on its workers", "software: {pytorch: {source: debian}}"),
        ("lab-train", without("users"), {}, "has no user to submit jobs", "users: {alice"),
        ("lab-train", without("storage"), {}, "has no shared file system", "sharedfs: {kind: moosefs"),
        ("lab-train", private_storage, {}, "users may write to", "sharedfs: {kind: moosefs"),
        ("lab-train", lambda _: None, {"nodes": 3}, "has 2 workers in its default partition (expected 3)", "increase the `count`"),
        ("lab-train", on_aws, {"kill_worker": True}, "kills nodes of the targets lab and vm only", "without --kill-worker"),
        ("lab-train", lambda _: None, {"nodes": 1, "kill_worker": True}, "needs two workers", "second worker"),
    ],
)
def test_missing_prerequisite_names_what_to_add(
    stack: str, change: Callable[[dict[str, Any]], None], options: dict[str, Any], cause: str, hint: str
) -> None:
    with pytest.raises(InputError) as refused:
        find_site(declared(stack, change), **options)
    assert cause in str(refused.value) and hint in refused.value.hint


def test_checkpoints_divide_run_into_five() -> None:
    assert [TrainingOptions(steps=steps).every for steps in (10, 12, 200, 21000)] == [2, 2, 40, 100]
