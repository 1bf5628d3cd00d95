"""Nodes and pods as API servers of other releases and other components report them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_control_plane, test_kubernetes, test_namespaces
from rackwright.checks.cluster.probes.kubernetes import DNS, OBJECTS, PODS, TOKENS, current, parse_health, parse_nodes, parse_pods
from rackwright.remote.programs import kubernetes_api

GOOD = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}


def api_node(conditions=None, **status):
    """Return a node of the API, as the probe reads it."""
    listed = [{"type": kind, "status": value, "reason": "R"} for kind, value in (GOOD if conditions is None else conditions).items()]
    about = {"kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.1.5"}
    spec = status.pop("spec", {})
    one = {"metadata": {"name": "worker0"}, "spec": spec, "status": {"conditions": listed, "nodeInfo": about, **status}}
    return parse_nodes(json.dumps([kubernetes_api.node(one)]))["worker0"]


@each_row(
    ("changed", "verdict"),
    [
        ({}, "passed"),
        ({"DiskPressure": "True"}, "failed"),
        ({"MemoryPressure": "Unknown", "DiskPressure": "Unknown", "PIDPressure": "Unknown", "Ready": "Unknown"}, "unknown"),
        ({"DiskPressure": "True", "PIDPressure": "Unknown"}, "failed"),
        ({"NetworkUnavailable": "False", "KernelDeadlock": "False", "ReadonlyFilesystem": "False"}, "passed"),
        ({"NetworkUnavailable": "True"}, "failed"),
        ({"KernelDeadlock": "True"}, "failed"),
        ({"ReadonlyFilesystem": "True"}, "failed"),
        ({"FrequentContainerdRestart": "True"}, "failed"),
        ({"FrequentUnregisterNetDevice": "True"}, "failed"),
        ({"ContainerRuntimeUnhealthy": "True"}, "failed"),
        ({"KubeletProblem": "True"}, "failed"),
        ({"CorruptDockerOverlay2": "True"}, "failed"),
        ({"FilesystemCorruptionProblem": "False", "VMEventScheduled": "False"}, "passed"),
        ({"AcceleratedHardwareReady": "True", "StorageReady": "True"}, "passed"),
        ({"AcceleratedHardwareReady": "False"}, "failed"),
        ({"example.test/Cordonable": "True"}, "passed"),
        ({"DiskBadBlock": "True"}, "failed"),
        ({"GPUMissing": "True"}, "failed"),
        ({"NVLinkStatusInactive": "True"}, "failed"),
        ({"XIDErrors": "True"}, "failed"),
        ({"IBLinkFlapping": "True"}, "failed"),
        ({"GPUClockThrottling": "True"}, "failed"),
        ({"UnhealthyNvidiaDevicePlugin": "True"}, "failed"),
        ({"GpuNvlinkWatch": "True"}, "failed"),
        ({"GpuNvlinkWatch": "False", "GpuInforomWatch": "False", "GPUMissing": "False", "XIDErrors": "False"}, "passed"),
        ({"SysLogsGPUFallenOff": "True"}, "failed"),
        ({"EtcdIsVoter": "True", "VMEventScheduled": "True"}, "passed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(f"{kind}-{status}" for kind, status in value.items()) or "good",
)
def test_condition_has_verdict(changed, verdict):
    node = api_node({**GOOD, **changed})
    assert verdict_of(test_kubernetes.test_no_node_pressure, {}, kubernetes_node=node)[0].value == verdict


@pytest.mark.parametrize("conditions", [{}, {"Ready": "True"}], ids=["none", "ready-alone"])
def test_missing_pressure_is_unknown(conditions):
    verdict, reason = verdict_of(test_kubernetes.test_no_node_pressure, {}, kubernetes_node=api_node(conditions))
    assert verdict.value == "unknown" and "DiskPressure is not reported" in reason


def internal(*addresses):
    """Return the addresses of a node."""
    return [{"type": "Hostname", "address": "worker0"}, *({"type": "InternalIP", "address": one} for one in addresses)]


@pytest.mark.parametrize(
    ("addresses", "verdict"),
    [
        (internal("10.1.0.16"), "passed"),
        (internal("10.1.0.16", "fd00:1::16"), "passed"),
        (internal("10.1.0.16", "10.2.0.16"), "passed"),
        (internal("fd00:1::16", "10.1.0.16"), "failed"),
        (internal("10.2.0.16"), "failed"),
        (internal(), "failed"),
    ],
    ids=["one", "dual-stack", "two-networks", "ipv6-first", "other", "none"],
)
def test_first_address_decides(addresses, verdict):
    node = SimpleNamespace(address="10.1.0.16")
    assert (
        verdict_of(test_kubernetes.test_node_has_its_address, {}, kubernetes_node=api_node(addresses=addresses), node=node)[0].value
        == verdict
    )


@pytest.mark.parametrize(
    ("taint", "verdict"),
    [
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-27T10:00:00Z"}, "passed"),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, "passed"),
        ({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}, "failed"),
        ({"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}, "failed"),
    ],
    ids=["not-ready", "unschedulable", "out-of-service", "cilium"],
)
def test_taint_has_verdict(taint, verdict):
    node = api_node(spec={"taints": [taint]})
    assert (
        verdict_of(test_kubernetes.test_taints_match_plan, {}, kubernetes_node=node, planned=SimpleNamespace(taints=()))[0].value == verdict
    )


@pytest.mark.parametrize(
    ("capacity", "allocatable", "matches", "given"),
    [
        ("8", "8", "passed", "passed"),
        ("8", "7", "passed", "failed"),
        ("8", None, "passed", "failed"),
        ("0", "0", "failed", "unknown"),
        (None, None, "failed", "unknown"),
        ("8e0", "8e0", "passed", "passed"),
        ("eight", "8", "unknown", "unknown"),
    ],
    ids=["all", "one-unhealthy", "none-allocatable", "plugin-restarts", "never-registered", "exponent", "no-number"],
)
def test_gpus_have_verdicts(capacity, allocatable, matches, given):
    def held(value):
        return {"cpu": "64", "nvidia.com/mig-1g.10gb": "0", **({} if value is None else {"nvidia.com/gpu": value})}

    node = api_node(capacity=held(capacity), allocatable=held(allocatable))
    assert verdict_of(test_kubernetes.test_gpus_match_plan, {}, kubernetes_node=node, planned=SimpleNamespace(gpus=8))[0].value == matches
    assert verdict_of(test_kubernetes.test_gpus_allocatable, {}, kubernetes_node=node)[0].value == given


def api_pod(phase="Running", *, ready=True, namespace="kube-system", spec=None, deleted=False, **status):
    """Return a pod of the API, as the probe reads it."""
    metadata = {"namespace": namespace, "name": "one", **({"deletionTimestamp": "2026-11-27T10:00:00Z"} if deleted else {})}
    conditions = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", ())]
    one = {
        "metadata": metadata,
        "spec": {"nodeName": "worker0", **(spec or {})},
        "status": {"phase": phase, "conditions": conditions, **status},
    }
    system = {**one, "metadata": {"namespace": "kube-system", "name": "other"}, "spec": {}}
    return parse_pods(json.dumps([kubernetes_api.pod(each) for each in (one, system)]))[0]


def waiting(reason, last=None):
    """Return the status of a container that waits."""
    return {"state": {"waiting": {"reason": reason}}, "lastState": {"terminated": last} if last else {}}


UNFIT = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}


@pytest.mark.parametrize(
    ("phase", "status", "why"),
    [
        ("Pending", {"containerStatuses": [waiting("ErrImageNeverPull")]}, "ErrImageNeverPull"),
        ("Pending", {"containerStatuses": [waiting("CreateContainerConfigError")]}, "CreateContainerConfigError"),
        ("Pending", {"containerStatuses": [waiting("ContainerCreating")]}, "ContainerCreating"),
        (
            "Pending",
            {"initContainerStatuses": [waiting("CrashLoopBackOff")], "containerStatuses": [waiting("PodInitializing")]},
            "CrashLoopBackOff",
        ),
        (
            "Running",
            {"containerStatuses": [waiting("CrashLoopBackOff", {"reason": "OOMKilled", "exitCode": 137})]},
            "CrashLoopBackOff (last: OOMKilled 137)",
        ),
        ("Running", {"containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 2}}}]}, "Error 2"),
        ("Failed", {"reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ("Failed", {"reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ("Failed", {"reason": "NodeShutdown", "message": "Pod was rejected"}, "NodeShutdown: Pod was rejected"),
        ("Pending", {"conditions": [UNFIT]}, "Unschedulable: 0/3 nodes are available"),
        ("Unknown", {"reason": "NodeLost"}, "NodeLost"),
        ("Running", {"containerStatuses": None, "initContainerStatuses": [{"state": {"running": {}}, "started": True}]}, ""),
    ],
    ids=[
        *("never-pull", "config-error", "creating", "init-container", "out-of-memory", "ended", "evicted", "admission", "shutdown"),
        *("unschedulable", "node-lost", "sidecar"),
    ],
)
def test_reason_of_pod_is_reported(phase, status, why):
    assert api_pod(phase, ready=False, **status).why == why


DEBUGGER = {"ephemeralContainers": [{"securityContext": {"privileged": True}}]}
ADMIN = {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}
PREFIXED = {"containers": [{"securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}]}
BIND = {"containers": [{"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}}]}
SIDECAR = {"initContainers": [{"restartPolicy": "Always", "securityContext": {"privileged": True}}]}


@pytest.mark.parametrize(
    ("spec", "phase", "verdict"),
    [
        (DEBUGGER, "Running", "failed"),
        (ADMIN, "Running", "failed"),
        (PREFIXED, "Running", "failed"),
        (SIDECAR, "Running", "failed"),
        (BIND, "Running", "passed"),
        ({"volumes": [{"hostPath": {"path": "/"}}]}, "Running", "failed"),
        ({"volumes": [{"emptyDir": {}}], "containers": [{"securityContext": None}]}, "Running", "passed"),
        ({"hostPID": True}, "Succeeded", "passed"),
        ({"hostPID": True}, "Failed", "passed"),
        ({"hostPID": True}, "Pending", "failed"),
    ],
    ids=["debugger", "capability", "prefixed", "sidecar", "low-port", "host-path", "none", "completed", "evicted", "pending"],
)
def test_rights_have_verdict(spec, phase, verdict):
    pods = (api_pod(phase, namespace="research", spec=spec),)
    cluster = SimpleNamespace(scheduler=SimpleNamespace(namespaces=[]))
    assert verdict_of(test_namespaces.test_pods_have_no_rights_on_nodes, {PODS: lambda: pods}, cluster=cluster)[0].value == verdict


@pytest.mark.parametrize(("workload", "verdict"), [("daemon_set", "passed"), ("deployment", "failed")])
def test_only_daemon_set_of_an_addon_may_have_rights_on_nodes(workload, verdict):
    pods = (api_pod("Running", namespace="metallb-system", spec={"hostNetwork": True}),)
    addon = SimpleNamespace(name="metallb", namespace="metallb-system", **{workload: "speaker"})
    cluster = SimpleNamespace(scheduler=SimpleNamespace(namespaces=[], addons=[addon]))
    assert verdict_of(test_namespaces.test_pods_have_no_rights_on_nodes, {PODS: lambda: pods}, cluster=cluster)[0].value == verdict


EVICTED = api_pod("Failed", ready=False, reason="Evicted")
LEAVING = api_pod(ready=False, deleted=True)
READY = api_pod()
CRASHING = api_pod(ready=False, containerStatuses=[waiting("CrashLoopBackOff")])


@pytest.mark.parametrize(
    ("pods", "verdict"),
    [
        ((READY,), "passed"),
        ((EVICTED, READY), "passed"),
        ((READY, LEAVING), "passed"),
        ((api_pod("Succeeded", ready=False), READY), "passed"),
        ((EVICTED,), "failed"),
        ((EVICTED, CRASHING), "failed"),
        ((READY, CRASHING), "failed"),
        ((), "failed"),
    ],
    ids=["one", "evicted-before", "replaced", "completed-before", "evicted-alone", "successor-crashes", "two-live", "none"],
)
def test_agent_has_verdict(pods, verdict):
    assert verdict_of(test_kubernetes.test_proxy_runs, {}, kubernetes_pods=lambda key, value: pods)[0].value == verdict
    assert current(pods) or not pods


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("[+]ping ok\n[+]etcd ok\nreadyz check passed\n", {}),
        ("[+]ping ok\n[+]etcd excluded: ok\nlivez check passed", {}),
        ('warn: some health checks cannot be excluded: no matches for "x"\n[+]ping ok\nhealthz check passed\n', {}),
        ("[+]ping ok\r\n[-]informer-sync failed: reason withheld\r\nreadyz check failed\r\n", {"informer-sync": "failed: reason withheld"}),
        ("[+]ping ok\n[-]etcd failed: reason withheld\n", {"etcd": "failed: reason withheld"}),
    ],
    ids=["good", "excluded", "warning", "crlf", "cut-after-failure"],
)
def test_health_is_read(text, failed):
    assert parse_health(json.dumps(text)) == failed


@pytest.mark.parametrize("text", ["[+]ping ok\n[+]et", "[+]ping ok\nreadyz check failed\n"], ids=["cut", "contradicts"])
def test_incomplete_health_is_refused(text):
    with pytest.raises(ValueError, match="is cut"):
        parse_health(json.dumps(text))


@pytest.mark.parametrize(
    ("spec", "status", "verdict"),
    [
        ({"replicas": 2}, {"availableReplicas": 2}, "passed"),
        ({"replicas": 2}, {"availableReplicas": 1}, "failed"),
        ({"replicas": 0}, {}, "failed"),
        ({"replicas": 2}, None, "failed"),
    ],
    ids=["good", "one-left", "scaled-to-none", "no-status"],
)
def test_dns_has_verdict(spec, status, verdict):
    found = {DNS: {"metadata": {}, "spec": spec, **({} if status is None else {"status": status})}}
    assert verdict_of(test_control_plane.test_coredns_available, {OBJECTS: lambda: found})[0].value == verdict


@pytest.mark.parametrize("end", ["soon", "2999-01-01T00:00:00", "2001-01-01T00:00:00+01:00"], ids=["no-time", "no-zone", "past"])
def test_token_with_odd_expiry_is_expired(end):
    assert verdict_of(test_control_plane.test_bootstrap_tokens_expire, {TOKENS: lambda: {"abcdef": end}})[0].value == "passed"
