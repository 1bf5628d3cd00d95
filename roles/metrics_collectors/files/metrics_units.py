#!/usr/bin/python3
"""Units of the plan on this node, and the expiry of its certificates."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rackwright_metrics import CollectError, Samples, output_of, run


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return properties by unit from blocks of `systemctl show`."""
    found: dict[str, dict[str, str]] = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id"):
            found[values["Id"]] = values
    return found


OF_USERS = re.compile(
    r"user@\d+\.service|session-\w+\.scope|run-([pru]?\d+|r[0-9a-f]{32})(-i\d+)?\.(service|scope)|sshd?@.*\d:\d+-.*\d:\d+(-.*)?\.service"
    r"|systemd-coredump@\d+.*\.service"
)
"""Units of one login, one command, one connection to sshd, one core dump, as in the check `node.no_unit_has_failed`."""


def failed_units(text: str) -> int:
    """Return the number of units of the node that `systemctl list-units --failed --plain --no-legend` lists, without those of users.

    >>> failed_units("a.service loaded failed failed A\\n\u25cf session-3.scope loaded failed failed Session 3\\n\\n")
    1
    """
    names = [line.replace("\u25cf", " ").replace("*", " ").split() for line in text.splitlines()]
    return sum(1 for words in names if words and not OF_USERS.fullmatch(words[0]))


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """A unit that systemd does not know is written as 0: the plan says that it must run."""
    planned: list[str] = configuration["units"]
    samples.describe("rackwright_unit_active", "Whether a unit of the plan is active")
    samples.describe("rackwright_unit_restarts", "Automatic restarts of a unit since it was started")
    samples.describe("rackwright_units_failed", "Number of failed units, of the plan or not")
    samples.describe("rackwright_certificate_not_after_seconds", "End of the validity of a certificate, in seconds since 1970")
    if planned:
        live = parse(output_of(["systemctl", "show", "--property=Id,ActiveState,NRestarts", "--", *planned]))
        if not live:
            raise CollectError("systemctl lists no unit")
        for name in planned:
            values = live.get(name, {})
            samples.set("rackwright_unit_active", values.get("ActiveState") in ("active", "reloading", "refreshing"), name=name)
            if values.get("NRestarts", "").isdigit():
                samples.set("rackwright_unit_restarts", int(values["NRestarts"]), name=name)
    failed = output_of(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager"])
    samples.set("rackwright_units_failed", failed_units(failed))
    for name, moment in configuration["certificates"].items():
        samples.set("rackwright_certificate_not_after_seconds", datetime.fromisoformat(moment).timestamp(), name=name)


if __name__ == "__main__":
    sys.exit(run("units", collect))
