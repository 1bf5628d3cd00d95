"""Add-ons of Kubernetes: their Deployments and DaemonSets, webhooks and metrics, as an API server reports them."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_addons
from rackwright.checks.cluster.probes.addons import DEPLOYMENTS, METRICS, parse_deployments, parse_hooks, parse_metrics, workloads
from rackwright.remote.programs import kubernetes_api


def deployment(image="new", **status):
    """Return a Deployment of one replica."""
    return {"spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": image}]}}}, "status": status}


@pytest.mark.parametrize(
    ("status", "available"),
    [
        ({"availableReplicas": 1, "updatedReplicas": 1}, 1),
        ({"availableReplicas": 1, "updatedReplicas": 0}, 0),
        ({"availableReplicas": 1}, 0),
        ({"updatedReplicas": 1}, 0),
        ({}, 0),
    ],
    ids=["updated", "update-hangs", "not-begun", "not-ready", "new"],
)
def test_available_deployment_runs_its_own_release(status, available):
    assert parse_deployments(json.dumps({"a": deployment(**status)}))["a"].available == available


@pytest.mark.parametrize(("available", "updated", "found"), [(3, 3, 3), (2, 3, 2), (3, 1, 1)], ids=["runs", "not-ready", "update-hangs"])
def test_available_daemon_set_runs_its_own_release_on_every_node(available, updated, found):
    status = {"desiredNumberScheduled": 3, "numberAvailable": available, "updatedNumberScheduled": updated}
    one = parse_deployments(json.dumps({"a": {"kind": "DaemonSet", **deployment(**status)}}))["a"]
    assert (one.planned, one.available) == (3, found)


@pytest.mark.parametrize(("available", "verdict"), [(3, "passed"), (2, "failed")])
def test_daemon_set_of_addon_must_run_on_every_node(available, verdict):
    addon = {"name": "dra-example-driver", "namespace": "kube-system", "daemon_set": "plugin", "image": "rackwright.local/dra:1"}
    status = {"desiredNumberScheduled": available, "numberAvailable": available, "updatedNumberScheduled": available}
    live = {workloads(addon)["daemon_set"]: {"kind": "DaemonSet", **deployment(image=addon["image"], **status)}}
    scheduler = SimpleNamespace(addons=[SimpleNamespace(**addon)], nodes=["login0", "worker0", "worker1"])
    answers = {DEPLOYMENTS: lambda: parse_deployments(json.dumps(live))}
    found, _ = verdict_of(test_addons.test_are_available, answers, cluster=SimpleNamespace(scheduler=scheduler))
    assert found.value == verdict and "/daemonsets/plugin" in next(iter(live))


@pytest.mark.parametrize(("controllers", "speakers", "wrong"), [(1, 3, None), (1, 2, "metallb, speaker"), (0, 3, "metallb, controller")])
def test_deployment_and_daemon_set_of_one_addon_must_both_run(controllers, speakers, wrong):
    """A speaker less leaves a node that cannot take an address over; without the controller, no Service gets one."""
    addon = {"name": "metallb", "namespace": "metallb-system", "deployment": "controller", "daemon_set": "speaker", "image": "m:1"}
    paths = workloads(addon)
    daemons = {"desiredNumberScheduled": 3, "numberAvailable": speakers, "updatedNumberScheduled": 3}
    live = {
        paths["deployment"]: deployment(image="m:1", availableReplicas=controllers, updatedReplicas=1),
        paths["daemon_set"]: {"kind": "DaemonSet", **deployment(image="m:1", **daemons)},
    }
    scheduler = SimpleNamespace(addons=[SimpleNamespace(**addon)], nodes=["control0", "worker0", "worker1"])
    answers = {DEPLOYMENTS: lambda: parse_deployments(json.dumps(live))}
    found, said = verdict_of(test_addons.test_are_available, answers, cluster=SimpleNamespace(scheduler=scheduler))
    assert found.value == ("failed" if wrong else "passed") and (wrong is None or wrong in said)


@pytest.mark.parametrize(
    ("operators", "servers", "wrong"), [(1, 1, None), (1, 0, "keda, keda-metrics-apiserver"), (0, 1, "keda, keda-operator")]
)
def test_both_deployments_of_one_addon_must_run(operators, servers, wrong):
    """Without the metrics server, autoscalers keep the number of pods that they have."""
    names = {"deployment": "keda-operator", "metrics_deployment": "keda-metrics-apiserver"}
    addon = {"name": "keda", "namespace": "keda", "image": "k:1", **names}
    paths = workloads(addon)
    assert paths["metrics_deployment"] == "/apis/apps/v1/namespaces/keda/deployments/keda-metrics-apiserver"
    live = {
        paths["deployment"]: deployment(image="k:1", availableReplicas=operators, updatedReplicas=1),
        paths["metrics_deployment"]: deployment(image="k:1", availableReplicas=servers, updatedReplicas=1),
    }
    scheduler = SimpleNamespace(addons=[SimpleNamespace(**addon)], nodes=["control0", "worker0", "worker1"])
    answers = {DEPLOYMENTS: lambda: parse_deployments(json.dumps(live))}
    found, said = verdict_of(test_addons.test_are_available, answers, cluster=SimpleNamespace(scheduler=scheduler))
    assert found.value == ("failed" if wrong else "passed") and (wrong is None or wrong in said)


def measured(stamp="%Y-%m-%dT%H:%M:%SZ", **changed):
    """Return the metrics of a node, as metrics-server lists them, measured 5 s ago."""
    stamp = time.strftime(stamp, time.gmtime(time.time() - 5))
    return {"metadata": {"name": "worker0"}, "timestamp": stamp, "usage": {"cpu": "182m", "memory": "1Gi"}, **changed}


@pytest.mark.parametrize(
    ("odd", "verdict"),
    [
        ({}, "passed"),
        ({"stamp": "%Y-%m-%dT%H:%M:%S.123456Z"}, "passed"),
        ({"timestamp": None}, "failed"),
        ({"usage": {"cpu": "0", "memory": "0"}}, "failed"),
        ({"usage": {"cpu": "1"}}, "failed"),
        ({"usage": None}, "failed"),
    ],
    ids=["good", "fraction", "no-time", "nothing-used", "no-memory", "no-usage"],
)
def test_metrics_have_verdict(odd, verdict):
    listed = {"items": [measured(metadata={"name": "worker1"}), measured(**odd)]}
    text = json.dumps(kubernetes_api.measurements(SimpleNamespace(ask=lambda path: (200, json.dumps(listed))), ()))
    cluster = SimpleNamespace(scheduler=SimpleNamespace(nodes=[SimpleNamespace(name="worker0"), SimpleNamespace(name="worker1")]))
    found, _ = verdict_of(test_addons.test_metrics_available, {METRICS: lambda: parse_metrics(text)}, cluster=cluster, limit=120)
    assert found.value == verdict and "worker1" in parse_metrics(text).ages


@pytest.mark.parametrize(
    ("status", "text", "refused"),
    [
        (500, '{"kind": "Status", "message": "failed calling webhook"}', "status 500: failed calling webhook"),
        (503, "service unavailable\n", "status 503: service unavailable"),
        (404, "404 page not found\n", "status 404: 404 page not found"),
    ],
    ids=["object", "text", "no-path"],
)
def test_refusal_of_webhook_is_read(status, text, refused):
    api = SimpleNamespace(ask=lambda path, body: (status, text))
    assert kubernetes_api.hooks(api, ["kueue", "jobset"])["jobset"] == {"refused": refused}


_DENIAL = (
    '{"kind": "Status", "message": "admission webhook \\"validator.trainingruntime.trainer.kubeflow.org\\" denied the request: '
    'spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Invalid value"}'
)


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (403, _DENIAL, "answers"),
        (201, '{"kind": "TrainingRuntime", "metadata": {"name": "rackwright-trial"}}', "accepts a runtime without its container"),
        (500, '{"kind": "Status", "message": "failed calling webhook"}', "status 500: failed calling webhook"),
        (404, "404 page not found\n", "status 404: 404 page not found"),
    ],
    ids=["denies", "no-webhook", "no-answer", "no-kind"],
)
def test_trainer_must_deny_runtime_without_container(status, text, found):
    api = SimpleNamespace(ask=lambda path, body: (status, text))
    assert parse_hooks(json.dumps(kubernetes_api.hooks(api, ["trainer"]))) == {"trainer": found}


_DENIED_JOB = (
    '{"kind": "Status", "message": "admission webhook \\"validator.pytorchjob.training-operator.kubeflow.org\\" denied the request: '
    'spec.pytorchReplicaSpecs[Master].template.spec.containers: Required value"}'
)


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (403, _DENIED_JOB, "answers"),
        (201, '{"kind": "PyTorchJob", "metadata": {}}', "accepts a job without the container pytorch"),
        (404, "404 page not found\n", "status 404: 404 page not found"),
    ],
    ids=["denies", "no-webhook", "no-kind"],
)
def test_training_operator_must_deny_job_without_its_container(status, text, found):
    api = SimpleNamespace(ask=lambda path, body: (status, text))
    assert parse_hooks(json.dumps(kubernetes_api.hooks(api, ["training-operator"]))) == {"training-operator": found}


_DENIED_POOL = (
    '{"kind": "Status", "message": "admission webhook \\"ipaddresspoolvalidationwebhook.metallb.io\\" denied the request: '
    'invalid IP range"}'
)


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (403, _DENIED_POOL, "answers"),
        (201, '{"kind": "IPAddressPool", "metadata": {"name": "rackwright-trial"}}', "accepts a range that ends before it begins"),
        (403, _DENIAL, "status 403: admission webhook"),
        (500, '{"kind": "Status", "message": "failed calling webhook"}', "status 500: failed calling webhook"),
    ],
    ids=["denies", "no-webhook", "other-webhook", "no-answer"],
)
def test_metallb_must_deny_reversed_range(status, text, found):
    api = SimpleNamespace(ask=lambda path, body: (status, text))
    assert parse_hooks(json.dumps(kubernetes_api.hooks(api, ["metallb"])))["metallb"].startswith(found)


_SET = {"kind": "LeaderWorkerSet", "metadata": {"name": "rackwright-trial"}}
_NO_ANSWER = '{"kind": "Status", "message": "failed calling webhook \\"mleaderworkerset.kb.io\\""}'


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (201, json.dumps({**_SET, "spec": {"networkConfig": {"subdomainPolicy": "Shared"}}}), "answers"),
        (201, json.dumps({**_SET, "spec": {"startupPolicy": "LeaderCreated"}}), "sets no subdomain policy"),
        (500, _NO_ANSWER, 'status 500: failed calling webhook "mleaderworkerset.kb.io"'),
        (404, "404 page not found\n", "status 404: 404 page not found"),
    ],
    ids=["sets-default", "no-webhook", "no-answer", "no-kind"],
)
def test_leaderworkerset_must_set_default_that_definition_lacks(status, text, found):
    api = SimpleNamespace(ask=lambda path, body: (status, text))
    assert parse_hooks(json.dumps(kubernetes_api.hooks(api, ["leaderworkerset"]))) == {"leaderworkerset": found}
