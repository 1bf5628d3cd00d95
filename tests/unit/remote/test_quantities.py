"""Quantities of Kubernetes in all their forms, and the GPUs that pods hold."""

from __future__ import annotations

import json
from fractions import Fraction
from types import SimpleNamespace

import pytest
from support.rows import each_row

from rackwright.checks.acceptance.phases.kubernetes_health import parse_claim
from rackwright.remote.programs import kubernetes_jobs, kubernetes_nodes, quantities, smoke_pods

GPU = "nvidia.com/gpu"


@each_row(
    ("text", "value"),
    [
        ("8", 8),
        ("0", 0),
        ("1k", 1000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("100m", Fraction(1, 10)),
        ("211040870n", Fraction(211040870, 10**9)),
        ("250u", Fraction(1, 4000)),
        ("12Gi", 12 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("10G", 10**10),
        ("128974848", 128974848),
        ("129e6", 129000000),
        ("129M", 129000000),
        ("1Ei", 2**60),
        ("-1", -1),
    ],
)
def test_quantity_is_read(text, value):
    assert quantities.quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1K", "1,5", "0x10", "<unset>", "nan", "1e", "--1"])
def test_other_text_is_no_quantity(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        quantities.quantity(text)


def test_fraction_of_a_pod_is_no_count():
    with pytest.raises(ValueError, match="is not a whole number"):
        quantities.whole_number("1500m")


@pytest.mark.parametrize(
    ("storage", "mib"), [("10Gi", 10240), ("10G", 9537), ("1e10", 9537), ("10737418240", 10240), ("0.5Ti", 524288), ("1Ei", 2**40)]
)
def test_claim_size_is_read(storage, mib):
    assert parse_claim(json.dumps({"status": {"phase": "Bound", "capacity": {"storage": storage}}})) == {"phase": "Bound", "mib": mib}


def container(restart: str = "", **resources: str):
    """Return a container with limits; of an init container, `restart` is its restart policy."""
    limits = {"nvidia.com/" + name.replace("__", "-"): value for name, value in resources.items()}
    return {"resources": {"limits": limits, "requests": limits}, **({"restartPolicy": restart} if restart else {})}


@pytest.mark.parametrize(
    ("containers", "first", "held"),
    [
        ([container(gpu="2"), container(gpu="1")], [], 3),
        ([{}], [], 0),
        ([{"resources": {"requests": {"cpu": "1"}, "limits": {GPU: "4"}}}], [], 4),
        ([{"resources": {"limits": None}}], [], 0),
        ([container(gpu="1k")], [], 1000),
        ([{}], [container("Always", gpu="1")], 1),
        ([container(gpu="1")], [container("Always", gpu="1")], 2),
        ([container(gpu="1")], [container(gpu="8")], 8),
        ([container(gpu="8")], [container(gpu="1")], 8),
        ([{}], [container("Always", gpu="1"), container(gpu="2")], 3),
        ([{"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}], [], 1),
        ([{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "2"}}}], [], 2),
        ([{"resources": {"limits": {"nvidia.com/hostdev": "1"}}}], [], 0),
    ],
    ids=[
        *("two-containers", "none", "limits-alone", "null", "thousand", "sidecar", "sidecar-beside", "init-larger", "init-smaller"),
        *("init-after-sidecar", "shared", "mig", "network-device"),
    ],
)
def test_held_gpus_are_counted(containers, first, held):
    assert quantities.gpus_of({"spec": {"containers": containers, "initContainers": first}}) == held


def pod_on(node, **spec):
    """Return another user's pod on a node."""
    return {"metadata": {"namespace": "research", "name": "train"}, "spec": {"nodeName": node, **spec}}


SIDECAR = pod_on("worker0", containers=[{}], initContainers=[container("Always", gpu="1")])
SLICE = pod_on("worker0", containers=[{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}])


@pytest.mark.parametrize("pod", [SIDECAR, SLICE], ids=["sidecar", "mig"])
def test_node_with_gpus_in_use_is_busy(pod):
    node = {"metadata": {"name": "worker0"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert kubernetes_nodes.state(node, (), [pod]) == "allocated GPUs of research/train"
    assert smoke_pods.taken(SimpleNamespace(get=lambda path: {"items": [pod]}), "own") == {"worker0": 1}


def test_quota_of_a_thousand_pods_is_read(monkeypatch):
    """The API server writes 1000 as 1k."""
    quota = {"status": {"hard": {"pods": "1k", "requests.nvidia.com/gpu": "8"}, "used": {"pods": "12", "requests.nvidia.com/gpu": "0"}}}
    monkeypatch.setattr(kubernetes_jobs, "api", lambda: SimpleNamespace(get=lambda path: {"items": [quota]}))
    room = kubernetes_jobs.Room()
    room.measure("research")
    assert room.limits == {"pods": 988, "requests.nvidia.com/gpu": 8}
