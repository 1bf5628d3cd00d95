"""The objects of a serving run match the schemas of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_schemas import breaches

from rackwright.workloads.serving_pods import ServingJob, serving_objects
from rackwright.workloads.training_pods import PodPlace

PLACE = PodPlace("research", "rackwright.local/training:1", "/mnt/s", 2001, 2001, ("worker0", "worker1"))
OBJECTS = serving_objects(ServingJob("serve-1", "/mnt/s/serve-1", "/mnt/s/train-1/checkpoints", "step-1"), PLACE)


@pytest.mark.parametrize("wanted", [one for one in OBJECTS if one["kind"] != "Pod"], ids=lambda one: str(one["kind"]))
def test_objects_match_schemas(wanted: dict[str, Any]) -> None:
    assert breaches(wanted) == []


def test_pod_of_load_matches_schema_of_pods() -> None:
    """There is no schema of a bare Pod; a Deployment has the same PodSpec."""
    deployment, pod = (next(one for one in OBJECTS if one["kind"] == kind) for kind in ("Deployment", "Pod"))
    spec = {**deployment["spec"], "template": {"metadata": pod["metadata"], "spec": pod["spec"]}}
    assert breaches({**deployment, "spec": spec}) == []


def test_schema_refuses_unknown_field() -> None:
    deployment = next(one for one in OBJECTS if one["kind"] == "Deployment")
    assert any("'replica' was unexpected" in breach for breach in breaches({**deployment, "spec": {**deployment["spec"], "replica": 1}}))
