"""The three things the bootstrap can be asked: get everything ready, get Python and engine ready, tell what is missing."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bootstrap import engine, environment, packages
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stages

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str]) -> int:
    """Exit code: 0 good, 2 this machine or user cannot do it and the text says what to do."""
    parser = argparse.ArgumentParser(prog="bootstrap", description="Sets up a machine for rackwright.")
    parser.add_argument("wanted", choices=["ready", "venv", "doctor"])
    parser.add_argument("--stack", default="lab", help="the stack `ready` and `doctor` are for; only a lab needs containers")
    parser.add_argument("--dev", action="store_true", help="install the tools for tests and checks too (requirements-dev.lock)")
    asked = parser.parse_args(arguments)
    machine = Machine.this(os.environ)
    try:
        machine.must_be_linux()
        if asked.wanted == "doctor":
            from bootstrap import doctor

            print(doctor.report(machine, CHECKOUT, asked.stack), end="")
        else:
            get_ready(machine, asked.stack if asked.wanted == "ready" else None, asked.dev)
    except Failure as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the next run goes on from here", file=sys.stderr)
        return 130
    return 0


def get_ready(machine: Machine, stack: str | None, dev: bool = False) -> None:
    """System packages (for a stack that needs them), virtual environment, engine; nothing is done twice."""
    stages = Stages()
    packages.install(machine, stages, packages.wanted(CHECKOUT, stack, machine))
    environment.create(machine, stages, CHECKOUT, dev)
    engine.provide(machine, stages, CHECKOUT)
    stages.end()
