"""`make bench`: what rackwright costs above the floor, both measured in the same run.

usage: python benchmarks [--rounds N] [--only lab|kubernetes] [--write]

`--write` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from looks import converged, drifted, lookups, say, timed, verified  # noqa: E402
from support.project import Project, clone  # noqa: E402
from support.simulated_fabric import discover, plan_for  # noqa: E402

from rackwright.plan.fabric import netlist, wiring  # noqa: E402
from rackwright.report.fabric.comparison import compare  # noqa: E402
from rackwright.report.fabric.ibnetdiscover import read_links  # noqa: E402

_PAGE = HERE.parent / "docs" / "performance.md"
_MARK = "<!-- measured -->"
_FLOOR_NET = 199
"""Second number of the floor's 10.N.0.0/24; stacks of tests use 100 to 179."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, its floor, and the goal in words."""

    what: str
    seconds: list[float]
    floor: list[float]
    floor_name: str
    goal: str
    results: int = 0

    def cells(self) -> list[str]:
        """Medians; ratios are taken within each round, so that a busy machine weighs on both sides."""
        measured = statistics.median(self.seconds)
        if self.results:
            return [self.what, f"{measured:.2f} s", f"{1000 * measured / self.results:.1f} ms per result ({self.results})", self.goal]
        if not self.floor:
            return [self.what, f"{measured:.2f} s", "", self.goal]
        ratio = statistics.median(mine / floor for mine, floor in zip(self.seconds, self.floor, strict=True))
        return [self.what, f"{measured:.2f} s", f"{ratio:.2f} × {self.floor_name} ({statistics.median(self.floor):.2f} s)", self.goal]


def main() -> int:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["lab", "kubernetes"], help="one half of the table, which is not written")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    if asked.only and asked.write:
        parser.error("--only and --write exclude each other: docs/performance.md holds both halves of one run")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rackwright-bench-") as folder:
        if asked.only != "kubernetes":
            rows += measured(clone(Path(folder) / "checkout", number=181), lambda project: measure(project, asked.rounds, Path(folder)))
        if asked.only != "lab":
            cluster = clone(Path(folder) / "kubernetes", like="lab-k8s", number=182)
            rows += measured(cluster, lambda project: measure_kubernetes(project, asked.rounds))
    table = as_markdown(rows)
    if asked.write:
        head = _PAGE.read_text().split(_MARK)[0] if _PAGE.exists() else "# Performance\n\n"
        _PAGE.write_text(f"{head}{_MARK}\n\n{machine()}\n\n{table}\n")
    return 0


def measured(project: Project, measure_rows: Callable[[Project], list[Row]]) -> list[Row]:
    """Return one half's rows after its stack is gone. They are printed at once: a failure of the other half loses nothing."""
    try:
        rows = measure_rows(project)
    finally:
        project.remove()
    print(as_markdown(rows), flush=True)
    return rows


def measure(project: Project, rounds: int, folder: Path) -> list[Row]:
    """All rows, on one stack."""
    say("the image, if it is not cached yet")
    project.run_checked("up", timeout=1800)
    image = project.resources()["image"]["outputs"]["image"]
    floor, up = [], []
    for number in range(rounds):
        say(f"from nothing to verified, round {number + 1} of {rounds}")
        project.run_checked("destroy")
        floor.append(timed(lambda: shell(["bash", str(HERE / "lab-floor.sh"), image, f"10.{_FLOOR_NET}.0"])))
        up.append(timed(lambda: project.run_checked("up", timeout=300)))
    say("what changes nothing")
    engine = [timed(lambda: empty(folder, project)) for _ in range(rounds)]
    unchanged = [timed(lambda: project.run_checked("up")) for _ in range(rounds)]
    project.run_checked("refresh")  # The first after an `up` is the phases' own look.
    refresh = [timed(lambda: project.run_checked("refresh")) for _ in range(rounds)]
    verify = [timed(lambda: verified(project)) for _ in range(rounds)]
    results = sum(check["kind"] == "passive" for check in project.report()["checks"])
    looked = [timed(lambda: lookups(project)) for _ in range(rounds)]
    idle = [timed(lambda: idled(project)) for _ in range(rounds)]
    fabric = [timed(lambda: fabric_compared(image)) for _ in range(rounds)]
    converge = [timed(lambda: converged(project)) for _ in range(rounds)]
    drift = [timed(lambda: drifted(project)) for _ in range(rounds)]
    shell(["podman", "pause", f"{project.stack}-worker1"])
    paused = [timed(lambda: verified_beside_paused_node(project)) for _ in range(rounds)]
    shell(["podman", "unpause", f"{project.stack}-worker1"])
    return [
        Row("nothing → verified at level smoke, image cached", up, floor, "floor", "≤ 3.0 × floor"),
        Row("`pulumi up`, nothing to do", unchanged, engine, "the engine with an empty program", "≤ 2 s"),
        Row("`pulumi refresh`, three layers", refresh, [], "", "≤ 8 s"),
        Row("`rackwright verify`, passive checks", verify, [], "", "≤ 15 ms per result", results),
        Row("the same, one node paused", paused, verify, "no node paused", "≤ 15 s more"),
        Row("converge of 4 nodes, nothing to do", converge, looked, "one SSH script", "≤ 4 × one SSH script + 1 s"),
        Row("`rackwright drift`, three layers, nothing differs", drift, looked, "one SSH script", "≤ 6 s"),
        Row("fabric of 256 nodes, 2048 ports: planned, simulated, compared", fabric, [], "", "≤ 5 s"),
        Row(f"the same driver, {_IDLE_TASKS} tasks that do nothing", idle, looked, "one SSH script", "(no goal: what Ansible costs)"),
    ]


