"""Alerts that began after a failure, from the stack's own Alertmanager."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.drivers import remote_exec
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.report.chaos import EventRecord

POLL: Final = 5.0
"""Seconds between two requests. Chosen: a third of the scrape interval of lab-monitoring. Alerts carry their own times."""
_ANSWER: Final = 30.0
"""Seconds for an answer: Alertmanager has 5 (remote/programs/monitoring_api.py), and Python has to start. Longer on a slow machine."""


@dataclass
class AlertReader:
    """Reads the alerts of one stack."""

    running: RunningStack
    slowness: int
    problem: str = ""
    """Why the last request had no answer."""
    answers: int = 0

    @property
    def server(self) -> str | None:
        """Return the node that runs Alertmanager; None if the stack has none of its own."""
        return (self.running.inventory.monitoring or {}).get("server")

    async def read_into(self, record: EventRecord) -> None:
        """Add the alerts that began after the failure to its record. Without an answer, keep the reason."""
        if self.server is None:
            return
        asked = time.time()
        try:
            rows = await self._ask(self.server)
        except RackwrightError as error:
            self.problem = str(error)
            return
        self.problem, self.answers = "", self.answers + 1
        for by, at, detail in alerts_of(rows, self.running.inventory, record.node, asked):
            if record.injected is not None and at >= record.injected:
                record.detect(by, at, detail)

    async def _ask(self, server: str) -> list[dict[str, Any]]:
        declared = self.running.inventory
        ports = {one["job"]: one["port"] for one in (declared.monitoring or {})["targets"]}
        request = {"topic": "alerts", "host": server, "ports": ports, "settle_s": 0}
        found, lost = await remote_exec.run_on_nodes(
            self.running.name,
            "monitoring_api",
            {server: request},
            {server: declared.needs_sudo(server)},
            target=declared.target,
            limit=_ANSWER * self.slowness,
        )
        if server in lost:
            raise RackwrightError(lost[server], path=server)
        return list(found[server])

    def summary(self) -> dict[str, Any]:
        """Return for the record of a run whether alerts were read."""
        return {"server": self.server, "answers": self.answers, "problem": self.problem or None}


def alerts_of(rows: Sequence[Mapping[str, Any]], declared: Inventory, node: str, now: float) -> Iterator[tuple[str, float, str]]:
    """Yield source, time and text of each alert that can be about a node: it names that node, or none.

    now: time at which the ages of the rows were asked for, by the clock of this machine.
    """
    for row in rows:
        labels = {str(key): str(value) for key, value in row["labels"].items()}
        named = {name for name in declared.nodes if any(value == name or value.startswith(f"{name}:") for value in labels.values())}
        if labels.get("alertname") != "Watchdog" and (not named or node in named):
            about = f"{', '.join(sorted(named))}: " if named else ""
            yield f"alert {labels.get('alertname', 'without a name')}", now - float(row["age_s"]), f"{about}{row['summary']}"
