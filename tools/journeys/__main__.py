"""`python -m journeys [--stops] [NAME]`: count the stops of the values in journeys.yml. Exit code 1 if one has more than allowed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from journeys.source import Layers, Package
from journeys.table import read_routes
from journeys.walk import lines, walk

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m journeys", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="count only journeys whose name contains this text")
    parser.add_argument("--stops", action="store_true", help="list the stops, and the calls that cannot be followed")
    options = parser.parse_args(arguments)
    routes = [one for one in read_routes() if options.name in one.name]
    if not routes:
        parser.error(f"no journey has `{options.name}` in its name; known: {', '.join(one.name for one in read_routes())}")
    package, layers = Package(ROOT / "infra", "rackwright"), Layers(ROOT / "pyproject.toml")
    print(f"{'journey':52} stops  files  climbs  returns")
    too_long = 0
    for route in routes:
        journey = walk(package, *route.start, route.value, route.via)
        print(f"{route.name:52} {len(journey.stops):5} {journey.files:6} {journey.climbs(layers):7} {journey.returns:8}")
        if route.most is not None and len(journey.stops) > route.most:
            too_long += 1
            print(f"  more than {route.most} stops")
        if options.stops:
            print(*lines(journey), sep="\n")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
