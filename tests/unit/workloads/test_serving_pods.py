"""The objects of a serving run: what keeps requests from being lost, and what the pods read."""

from __future__ import annotations

import json
from typing import Any

from rackwright.remote.programs import serving_pods as program
from rackwright.workloads.inference.http_server import Drain
from rackwright.workloads.serving_pods import PACKAGE, ROLE, RUN, ServingJob, program_texts, serving_objects
from rackwright.workloads.training_pods import PodPlace

JOB = ServingJob("rackwright-serve-1", "/mnt/s/kubernetes/research/serving/serve-1", "/mnt/s/training/train-1/checkpoints", "step-00000096")
PLACE = PodPlace("research", "rackwright.local/training:1", "/mnt/s/kubernetes/research", 2001, 2001, ("worker0", "worker1"))
OBJECTS = {one["kind"]: one for one in serving_objects(JOB, PLACE)}


def server() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of the server, and its container."""
    pod: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def test_update_never_lacks_ready_pod() -> None:
    assert OBJECTS["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert OBJECTS["PodDisruptionBudget"]["spec"]["minAvailable"] == 1


def test_grace_period_outlasts_drain() -> None:
    pod, container = server()
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > before + Drain.most


def test_service_and_budget_select_servers_only() -> None:
    labels = OBJECTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert OBJECTS["Service"]["spec"]["selector"] == OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert (
        OBJECTS["Pod"]["metadata"]["labels"][ROLE] != labels[ROLE] and OBJECTS["Pod"]["metadata"]["labels"][RUN] == labels[RUN] == JOB.name
    )


def test_program_is_mounted_with_its_folders() -> None:
    pod, container = server()
    volume = next(one["configMap"] for one in pod["volumes"] if one["name"] == "program")
    mounted = {one["path"]: OBJECTS["ConfigMap"]["data"][one["key"]] for one in volume["items"]}
    assert mounted == program_texts() and f"{PACKAGE.replace('.', '/')}/serve.py" in mounted and "rackwright/__init__.py" in mounted
    assert len(json.dumps(OBJECTS["ConfigMap"]["data"])) < 2**20, "the limit of a ConfigMap"
    assert container["command"][:3] == ["python3", "-m", f"{PACKAGE}.serve"]


def test_server_reads_checkpoint_and_writes_nothing() -> None:
    _, container = server()
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["CHECKPOINT"] == "/mnt/s/training/train-1/checkpoints/step-00000096" and environment["REVISION"] == "revision-1"
    assert all(one["readOnly"] for one in container["volumeMounts"])


def test_pods_run_as_user_without_privileges() -> None:
    for pod in (server()[0], OBJECTS["Pod"]["spec"]):
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (2001, True)
        assert pod["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_program_on_node_knows_labels_and_kinds() -> None:
    assert (program.RUN, program.ROLE) == (RUN, ROLE) and set(program.PATHS) >= set(OBJECTS)
