"""`python -m rackwright.checks.hardware --inventory … --ssh-config … --section … --output …`: report the hardware of a live cluster."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from rackwright.checks.cluster.harness import transport
from rackwright.checks.hardware.collection import collect
from rackwright.checks.hardware.job import collect_in_jobs
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import load
from rackwright.report.hardware.document import Section, document


def main() -> int:
    """Query the nodes and write the report. Return 0 if it is written, whatever it contains; any other status means that there is none."""
    parser = argparse.ArgumentParser(prog="python -m rackwright.checks.hardware", description="Report the hardware of a live cluster.")
    parser.add_argument("--inventory", type=Path, required=True, help="Ansible inventory of the stack")
    parser.add_argument("--ssh-config", type=Path, required=True, help="ssh_config(5) file of the stack's nodes")
    parser.add_argument("--section", type=Section, choices=list(Section), default=Section.SUMMARY)
    parser.add_argument("--in-job", action="store_true", help="query each worker from inside a Slurm job")
    parser.add_argument("--output", type=Path, required=True, help="the report, as JSON")
    chosen = parser.parse_args()
    try:
        declared = load(chosen.inventory)
        started, clock = datetime.now(UTC), time.monotonic()
        seen = (collect_in_jobs if chosen.in_job else collect)(declared, chosen.ssh_config, chosen.section.parts)
    except RackwrightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        transport.stop()
    collected_via = "job" if chosen.in_job else "ssh"
    report = document(declared, chosen.section, seen, started=started, seconds=time.monotonic() - clock, collected_via=collected_via)
    chosen.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
