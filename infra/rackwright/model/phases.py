"""User playbooks, run after phases of the converge."""

from __future__ import annotations

from enum import StrEnum


class AfterPhase(StrEnum):
    """Phase after which a playbook runs: the playbooks of playbooks/site.yml, in their order."""

    BOOTSTRAP = "after_bootstrap"
    RDMA = "after_rdma"
    STORAGE = "after_storage"
    GPU = "after_gpu"
    FABRIC = "after_fabric"
    SCHEDULER = "after_scheduler"
    KUBERNETES = "after_kubernetes"
    SOFTWARE = "after_software"
    MONITORING = "after_monitoring"

    @property
    def phase(self) -> str:
        """Name of the preceding phase.

        >>> AfterPhase.STORAGE.phase
        'storage'
        """
        return self.value.removeprefix("after_")
