"""The autoscaler of `rackwright demo STACK serve`: KEDA where the stack has that add-on, else the command itself.

The command computes the formula of Kubernetes' HorizontalPodAutoscaler from `vllm:num_requests_waiting` of each pod, which it reads through
the API server. It scales only while it runs. For an autoscaler that stays, use `rackwright workloads STACK vllm-autoscaler`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from rackwright.catalog.addons import addons
from rackwright.workloads.scaled_objects import ADDON, METRIC

TOLERANCE: Final = 0.1
"""Relative difference to the target that changes nothing (kube-controller-manager, --horizontal-pod-autoscaler-tolerance)."""


@dataclass
class Autoscaler:
    """An autoscaler that runs in the cluster; the command observes what it does."""

    least: int
    most: int
    target: float
    """Waiting requests of a pod."""
    window: float
    """Seconds of which the largest number of replicas counts before one is removed: `stabilizationWindowSeconds`."""
    name: ClassVar[str] = f"KEDA {addons()[ADDON].version}: HPA on the sum of {METRIC}, read by its metrics-api scaler"

    def replicas(self, now: float, current: int, waiting: Sequence[int | None]) -> int | None:
        """Return the number of replicas that the command must set; None if the cluster sets it."""
        return None


@dataclass
class QueueScaler(Autoscaler):
    """Replicas by the average number of waiting requests of a pod, computed by the command."""

    name: ClassVar[str] = f"rackwright demo: HPA's formula on {METRIC}, only while the command runs"
    _recent: list[tuple[float, int]] = field(default_factory=list)

    def replicas(self, now: float, current: int, waiting: Sequence[int | None]) -> int:
        """Return the number of replicas. `waiting`: of each ready pod; None for one whose metrics are missing.

        As in HPA, a pod without metrics counts as one that waits for nothing when replicas are added, and as one at its target when
        replicas are removed. Without any metric the number stays.
        """
        wanted = min(self.most, max(self.least, self._recommend(current, waiting)))
        self._recent = [one for one in self._recent if now - one[0] <= self.window] + [(now, wanted)]
        highest = max(number for _, number in self._recent)
        return wanted if wanted >= current else min(current, highest)

    def _recommend(self, current: int, waiting: Sequence[int | None]) -> int:
        known = [one for one in waiting if one is not None]
        if not known:
            return current
        ratio = sum(known) / len(known) / self.target
        missing = max(current, len(waiting)) - len(known)
        if missing:
            filled = sum(known) + (0.0 if ratio > 1 else self.target * missing)
            again = filled / (len(known) + missing) / self.target
            if (again > 1) != (ratio > 1):  # The assumption must not turn the direction.
                return current
            ratio = again
            return current if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * (len(known) + missing))
        return current if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * len(known))
