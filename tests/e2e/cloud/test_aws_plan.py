"""The plan of an AWS stack, converged with the same groups and roles, on containers instead of instances.

No instance takes part. The target's own decisions differ: the operating system, the network, the shared file system that AWS would serve,
and GPUs are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project, clone

from rackwright import inventory
from rackwright.inventory import Host, paths
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_stack
from rackwright.yaml_loader import load_yaml

LIKE = "aws-budget"
DECIDED_BY_THE_PLACE = {"storage_client"}
"""Groups that cannot be equal: no node serves FSx for Lustre, so here no node mounts it."""


@pytest.fixture(scope="module")
def aws() -> Plan:
    """Return the plan of the committed stack."""
    cluster = load_stack(paths.stack_file(LIKE)).cluster
    assert cluster is not None
    return expand(cluster, LIKE)


@pytest.fixture(scope="module")
def lab_of_it(aws: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield the stack with the lab as its target, up and verified."""
    project = clone(tmp_path_factory.mktemp("aws-plan") / "checkout", like=LIKE)

    def move(cluster: dict[str, Any]) -> None:
        cluster["target"] = {"kind": "lab", "os": "debian-13"}
        del cluster["storage"], cluster["budget"]
        for name, group in cluster["groups"].items():
            like = aws.node(aws.groups[name][0])
            group.update(
                cpus=like.cpus, memory="1GiB", **({"gpus": {"model": like.gpus.model, "count": like.gpus.count}} if like.gpus else {})
            )

    project.edit(move)
    try:
        project.run_checked("up", timeout=2400)
        yield project
        project.run_checked("destroy")
    finally:
        project.remove()
    assert project.leftovers() == []


def handed_over(project: Project) -> dict[str, Any]:
    """Return the inventory of the phases."""
    found: dict[str, Any] = load_yaml((project.home / project.stack / "inventory.yml").read_text())["all"]
    return found


def of(aws: Plan) -> dict[str, Any]:
    """Return the inventory for instances of the same names."""
    hosts = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"i-{node.name}") for node in aws.nodes}
    found: dict[str, Any] = inventory.inventory(aws, hosts)["all"]
    return found


def test_aws_plan_passes_every_check(lab_of_it: Project) -> None:
    report = lab_of_it.report()
    assert (report["verdict"], report["level"], [node["name"] for node in report["nodes"]]) == (
        "passed",
        "smoke",
        ["login0", "worker0", "worker1"],
    )


def test_groups_have_equal_nodes(lab_of_it: Project, aws: Plan) -> None:
    here, there = ({name: list(group["hosts"]) for name, group in one["children"].items()} for one in (handed_over(lab_of_it), of(aws)))
    assert set(here) == set(there)
    assert {name for name in here if here[name] != there[name]} == DECIDED_BY_THE_PLACE


@pytest.mark.parametrize("name", ["login0", "worker0", "worker1"])
def test_nodes_have_equal_records(lab_of_it: Project, aws: Plan, name: str) -> None:
    here, there = (one["hosts"][name]["node"] for one in (handed_over(lab_of_it), of(aws)))
    for key in ("name", "group", "index", "roles", "cpus", "neuron_devices", "state"):
        assert here[key] == there[key], key
    assert _shape(here["gpus"]) == _shape(there["gpus"])


def test_slurm_resources_are_equal(lab_of_it: Project, aws: Plan) -> None:
    here, there = (one["vars"]["cluster"]["scheduler"] for one in (handed_over(lab_of_it), of(aws)))
    for key in ("controllers", "accounting", "submit_hosts", "partitions"):
        assert here[key] == there[key], key
    assert lab_of_it.ssh("worker1", "sinfo -h -o %G").output.strip() == "gpu:a10g:1"


def _shape(gpus: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return GPUs without the field that marks them as simulated."""
    return None if gpus is None else {key: value for key, value in gpus.items() if key != "simulated"}
