"""One difference between declared and live, in a layer, with what it means and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from rackwright.model.ranges import compressed


class Layer(StrEnum):
    """Where it was looked."""

    RESOURCES = "resources"
    """Pulumi's refresh: containers, instances, networks, keys."""
    CONFIGURATION = "configuration"
    """The phases in check mode: what they would change."""
    BEHAVIOUR = "behaviour"
    """The passive checks: what the cluster does."""


class Weight(StrEnum):
    """What a difference means; a contract calls it `class`. In ascending rank."""

    EXPECTED = "expected"
    """Caused by the plan, or allowed by the stack file until a date."""
    BENIGN = "benign"
    """No visible effect until the next change."""
    BREAKING = "breaking"
    """Jobs or services fail, or will fail."""
    SECURITY = "security"
    """Someone has, or could gain, access they should not have."""


CLUSTER: Final = ""
"""The node of a difference that is about all of them."""


def where(node: str) -> str:
    """The node in words.

    >>> where(CLUSTER)
    'the cluster'
    """
    return node or "the cluster"


def where_all(nodes: Iterable[str]) -> str:
    """Several nodes, as Slurm lists them.

    >>> where_all(["worker0", "worker1", "worker2", "worker9"])
    'worker[0-2,9]'
    """
    return compressed(map(where, nodes))


@dataclass(frozen=True, slots=True)
class Difference:
    """What is declared, what is live instead, on which node."""

    layer: Layer
    node: str
    subject: str
    """Of the resources layer `<type>.<property>`, of the configuration `<phase>.<task>`, of the behaviour a check's key."""
    declared: str
    live: str
    weight: Weight
    remedy: str
    written: tuple[str, ...] = field(default=(), compare=False)
    """Paths and units that a phase would change; in no document, since `live` tells people."""

    @property
    def id(self) -> str:
        """The same every night as long as it is the same difference, whatever the live value is.

        >>> Difference(Layer.BEHAVIOUR, "worker0", "munge.is_active", "active", "dead", Weight.BREAKING, "").id
        'behaviour:munge.is_active[worker0]'
        """
        return f"{self.layer.value}:{self.subject}[{self.node}]"

    def as_dict(self) -> dict[str, str]:
        """In the shape of the contract `rackwright.drift/1`."""
        return {
            "layer": self.layer.value,
            "node": self.node,
            "subject": self.subject,
            "declared": self.declared,
            "live": self.live,
            "class": self.weight.value,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Look:
    """One layer, looked at: what differs, and what could not be told. A layer nobody could look at has its reason in `unknown`."""

    layer: Layer
    seconds: float
    differences: tuple[Difference, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    """(node, why), each once however much is not known for it."""
    how: str = ""
    """By what it was told, where there is more than one way."""

    def as_dict(self) -> dict[str, Any]:
        """In the shape of the contract `rackwright.drift/1`."""
        return {
            "layer": self.layer.value,
            "seconds": round(self.seconds, 3),
            "unknown": [{"node": node, "reason": why} for node, why in self.unknown],
            **({"how": self.how} if self.how else {}),
        }


def difference(data: Mapping[str, str]) -> Difference:
    """One as it was written; raises KeyError or ValueError where it is none."""
    named = {**data, "layer": Layer(data["layer"]), "weight": Weight(data["class"])}
    del named["class"]
    return Difference(**named)  # type: ignore[arg-type]


def heaviest(found: Iterable[Difference]) -> Weight | None:
    """The highest in rank, or nothing where nothing differs."""
    order = list(Weight)
    return max((one.weight for one in found), key=order.index, default=None)
