"""`python -m slurm_suite STACK`: run Slurm's own test suite on a stack that is up, as an ordinary user, and compare the results."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_slurm
from slurm_suite.expectations import read_table
from slurm_suite.login_node import LoginNode
from slurm_suite.report import render
from slurm_suite.suite_run import Options, patterns, run_suite

WORKERS = 2
"""Tests side by side. Chosen: the lab has two workers, and the suite starts no test without an idle node."""

_TERMINATED: Final = 128 + signal.SIGTERM
"""Exit status after SIGTERM, as a shell reports it. As an exception, SIGTERM does not leave jobs and files behind."""


def main(arguments: Sequence[str]) -> int:
    """Print the report. Exit code: 0 all results are as expected, 1 a difference or damage, 2 usage, 3 the node does not answer."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        require_slurm(options.stack, "Slurm's test suite")
        table = read_table()
        tests = patterns(options.tests, table.selected)
        node = LoginNode(paths.ssh_config(options.stack), options.node, options.user)
        run = run_suite(node, table, Options(options.shared, options.workers, tests, options.logs), _print_progress)
    except RackwrightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(render(run), end="")
    return 0 if run.is_as_expected else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m slurm_suite", description=__doc__)
    parser.add_argument("stack", help="name of a stack that is up, with Slurm")
    parser.add_argument("--tests", nargs="+", default=[], metavar="NUMBER", help="tests such as 1.10 or 17.* (default: all selected)")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N", help=f"tests side by side (default: {WORKERS})")
    parser.add_argument("--node", default="login0", help="login node (default: login0)")
    parser.add_argument("--user", default="alice", help="ordinary user with a Slurm account (default: alice)")
    parser.add_argument("--shared", default="/mnt/sharedfs", metavar="FOLDER", help="folder that all nodes mount (default: /mnt/sharedfs)")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="save the tests' logs here")
    return parser


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
