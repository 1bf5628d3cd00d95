"""What the command line asks for."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import found, releases

DEFAULT_RELEASE = "1.36.2"
"""The default of scheduler.version."""
ROOMS = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 the bundle exists, 2 it cannot be built (the error has a hint), 130 stopped."""
    parser = argparse.ArgumentParser(prog="tools/kubernetes/build", description="Build the Kubernetes bundle unless it exists.")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where it goes instead of the user's cache")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, for a program")
    parser.add_argument("--mirror", metavar="ADDRESS", help="the archive of Debian's packages, where the default one does not answer")
    parser.add_argument(
        "--with", dest="extras", action="append", default=[], choices=["flannel", "training"], help="what only some clusters need"
    )
    parser.add_argument(
        "--release",
        metavar="VERSION",
        default=DEFAULT_RELEASE,
        help=f"release of Kubernetes, for example 1.35.3 (default: {DEFAULT_RELEASE})",
    )
    names = "jobset, trainer, training-operator, leaderworkerset, dra-example-driver, kueue, metrics-server, metallb or keda"
    parser.add_argument("--addon", metavar="NAME", help=f"a part of its own: {names}")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = Machine.this(os.environ)
    try:
        machine.must_be_linux()
        if asked.addon:
            provide_addon(machine, ROOMS, asked.addon, asked.into, asked.mirror, asked.json, asked.release)
        else:
            provide(machine, ROOMS, asked.into, asked.mirror, asked.json, asked.extras, asked.release)
    except Failure as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"\n{where}{error.strerror}; repair this and run the command again; it continues here", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the next run continues here", file=sys.stderr)
        return 130
    return 0


def provide(
    machine: Machine,
    rooms: Path,
    into: Path | None,
    mirror: str | None,
    as_json: bool,
    extras: Sequence[str] = (),
    release: str | None = None,
) -> None:
    """Build the bundle of a release with the requested parts unless it exists, and print its path."""
    sought = _bundle(machine, rooms, into, mirror, as_json, release)
    if extras:
        from bundle import extras as parts
        from bundle.progress import Lines, Progress

        parts.provide(machine, rooms, sought, list(extras), mirror, Lines if as_json else Progress)
    _tell(sought.folder, as_json)


def provide_addon(
    machine: Machine, rooms: Path, name: str, into: Path | None, mirror: str | None, as_json: bool, release: str | None = None
) -> None:
    """Build the part of an add-on unless it exists, and print its path. The bundle of the release that it needs is built first."""
    from bundle import addon_list, addons

    if name not in addon_list.ADDONS:
        raise Failure(f"there is no addon `{name}`; one of {', '.join(addon_list.ADDONS)}")
    addon = addon_list.ADDONS[name]
    sought = found.of_release(addon_list.wanted(machine, rooms, addon, into), rooms, release)
    if not found.is_there(sought):
        from bundle.building import build
        from bundle.progress import Lines, Progress

        kubectl = _bundle(machine, rooms, None, mirror, as_json, release).folder / "bin" / "kubectl"
        progress = (Lines if as_json else Progress)(addons.STAGES)
        build(sought, progress, addon_list.ListedBuilding(machine, rooms, (addon, sought), kubectl, progress).run)
    _tell(sought.folder, as_json)


def _bundle(machine: Machine, rooms: Path, into: Path | None, mirror: str | None, as_json: bool, release: str | None) -> found.Wanted:
    sought = found.wanted(machine, rooms, into, release)
    if not found.is_there(sought):
        from bundle.building import Building, build  # what only building needs takes longer to load than looking takes
        from bundle.progress import Lines, Progress

        progress = Lines() if as_json else Progress()
        modules = releases.modules(rooms, release)
        build(sought, progress, Building(machine, rooms, sought, mirror, progress, modules).run)
    return sought


def _tell(folder: Path, as_json: bool) -> None:
    print(json.dumps({"bundle": str(folder)}) if as_json else folder, flush=True)
