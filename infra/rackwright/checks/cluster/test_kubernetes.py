"""Kubernetes has the planned nodes, and they are usable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.access import KUBERNETES_FROM_MACHINE, PUBLISHED
from rackwright.checks.cluster.probes.kubelet import ANSWERS, FILES, POD_ROUTES, service_address
from rackwright.checks.cluster.probes.kubernetes import NODES, Node, Pod, current
from rackwright.errors import UndeterminedError
from rackwright.remote.programs.quantities import whole_number

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
FAULTS: Final = re.compile(
    r"(Deadlock|Unavailable|Unhealthy|Problem|Pressure|Restart|NetDevice|Shutdown|Errors?|Failure|Fatal|BadBlock|Readonly.*|Corrupt.*"
    r"|Missing|Inactive|Flapping|Throttling|FallenOff)$|^Unhealthy|^Gpu\w+Watch$"
)
"""Conditions that report a fault when they are True: NetworkUnavailable of network plugins, those of node-problem-detector (its folder
config/) and of images that contain it (learn.microsoft.com/azure/aks/node-problem-detector), and those of NVIDIA's NVSentinel."""
HEALTHS: Final = re.compile(r"(?<!^)(Ready|Healthy)$")
"""Conditions that report a fault when they are False, for example AcceleratedHardwareReady of Amazon's node monitoring agent."""
GPU = "nvidia.com/gpu"
OWN_TAINTS = "node.kubernetes.io/"
"""Taints that Kubernetes sets itself; other checks cover their causes (kubernetes.io/docs/reference/labels-annotations-taints)."""
BY_HAND = "node.kubernetes.io/out-of-service"
"""The one taint with this prefix that an administrator sets, and must remove (Non-graceful node shutdown)."""
NETWORK = "10-rackwright.conflist"
MAX_BEHIND: Final = 3
"""Minor releases by which a kubelet may be behind the API server (kubernetes.io/releases/version-skew-policy)."""


def test_node_is_ready(kubernetes_node: Node, expect: Expect) -> None:
    """A node that is not ready gets no new pods, and loses its pods after five minutes."""
    status, why = kubernetes_node.conditions.get("Ready", ("not reported", ""))
    expect("ready" if status == "True" else f"not ready: {why}", "ready")


def test_no_node_pressure(kubernetes_node: Node, expect: Expect) -> None:
    """A node short of memory, disk or process IDs evicts pods; its kubelet, its network and its monitoring report the fault."""
    conditions = kubernetes_node.conditions
    expect({kind: f"{status} ({why})" for kind, (status, why) in conditions.items() if _is_fault(kind, status)}, {})
    unread = {kind: conditions.get(kind, ("not reported", "")) for kind in PRESSURES}
    unread = {kind: found for kind, found in unread.items() if found[0] != "False"}
    if unread:
        raise UndeterminedError("; ".join(f"{kind} is {status}{f' ({why})' if why else ''}" for kind, (status, why) in unread.items()))


def test_node_schedulable(kubernetes_node: Node, expect: Expect) -> None:
    """A node that stays cordoned after maintenance is unused, and no alarm reports it."""
    expect("cordoned" if kubernetes_node.cordoned else "schedulable", "schedulable")


def test_taints_match_plan(kubernetes_node: Node, planned: Record, expect: Expect) -> None:
    """An extra taint keeps pods away; a missing one lets users' pods onto the control plane."""
    found = sorted(taint for taint in kubernetes_node.taints if not taint.startswith(OWN_TAINTS) or taint.startswith(BY_HAND))
    expect(found, sorted(planned.taints))


def test_labels_match_plan(kubernetes_node: Node, planned: Record, expect: Expect) -> None:
    """Pods select their nodes by labels."""
    labels = vars(planned.labels)
    expect({key: kubernetes_node.labels.get(key, "none") for key in labels}, labels)


def test_node_has_its_address(kubernetes_node: Node, node: Record, expect: Expect) -> None:
    """Logs, commands in pods and the routes of other nodes use the first address."""
    expect(next(iter(kubernetes_node.addresses), "none"), node.address)


def test_version_matches_plan(kubernetes_node: Node, cluster: Record, expect: Expect) -> None:
    """Kubelets may be up to three minor releases behind the API server and never ahead; the plan has one version for all."""
    found, planned = kubernetes_node.kubelet, f"v{cluster.scheduler.version}"
    expect(f"{found}{'' if found == planned else f' ({_skew(found, planned)})'}", planned, holds=found == planned)


