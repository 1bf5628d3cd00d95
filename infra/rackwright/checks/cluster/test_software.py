"""Software of real GPUs, compared with the plan. The lab's GPUs are simulated: there these checks have no node."""

from __future__ import annotations

from rackwright import catalog
from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.imex import CONNECTED, IMEX_CHANNEL, IMEX_DOMAIN, READY
from rackwright.checks.cluster.probes.nvidia_smi import GpuList
from rackwright.checks.cluster.probes.nvlink import NVLINKS, down_links
from rackwright.checks.cluster.probes.software import (
    CUDA,
    DCGM_HEALTH,
    DRIVER_LIBRARIES,
    FABRIC,
    FABRIC_MANAGER,
    IMEX,
    KERNEL_DRIVER,
    LIBRARIES,
    LOADED,
    LOADS,
    NCCL,
    NCCL_SETTINGS,
    RACK_FABRIC,
    RACK_UNITS,
    Fabric,
    faults_of,
)
from rackwright.checks.cluster.probes.units import FABRIC_MANAGER as FABRIC_MANAGER_UNIT
from rackwright.checks.cluster.probes.units import UNITS, Unit


def test_driver_modules_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """The loaded driver counts, not the installed one: a new driver waits for the next reboot."""
    loaded = ask(KERNEL_DRIVER)
    expect(f"{loaded.modules} {loaded.version}", f"{node.gpus.modules} {node.gpus.driver}")


def test_nouveau_not_loaded(ask: Ask, expect: Expect) -> None:
    """nouveau, or its successor nova, claims the GPUs before NVIDIA's driver can."""
    found = {name: ask(LOADED).at(name) for name in ("nouveau", "nova_core")}
    expect({name: value for name, value in found.items() if value is not None}, {})


def test_fabric_manager_matches_driver(node: Record, ask: Ask, expect: Expect) -> None:
    """Fabric Manager works only with the driver of the same version."""
    expect(ask(FABRIC_MANAGER), node.gpus.driver)


def test_nvlink_fabric_is_ready(node: Record, ask: Ask, expect: Expect) -> None:
    """Until NVSwitch is configured no program gets a GPU, and Fabric Manager has to run on: it retrains links and removes failed ones.

    GPUs before Hopper report no fabric: for them Fabric Manager alone counts.
    """
    found: dict[str, object] = {"Fabric Manager": ask(UNITS)[FABRIC_MANAGER_UNIT].state}
    planned: dict[str, object] = {"Fabric Manager": "active"}
    if node.gpus.architecture not in ("volta", "ampere"):
        reported, ready = _fabrics(ask(FABRIC), node.gpus.count)
        found, planned = found | reported, planned | ready
    expect(found, planned)


def test_rack_fabric_is_ready(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """In an NVL72 the NVSwitches are in trays of the rack: the node has no Fabric Manager, and the IMEX daemon lends memory between nodes.

    Under Kubernetes, IMEX runs in the pods of NVIDIA's DRA driver, which requires that the unit is disabled.
    """
    fabrics = ask(RACK_FABRIC)
    found, planned = _fabrics(fabrics, node.gpus.count)
    for gpu in fabrics:
        if isinstance(gpu.cluster, UnreadableValue) or (gpu.cluster is not None and not gpu.cluster.strip("0-")):
            found |= {f"{gpu.label} NVLink domain": gpu.cluster if isinstance(gpu.cluster, UnreadableValue) else "none"}
    if cluster.scheduler.kind == "slurm":
        found |= {"IMEX": _imex(ask(RACK_UNITS)[IMEX])}
        planned |= {"IMEX": "active"}
    expect(found, planned)


def _imex(unit: Unit) -> object:
    """Return the state of the IMEX daemon. One that is stopped and not enabled may be started by a prolog, with each job."""
    if unit.state == "inactive" and not unit.enabled:
        return UnreadableValue(f"the state of {IMEX} during jobs", "inactive and not enabled", "")
    return unit.state


def test_imex_domain_is_ready(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """A job shares memory with the GPUs of another node only if the daemons of both are ready and connected, and a channel exists.

    Nodes that are out are in the list of the daemons, and are not expected to respond.
    """
    domain, present = ask(IMEX_DOMAIN), {host.address for host in cluster.hosts}
    found: dict[str, object] = {"channel 0": ask(IMEX_CHANNEL)}
    planned: dict[str, object] = {"channel 0": "character special file"}
    for address in (one for one in node.imex_nodes if one in present):
        node_name, connection = f"node {address}", f"connection to {address}"
        states = {node_name: domain.nodes.at(address), connection: domain.connections.at(f"{node.address} {address}")}
        found |= {name: state for name, state in states.items() if state is not None}
        planned |= {node_name: READY, connection: CONNECTED}
    found |= {f"node {address}": "listed" for address in domain.nodes if address not in node.imex_nodes}
    expect(found, planned)


def _fabrics(fabrics: GpuList[Fabric], count: int) -> tuple[dict[str, object], dict[str, object]]:
    """Return what the GPUs report of their NVLink fabric, and what they report when it is ready."""
    found: dict[str, object] = {"GPUs that report a fabric": fabrics.responding(count)}
    planned: dict[str, object] = {"GPUs that report a fabric": count}
    for gpu in fabrics:
        found |= {f"{gpu.label} state": gpu.state, f"{gpu.label} status": gpu.status}
        found |= {f"{gpu.label} {name}": said for name, said in gpu.health.items()}
        planned |= {f"{gpu.label} state": "Completed", f"{gpu.label} status": "Success"}
    return found, planned


def test_nvlinks_are_up(node: Record, ask: Ask, expect: Expect) -> None:
    """A GPU with links that are down slows every collective, also where the fabric is complete."""
    links = ask(NVLINKS)
    found: dict[str, object] = {"GPUs that list links": len(links), **down_links(links)}
    expect(found, {"GPUs that list links": node.gpus.count})


def test_driver_libraries_load(ask: Ask, expect: Expect) -> None:
    """An empty or damaged libcuda ends every program at its start, while the driver and Slurm find all GPUs."""
    expect(ask(DRIVER_LIBRARIES), dict.fromkeys(LIBRARIES, LOADS))


def test_cuda_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Users compile with this release."""
    expect(ask(CUDA), ".".join(cluster.software.versions.cuda.split(".")[:2]))


def test_nccl_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """One NCCL, the planned one: nodes with different releases hang or crash in the first collective."""
    expect(sorted(set(ask(NCCL))), [cluster.software.versions.nccl])


def test_nccl_config_matches(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A leftover experimental setting slows every later job."""
    expect(dict(ask(NCCL_SETTINGS)), vars(cluster.software.nccl))


def test_dcgm_health_passes(node: Record, ask: Ask, expect: Expect) -> None:
    """DCGM has monitored memory, PCIe, NVLink, heat and power since the daemon started."""
    health = ask(DCGM_HEALTH)
    models = [catalog.gpus().get(one.model) for one in (node.gpus, *getattr(node.gpus, "others", ()))]
    faults = faults_of(health, has_nvlink=any(model is None or model.nvlink for model in models))
    known = bool(health.incidents) and not faults
    expect("; ".join((health.overall, *faults)), "Healthy", holds=health.overall == "Healthy" or known)
