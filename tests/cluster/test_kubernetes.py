"""Kubernetes has the nodes of the plan, and they are of use."""

from __future__ import annotations

import json

from cluster.probes.access import KUBERNETES_FROM_MACHINE, PUBLISHED
from cluster.probes.kubelet import ANSWERS, FILES, POD_ROUTES, service_address
from cluster.probes.kubernetes import NODES

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
GPU = "nvidia.com/gpu"
OWN_TAINTS = "node.kubernetes.io/"
"""Taints that Kubernetes sets itself, of what has checks of its own (kubernetes.io/docs/reference/labels-annotations-taints)."""
NETWORK = "10-rackwright.conflist"


def test_node_is_ready(kubernetes_node, expect):
    """A node that is not gets no pods, and loses those it has after five minutes."""
    status, why = kubernetes_node.conditions.get("Ready", ("not told", ""))
    expect("ready" if status == "True" else f"not ready: {why}", "ready")


def test_node_is_under_no_pressure(kubernetes_node, expect):
    """Short of memory, disk or process numbers it throws pods out; the kubelet says which."""
    wrong = {kind: kubernetes_node.conditions.get(kind, ("not told", "")) for kind in PRESSURES}
    expect({kind: f"{status} ({why})" for kind, (status, why) in wrong.items() if status == "True"}, {})


def test_node_takes_pods(kubernetes_node, expect):
    """A node that was cordoned and forgotten is one that nobody misses."""
    expect("cordoned" if kubernetes_node.cordoned else "schedulable", "schedulable")


def test_taints_match_plan(kubernetes_node, planned, expect):
    """A taint too many keeps pods away; one too few lets users' pods onto the control plane."""
    found = sorted(taint for taint in kubernetes_node.taints if not taint.startswith(OWN_TAINTS))
    expect(found, sorted(planned.taints))


def test_labels_match_plan(kubernetes_node, planned, expect):
    """Pods choose their nodes by them."""
    labels = vars(planned.labels)
    expect({key: kubernetes_node.labels.get(key, "none") for key in labels}, labels)


def test_node_has_its_address(kubernetes_node, node, expect):
    """Logs, commands in pods and other nodes' routes go there."""
    expect(list(kubernetes_node.addresses), [node.address])


def test_version_matches_plan(kubernetes_node, cluster, expect):
    """Kubelets may be three minor releases behind the API and none ahead; the plan has one for all."""
    expect(kubernetes_node.kubelet, f"v{cluster.scheduler.version}")


def test_there_are_no_other_nodes(ask, cluster, expect):
    """A node that left the plan and not Kubernetes gets pods that never start."""
    expect(sorted(ask(NODES)), sorted(one.name for one in cluster.scheduler.nodes))


def test_gpus_match_plan(kubernetes_node, planned, expect):
    """A GPU that Kubernetes does not know is never used."""
    expect(int(kubernetes_node.capacity.get(GPU, 0)), planned.gpus)


def test_gpus_can_be_given(kubernetes_node, expect):
    """A GPU that its plugin calls unhealthy is counted and given to nobody."""
    capacity = int(kubernetes_node.capacity.get(GPU, 0))
    given = int(kubernetes_node.allocatable.get(GPU, 0))
    expect(f"{given} of {capacity}", f"{capacity} of {capacity}")


def test_gpu_plugin_runs(kubernetes_pods, expect):
    """Without it no new pod gets a GPU, whatever the node counts."""
    expect(_described(kubernetes_pods("app.kubernetes.io/name", "gpu-device-plugin")), ["ready"])


def test_proxy_runs(kubernetes_pods, expect):
    """Without it services keep the addresses of pods that are gone."""
    expect(_described(kubernetes_pods("k8s-app", "kube-proxy")), ["ready"])


def test_pod_routes_stand(ask, expect):
    """Pods of two nodes reach each other by them."""
    expect(ask(POD_ROUTES) or "they stand", "they stand")


def test_network_is_the_planned_one(ask, planned, expect):
    """The runtime takes the first file in order: a stranger's before ours gives pods addresses that nobody routes."""
    networks = ask(FILES).networks
    expect(next(iter(sorted(networks)), "none"), NETWORK)
    expect(_network(networks[NETWORK]), {"plugins": ["bridge", "portmap"], "bridge": "cni0", "gateway": True, "ranges": [planned.pods]})


def test_api_answers_here(ask, expect):
    """By its own address, as the kubelet reaches it."""
    expect(ask(ANSWERS)["endpoint"], "status 200")


def test_services_answer_here(ask, cluster, expect):
    """The same API by its service's address, as pods reach it: through kube-proxy's rules on this node."""
    address = service_address(cluster.scheduler.services)
    expect({address: ask(ANSWERS)["service"]}, {address: "status 200"})


def test_names_resolve_here(ask, cluster, expect):
    """What pods get when they ask the cluster's DNS: its own names, and no answer for what does not exist."""
    found = ask(ANSWERS)
    planned = {"kubernetes.default": service_address(cluster.scheduler.services), "nothing.default": "status 3"}
    expect({"kubernetes.default": found["name inside"], "nothing.default": found["name of nothing"]}, planned)


def test_is_closed_to_this_machine(from_outside, expect):
    """Tried from where no member of the cluster is: API, kubelet and node ports are reached through the entry alone."""
    expect(from_outside(KUBERNETES_FROM_MACHINE, beside=PUBLISHED) or "nothing is reached", "nothing is reached")


def _described(pods):
    return [pod.described for pod in pods]


def _network(text):
    """What decides whether pods reach each other: the plugins in their order, the bridge, the ranges that addresses come out of."""
    plugins = json.loads(text)["plugins"]
    found = (plugin.get("ipam", {}).get("ranges", []) for plugin in plugins)
    return {
        "plugins": [plugin["type"] for plugin in plugins],
        "bridge": plugins[0].get("bridge"),
        "gateway": plugins[0].get("isGateway"),
        "ranges": [one["subnet"] for ranges in found for alternatives in ranges for one in alternatives],
    }
