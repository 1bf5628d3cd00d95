"""The table of faults: read, and proven to have one for every check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.catalog.checks import CheckSpec, Level, checks
from rackwright.report.declared import Declared

_FILE: Final = Path(__file__).with_name("faults.yml")
LOOK_AGAIN: Final = "! [ -x /usr/local/sbin/rackwright-health ] || /usr/local/sbin/rackwright-health || exit 1"
"""After a fault: the node sees that it is well again, and lifts its drain before Slurm asks it the next time."""
HELPERS: Final = Path(__file__).with_name("helpers.sh").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Fault:
    """One fault: where, what, how back, and what it must and may turn red."""

    spec: CheckSpec
    where: str
    apply: str
    undo: str
    red: str = "same"
    first: bool = False
    everywhere: bool = False
    also: Mapping[str, str] = field(default_factory=dict)

    @property
    def level(self) -> Level:
        """The lowest level at which its check runs."""
        return self.spec.level

    @property
    def may_turn_red(self) -> frozenset[str]:
        """Other checks that it may turn red: a node that sees the fault itself drains itself."""
        return frozenset(self.also) | ({"slurm.node_is_usable"} if self.spec.health else frozenset())

    def nodes(self, declared: Declared) -> tuple[str, ...]:
        """Where it is done."""
        members = declared.members(self.where)
        return members if self.everywhere else members[:1] if self.first else members[-1:]

    def must_turn_red(self, declared: Declared) -> set[str]:
        """Ids of results that have to fail."""
        members = declared.members(self.spec.group)
        names = {"all": members, "last": members[-1:], "same": self.nodes(declared)}[self.red]
        return {self.spec.id_on(name) for name in (self.nodes(declared) if self.everywhere else names)}


def faults() -> dict[str, Fault]:
    """All faults by the key of their check."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    catalogue = checks()
    return {key: Fault(spec=catalogue[key], **{"where": catalogue[key].group, **row}) for key, row in rows.items()}


def variables(declared: Declared, node: str) -> dict[str, str]:
    """What a fault's commands see of the plan."""
    cluster, record = declared.cluster, declared.nodes[node]
    workers = declared.members("role_worker")
    gpus = declared.nodes[workers[-1]].get("gpus") or {}
    account = (cluster["scheduler"].get("accounts") or [{"name": "", "fairshare": 1}])[0]
    qos = (cluster["scheduler"].get("qos") or [{"name": "", "priority": 0}])[0]
    storage = (cluster.get("storage") or [{"mount": "", "mode": "", "folder": ""}])[0]
    return {
        "NODE": node,
        "ADDRESS": record["address"],
        "ENTRY": declared.nodes[declared.members("@entry")[0]]["address"],
        "GATEWAY": cluster["network"].get("gateway") or "",
        "USER_NAME": cluster["users"][0]["name"],
        "GROUP_NAME": next((group["name"] for group in cluster.get("user_groups") or ()), ""),
        "ZONE": cluster["time_zone"],
        "MOUNT": storage["mount"],
        "MODE": storage["mode"],
        "FOLDER": storage["folder"] or "",
        "ACCOUNT": account["name"],
        "SHARE": str(account["fairshare"]),
        "QOS": qos["name"],
        "PRIORITY": str(qos["priority"]),
        "PARTITION": (cluster["scheduler"].get("partitions") or [{"name": ""}])[0]["name"],
        "PROBE": cluster["scheduler"].get("probe") or "",
        "LAST_WORKER": workers[-1],
        "GPU_TYPE": str(gpus.get("model", "")),
        "GPUS": str(gpus.get("count", 0)),
    }