def measure_kubernetes(project: Project, rounds: int) -> list[Row]:
    """The same for a stack with Kubernetes, beside a bare kubeadm from the same image and bundle."""
    say("Kubernetes: bundle and image, if they are not cached yet")
    project.run_checked("up", timeout=3600)
    image = project.resources()["image"]["outputs"]["image"]
    floor, up = [], []
    for number in range(rounds):
        say(f"Kubernetes from nothing to verified, round {number + 1} of {rounds}")
        project.run_checked("destroy")
        floor.append(timed(lambda: shell(["bash", str(HERE / "kubernetes-floor.sh"), image, f"10.{_FLOOR_NET}.0"])))
        up.append(timed(lambda: project.run_checked("up", timeout=600)))
    unchanged = [timed(lambda: project.run_checked("up")) for _ in range(rounds)]
    verify = [timed(lambda: verified(project)) for _ in range(rounds)]
    return [
        Row("Kubernetes: nothing → verified at level smoke, bundle and image cached", up, floor, "floor", "≤ 2.0 × floor"),
        Row("Kubernetes: `pulumi up`, nothing to do", unchanged, [], "", "≤ 2 s"),
        Row("Kubernetes: `rackwright verify`, passive checks", verify, [], "", "≤ 6 s"),
    ]


def verified_beside_paused_node(project: Project) -> None:
    """Passive checks while a node keeps its connections and answers nothing."""
    ended = project.rackwright("verify", project.stack)
    assert ended.status == 3, ended.end


def fabric_compared(image: str) -> None:
    """The fabric of 256 nodes as the subnet manager finds it, against its cable list."""
    plan = plan_for(256)
    compared = compare((cable.row() for cable in wiring(plan).cables), read_links(discover(image, netlist(plan))))
    assert not compared.differences and not compared.unknown


_IDLE_TASKS = 9
"""On four nodes about as many pairs of task and node as a no-change converge has."""


def idled(project: Project) -> None:
    """Tasks that do nothing, through the same driver: what a converge costs before it looks at anything."""
    tasks = [{"name": f"Do nothing {number}", "ansible.builtin.ping": None} for number in range(_IDLE_TASKS)]
    play = {"name": "Do nothing", "hosts": "nodes", "gather_facts": False, "tasks": tasks}
    (project.folder / "playbooks" / "idle.yml").write_text(json.dumps([play]))
    converged(project, "idle.yml")


def empty(folder: Path, project: Project) -> None:
    """The engine with a program that declares nothing."""
    place = folder / "empty"
    if not place.exists():
        place.mkdir()
        (place / "Pulumi.yaml").write_text("name: rackwright\nruntime: python\n")
        (place / "Pulumi.empty.yaml").write_text("config: {}\n")
        (place / "__main__.py").write_text("")
    command = [*project.pulumi_command("up")[:1], "up", "--stack", "empty", "--yes", "--skip-preview", "--non-interactive"]
    said = Project(place, "empty", project.environment).run(command)
    assert said.ok, said.output


def shell(command: list[str]) -> None:
    """Run a command; what it says is shown only when it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def machine() -> str:
    """What it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    podman = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"Measured on {date.today()} with `make bench`: {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"kernel {platform.release().split('-')[0]}, "
        f"{podman}, Python {platform.python_version()}.\n"
        "All nodes are containers on one machine: the figures do not describe real hardware."
    )


def as_markdown(rows: list[Row]) -> str:
    """The table."""
    lines = ["| what | median | against its floor | goal |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row.cells())} |" for row in rows)])


if __name__ == "__main__":
    sys.exit(main())
