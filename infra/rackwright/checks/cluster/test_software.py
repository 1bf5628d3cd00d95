"""Software of real GPUs, compared with the plan. The lab's GPUs are simulated: there these checks have no node."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.software import CUDA, DCGM_HEALTH, FABRIC, FABRIC_MANAGER, KERNEL_DRIVER, LOADED, NCCL, NCCL_SETTINGS
from rackwright.checks.cluster.probes.units import FABRIC_MANAGER as FABRIC_MANAGER_UNIT
from rackwright.checks.cluster.probes.units import UNITS


def test_driver_modules_match_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """The loaded driver counts, not the installed one: a new driver waits for the next reboot."""
    loaded = ask(KERNEL_DRIVER)
    expect(f"{loaded.modules} {loaded.version}", f"{node.gpus.modules} {node.gpus.driver}")


def test_nouveau_not_loaded(ask: Ask, expect: Expect) -> None:
    """nouveau claims the GPUs before NVIDIA's driver can."""
    expect(sorted(ask(LOADED) & {"nouveau"}), [])


def test_fabric_manager_matches_driver(node: Record, ask: Ask, expect: Expect) -> None:
    """Fabric Manager works only with the driver of the same version."""
    expect(ask(FABRIC_MANAGER), node.gpus.driver)


def test_nvlink_fabric_is_ready(node: Record, ask: Ask, expect: Expect) -> None:
    """Until NVSwitch is configured no program gets a GPU, and Fabric Manager has to run on: it retrains links and removes failed ones.

    GPUs before Hopper report no fabric: for them Fabric Manager alone counts.
    """
    found, planned = {"Fabric Manager": ask(UNITS)[FABRIC_MANAGER_UNIT].state}, {"Fabric Manager": "active"}
    if node.gpus.architecture not in ("volta", "ampere"):
        fabrics = ask(FABRIC)
        for gpu in fabrics:
            found |= {f"{gpu.label} state": gpu.state, f"{gpu.label} status": gpu.status}
            found |= {f"{gpu.label} {name}": said for name, said in gpu.health.items()}
            planned |= {f"{gpu.label} state": "Completed", f"{gpu.label} status": "Success"}
        found |= {"GPUs that report a fabric": fabrics.responding(node.gpus.count)}
        planned |= {"GPUs that report a fabric": node.gpus.count}
    expect(found, planned)


def test_cuda_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """Users compile with this release."""
    expect(ask(CUDA), ".".join(cluster.software.versions.cuda.split(".")[:2]))


def test_nccl_matches_plan(cluster: Record, ask: Ask, expect: Expect) -> None:
    """One NCCL, the planned one: nodes with different releases hang or crash in the first collective."""
    expect(sorted(set(ask(NCCL))), [cluster.software.versions.nccl])


def test_nccl_config_matches(cluster: Record, ask: Ask, expect: Expect) -> None:
    """A leftover experimental setting slows every later job."""
    expect(dict(ask(NCCL_SETTINGS)), vars(cluster.software.nccl))


def test_dcgm_health_passes(ask: Ask, expect: Expect) -> None:
    """DCGM has monitored memory, PCIe, NVLink, heat and power since the daemon started."""
    expect(ask(DCGM_HEALTH), "Healthy")
