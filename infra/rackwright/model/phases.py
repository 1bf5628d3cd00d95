"""The user's own playbooks, run after phases of ours."""

from __future__ import annotations

from enum import StrEnum


class AfterPhase(StrEnum):
    """After which phase: the files of playbooks/site.yml, in their order."""

    BOOTSTRAP = "after_bootstrap"
    RDMA = "after_rdma"
    STORAGE = "after_storage"
    GPU = "after_gpu"
    FABRIC = "after_fabric"
    SCHEDULER = "after_scheduler"
    KUBERNETES = "after_kubernetes"
    SOFTWARE = "after_software"

    @property
    def phase(self) -> str:
        """The phase it follows.

        >>> AfterPhase.STORAGE.phase
        'storage'
        """
        return self.value.removeprefix("after_")
