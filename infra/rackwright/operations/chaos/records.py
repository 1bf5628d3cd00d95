"""Records of injected failures in the stack's state directory: written after each step of a run, so that a killed command leaves them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from rackwright.files import write_atomic
from rackwright.inventory import paths
from rackwright.operations.chaos import lease as leases
from rackwright.printable import printable
from rackwright.report import chaos as report
from rackwright.report.schemas import schema_errors

_REASON: Final = 160
"""Characters of a reason that are shown: it can contain a whole part of the file. Chosen: about two lines of a terminal."""


def save(stack: str, document: dict[str, Any]) -> None:
    """Write the record of a run."""
    folder = paths.chaos(stack)
    folder.mkdir(mode=0o700, exist_ok=True)
    write_atomic(folder / f"{document['run']}.json", json.dumps(document, indent=2) + "\n")


def load_all(stack: str, say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the recorded runs of a stack, the oldest first. `say` receives each file that is left out because it is no record."""
    for file in sorted(paths.chaos(stack).glob("chaos-*.json")):
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            errors = [error.strerror or str(error)]
        except ValueError as error:
            errors = [f"not JSON: {error}"]
        else:
            errors = schema_errors("chaos", found)
            if not errors:
                yield found
        if errors:
            reason = printable(errors[0][:_REASON])
            say(f"{file}: left out, no record of {report.SCHEMA}: {reason}\n  move the file away if it is not needed")


def close_killed_runs(stack: str) -> None:
    """Complete the records of commands that were killed, from the leases that were ended. Call it with the lock of the command."""
    for document in load_all(stack, lambda _text: None):
        if document["ended"] is None:
            save(stack, _closed(document))


def _closed(document: dict[str, Any]) -> dict[str, Any]:
    for event in document["events"]:
        if event["injected"] is not None and event["undone"] is None:
            found = leases.ended(document["stack"], event["id"])
            event |= {"undone": found["at"], "undone_by": found["by"]} if found else {}
        if event["verdict"] == "unknown":
            event["reason"] = "the command was killed before the event was judged"
    verdict = {"result": "unknown", "reason": "the command was killed"}
    return {**document, "ended": time.time(), "score": report.score(document["events"]), "verdict": verdict}