def test_no_unplanned_nodes(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A node that left the plan but not Kubernetes gets pods that never start."""
    expect(sorted(ask(NODES)), sorted(one.name for one in cluster.scheduler.nodes))


def test_gpus_match_plan(kubernetes_node: Node, planned: Record, expect: Expect) -> None:
    """A GPU that Kubernetes does not know is never used."""
    expect(_gpus(kubernetes_node.capacity), planned.gpus)


def test_gpus_allocatable(kubernetes_node: Node, expect: Expect) -> None:
    """A GPU that the device plugin reports as unhealthy is counted but never allocated."""
    capacity, given = _gpus(kubernetes_node.capacity), _gpus(kubernetes_node.allocatable)
    if not capacity:
        raise UndeterminedError("the device plugin reports no GPUs")
    expect(f"{given} of {capacity}", f"{capacity} of {capacity}")


def test_gpu_plugin_runs(kubernetes_pods: Callable[[str, str], tuple[Pod, ...]], expect: Expect) -> None:
    """Without the device plugin no new pod gets a GPU, whatever the node's capacity shows."""
    expect(_described(kubernetes_pods("app.kubernetes.io/name", "gpu-device-plugin")), ["ready"])


def test_proxy_runs(kubernetes_pods: Callable[[str, str], tuple[Pod, ...]], expect: Expect) -> None:
    """Without kube-proxy, services keep the addresses of deleted pods."""
    expect(_described(kubernetes_pods("k8s-app", "kube-proxy")), ["ready"])


def test_pod_routes_present(ask: Ask, expect: Expect) -> None:
    """Pods of different nodes reach each other over these routes."""
    expect(ask(POD_ROUTES) or "all routes present", "all routes present")


def test_network_matches_plan(ask: Ask, planned: Record, expect: Expect) -> None:
    """The runtime uses the first file in order: another file before rackwright's gives pods addresses that are not routed."""
    networks = ask(FILES).networks
    expect(next(iter(sorted(networks)), "none"), NETWORK)
    expect(_network(networks[NETWORK]), {"plugins": ["bridge", "portmap"], "bridge": "cni0", "gateway": True, "ranges": [planned.pods]})


def test_api_reachable(ask: Ask, expect: Expect) -> None:
    """The kubelet reaches the API at this address."""
    expect(ask(ANSWERS)["endpoint"], "status 200")


def test_services_reachable(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Pods reach the API at its service address, through the kube-proxy rules of this node."""
    address = service_address(cluster.scheduler.services)
    expect({address: ask(ANSWERS)["service"]}, {address: "status 200"})


def test_names_resolve(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Pods need cluster DNS: it must resolve the cluster's names, and report that other names do not exist."""
    found = ask(ANSWERS)
    planned = {"kubernetes.default": service_address(cluster.scheduler.services), "nothing.default": "status 3"}
    expect({"kubernetes.default": found["name inside"], "nothing.default": found["name of nothing"]}, planned)


def test_not_reachable_externally(external: Ask, expect: Expect) -> None:
    """Tested from outside the cluster: API, kubelet and node ports must be reachable through the jump host only."""
    expect(external(KUBERNETES_FROM_MACHINE, beside=PUBLISHED) or "no port is reachable", "no port is reachable")


def _skew(kubelet: str, planned: str) -> str:
    """Return what Kubernetes' version skew policy says of a kubelet (kubernetes.io/releases/version-skew-policy)."""
    found = [re.match(r"v(\d+)\.(\d+)\.\d+", version) for version in (kubelet, planned)]
    if found[0] is None or found[1] is None:
        raise UndeterminedError(f'the release of the kubelet is "{kubelet}"')
    behind = int(found[1][2]) - int(found[0][2])
    if found[0][1] != found[1][1] or behind < 0:
        return "newer than the API server: not supported"
    count = f"{behind} minor release{'s' if behind > 1 else ''} behind"
    return f"{count}: {'' if behind <= MAX_BEHIND else 'not '}supported" if behind else "another patch release"


def _described(pods: Iterable[Pod]) -> list[str]:
    return [pod.described for pod in current(pods)]


def _is_fault(kind: str, status: str) -> bool:
    return bool((status == "True" and FAULTS.search(kind)) or (status == "False" and HEALTHS.search(kind)))


def _gpus(resources: Mapping[str, str]) -> int:
    """Return the number of GPUs; a kubelet that restarted reports none until the device plugin has registered again."""
    text = resources.get(GPU, "0")
    try:
        return whole_number(text)
    except ValueError:
        raise UndeterminedError(f"{GPU} is {text}, which is not a number of GPUs") from None


def _network(text: str) -> dict[str, Any]:
    """Return the settings that connect pods: plugins in order, bridge, address ranges."""
    plugins = json.loads(text)["plugins"]
    found = (plugin.get("ipam", {}).get("ranges", []) for plugin in plugins)
    return {
        "plugins": [plugin["type"] for plugin in plugins],
        "bridge": plugins[0].get("bridge"),
        "gateway": plugins[0].get("isGateway"),
        "ranges": [one["subnet"] for ranges in found for alternatives in ranges for one in alternatives],
    }
