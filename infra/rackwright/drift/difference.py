"""A difference between declared and live state: layer, category and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from rackwright.model.hostlists import compressed
from rackwright.printable import printable


class Layer(StrEnum):
    """Layer of a scan."""

    RESOURCES = "resources"
    """Pulumi's refresh: containers, instances, networks, keys."""
    CONFIGURATION = "configuration"
    """The phases in check mode: the changes that they would make."""
    BEHAVIOUR = "behaviour"
    """The passive checks: the behaviour of the cluster."""


class Category(StrEnum):
    """Category of a difference, in ascending rank."""

    EXPECTED = "expected"
    """Caused by the plan, or allowed by the stack file until a date."""
    BENIGN = "benign"
    """No visible effect until the next change."""
    BREAKING = "breaking"
    """Jobs or services fail, or will fail."""
    SECURITY = "security"
    """A user or a process has, or could gain, access that it should not have."""


CLUSTER: Final = ""
"""Node of a difference that concerns all nodes."""


def where(node: str) -> str:
    """Return the name of the node, or "the cluster".

    >>> where(CLUSTER)
    'the cluster'
    """
    return node or "the cluster"


def where_all(nodes: Iterable[str]) -> str:
    """Return several nodes in Slurm's notation.

    >>> where_all(["worker0", "worker1", "worker2", "worker9"])
    'worker[0-2,9]'
    """
    return compressed(map(where, nodes))


@dataclass(frozen=True, slots=True)
class DriftItem:
    """A declared value and the live value on a node."""

    layer: Layer
    node: str
    subject: str
    """For the resources layer `<type>.<property>`, for the configuration `<phase>.<task>`, for the behaviour the key of a check."""
    declared: str
    live: str
    category: Category
    remedy: str
    managed_paths: tuple[str, ...] = field(default=(), compare=False)
    """Paths and units that a phase would change; not part of the document, because `live` shows them."""

    def __post_init__(self) -> None:
        """Make the texts printable: users choose the names of units, files and accounts."""
        for name in ("subject", "declared", "live"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    @property
    def id(self) -> str:
        """Return an id that is stable between scans, independent of the live value.

        >>> DriftItem(Layer.BEHAVIOUR, "worker0", "munge.is_active", "active", "dead", Category.BREAKING, "").id
        'behaviour:munge.is_active[worker0]'
        """
        return f"{self.layer.value}:{self.subject}[{self.node}]"

    def as_dict(self) -> dict[str, str]:
        """Return the difference in the format of the contract `rackwright.drift/2`."""
        return {
            "layer": self.layer.value,
            "node": self.node,
            "subject": self.subject,
            "declared": self.declared,
            "live": self.live,
            "category": self.category.value,
            "remedy": self.remedy,
        }


class ScanMethod(StrEnum):
    """Method of a scan of the configuration layer."""

    CHECK_MODE = "check-mode"
    """Playbooks ran in check mode."""
    CACHED = "cached"
    """Every module returned what it returned in the last clean run."""


@dataclass(frozen=True, slots=True)
class LayerScan:
    """Result of the scan of one layer: differences and unknown results. A layer that cannot be scanned has the reason in `unknown`."""

    layer: Layer
    seconds: float
    differences: tuple[DriftItem, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    """(node, reason), each pair once."""
    method: ScanMethod | None = None
    """Method of the scan, if there is more than one."""
    message: str = ""
    """Reason for the method, and the nodes that it covers."""
    incomplete: tuple[tuple[str, str], ...] = ()
    """(node, reason) of each node that was not scanned completely, because a daemon is suspended that another layer reports."""

    def as_dict(self) -> dict[str, Any]:
        """Return the scan in the format of the contract `rackwright.drift/2`."""
        return {
            "layer": self.layer.value,
            "seconds": round(self.seconds, 3),
            "unknown": [{"node": node, "reason": why} for node, why in self.unknown],
            **({"method": self.method.value, "message": self.message} if self.method else {}),
        }


def difference(data: Mapping[str, str]) -> DriftItem:
    """Return the difference from its document form; raise KeyError or ValueError if the data is invalid."""
    named = {**data, "layer": Layer(data["layer"]), "category": Category(data["category"])}
    return DriftItem(**named)  # type: ignore[arg-type]


def max_category(found: Iterable[DriftItem]) -> Category | None:
    """Return the highest category; None without differences."""
    order = list(Category)
    return max((one.category for one in found), key=order.index, default=None)
