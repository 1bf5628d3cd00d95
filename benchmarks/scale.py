"""`make bench-scale`: what a rack costs before a single machine is touched; 64 and 256 nodes of stack rack-h100, 64 of aws-p5.

usage: python benchmarks/scale.py [--rounds N] [--write]      --write puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from slurm_files import rendered  # noqa: E402
from standins.fixtures import serving  # noqa: E402
from support.aws_stack import clone_aws_stack  # noqa: E402
from support.project import Project, clone  # noqa: E402

_PAGE: Final = HERE.parent / "docs" / "performance.md"
_MARKS: Final = ("<!-- scale -->", "<!-- /scale -->")
_LIKE: Final = "rack-h100"
_SIZES: Final = (64, 256)
_IN_RACK: Final = 8
_STEP: Final = 32
"""Nodes between the two sizes whose difference is the cost of one more: enough to be seen above the clock's noise."""


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds by the clock, seconds of a CPU, and MiB of the largest of its processes."""

    seconds: float
    cpu: float
    memory: float


def main() -> int:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("file", nargs="?", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        print(json.dumps(PARTS[asked.part](asked.file)))
        return 0
    with tempfile.TemporaryDirectory(prefix="rackwright-scale-") as folder:
        table = measure(Path(folder), asked.rounds)
    print(table)
    if asked.write:
        head, rest = _PAGE.read_text().split(_MARKS[0])
        _PAGE.write_text(f"{head}{_MARKS[0]}\n\n{machine()}\n\n{table}\n\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}")
    return 0


def measure(folder: Path, rounds: int) -> str:
    """All rows as a table."""
    lines = ["| what | nodes | median | of a CPU | largest process | goal |", "|---|---|---|---|---|---|"]
    for size in _SIZES:
        file = stack_file(folder / f"Pulumi.rack-{size}.yaml", size)
        plan = [run([venv("rackwright"), "plan", str(file), "--json"]) for _ in range(rounds)]
        lines.append(row("`rackwright plan`: read, validate, plan", size, plan, "≤ 1 s"))
        texts = [part("texts", file) for _ in range(rounds)]
        lines.append(row("inventory, ssh_config, known_hosts, slurm.conf", size, texts, "≤ 2 s"))
    cables = [run([venv("rackwright"), "fabric", "cables", str(folder / f"Pulumi.rack-{_SIZES[-1]}.yaml")]) for _ in range(rounds)]
    lines.append(row("`rackwright fabric cables`: 2048 ports, 4096 cables and their lengths", _SIZES[-1], cables, "≤ 1 s"))
    preview = [previewed(folder / f"preview-{number}", _SIZES[-1]) for number in range(rounds)]
    lines.append(row("`pulumi preview`, no machine contacted", _SIZES[-1], preview, "≤ 30 s"))
    rented = [rented_preview(folder / f"rented-{number}", _SIZES[0]) for number in range(rounds)]
    lines.append(row("`pulumi preview` of aws-p5, the account a stand-in", _SIZES[0], rented, "≤ 10 s"))
    ratios = [part_said("growth", folder / "Pulumi.grown.yaml")["ratio"] for _ in range(rounds)]
    lines.append(f"| plan and inventory: one node more at 64 against one more at 2 | | | {statistics.median(ratios):.2f} × | | ≤ 1.5 × |")
    return "\n".join(lines)


def row(what: str, size: int, costs: list[Cost], goal: str) -> str:
    """Medians of the time, the worst of the memory."""
    seconds, cpu = (statistics.median(values) for values in zip(*((cost.seconds, cost.cpu) for cost in costs), strict=True))
    return f"| {what} | {size} | {seconds:.2f} s | {cpu:.2f} s | {max(cost.memory for cost in costs):.0f} MiB | {goal} |"


def described(size: int, **machine: Any) -> dict[str, Any]:
    """Stack rack-h100 with so many workers; `machine` is said of every machine."""
    data: dict[str, Any] = yaml.safe_load((HERE.parent / "stacks" / f"Pulumi.{_LIKE}.yaml").read_text())
    cluster = data["config"]["rackwright:cluster"]
    cluster["groups"]["worker"]["count"] = size
    others = {name: row for name, row in cluster["target"]["machines"].items() if not name.startswith("worker")}
    own = {name: {**row, "host_key": f"SHA256:{name + '/':0<43}"} for name, row in others.items()}
    workers = {f"worker{index}": {"host_key": f"SHA256:{f'worker{index}/':0<43}"} for index in range(size)}
    machines = {**own, **racks(size), **workers}
    cluster["target"]["machines"] = {name: row if "[" in name else {**row, **machine} for name, row in machines.items()}
    return data


def racks(size: int) -> dict[str, Any]:
    """Workers by eights: their racks, and the addresses that count up from the first's."""
    first = IPv4Address("10.30.1.1")
    return {
        f"worker[{index}-{min(index + _IN_RACK, size) - 1}]": {"address": str(first + index), "rack": f"r{index // _IN_RACK + 1:02}"}
        for index in range(0, size, _IN_RACK)
    }


def stack_file(file: Path, size: int, **machine: Any) -> Path:
    """The same as a file."""
    file.write_text(yaml.safe_dump(described(size, **machine), sort_keys=False))
    return file


def previewed(folder: Path, size: int) -> Cost:
    """A preview by the real engine in a fresh home; all machines are said to be reached at a port where every caller is counted."""
    project = clone(folder / "checkout", like=_LIKE, number=182)
    try:
        with counted_callers() as (port, callers):
            stack_file(project.stack_file, size, reach="127.0.0.1", port=port)
            cost = run(project.pulumi_command("preview"), project)
        assert not callers, f"the preview called {len(callers)} machines"
        return cost
    finally:
        project.remove()


def rented_preview(folder: Path, size: int) -> Cost:
    """A preview of stack aws-p5 with so many p5.48xlarge, 32 interfaces each, in an empty account."""
    (folder / "engine").mkdir(parents=True)
    with serving(folder / "engine") as account:
        project = clone_aws_stack("aws-p5", folder, account, whole=True)
        project.edit(lambda cluster: cluster["groups"]["worker"].update(count=size))
        project.edit(lambda cluster: cluster["budget"].update(max_usd_per_hour=10_000))
        return run(project.pulumi_command("preview"), project)


@contextmanager
def counted_callers() -> Any:
    """A port on this machine, and every client that connected to it."""
    callers: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    callers.append(listening.accept())

        threading.Thread(target=listen, daemon=True).start()
        yield listening.getsockname()[1], callers


def texts(file: Path) -> dict[str, float]:
    """Seconds from a plan to the texts that Ansible, ssh and Slurm read; the plan comes over the wire, as in the provider."""
    from rackwright.operations import stack_files
    from rackwright.plan import expand
    from rackwright.stackfile.load import load_stack
    from rackwright.targets import program

    cluster = load_stack(file).cluster
    assert cluster is not None
    plan = expand(cluster, "rack-bench")
    inputs = {"plan": program.serialize_plan(plan), "hosts": hosts(plan), "secrets": {"access_key": "none", "munge_key": "none"}}
    started, busy = time.monotonic(), time.process_time()
    written = stack_files.write("rack-bench", inputs)
    text = rendered("etc/slurm/slurm.conf", yaml.load(written.inventory.read_text(), Loader=yaml.CSafeLoader), "controller0")
    assert "NodeName=worker63 " in text
    return {"seconds": time.monotonic() - started, "cpu": time.process_time() - busy}


def hosts(plan: Any) -> dict[str, dict[str, Any]]:
    """Every node as if it existed."""
    return {node.name: {"address": node.address, "public_key": "ssh-ed25519 AAAA", "instance_uid": node.name} for node in plan.nodes}


def growth(_: Path) -> dict[str, float]:
    """How much dearer one more node is at 64 than at 2, in plan and inventory: CPU seconds, the least of many turns at each size."""
    sizes = (2, 2 + _STEP, 64 - _STEP // 2, 64 + _STEP // 2)
    data = {size: described(size)["config"]["rackwright:cluster"] for size in sizes}
    gc.disable()
    turns = [{size: planned(data[size]) for size in sizes} for _ in range(60)]
    least = {size: min(turn[size] for turn in turns) for size in sizes}
    small, large = (least[sizes[1]] - least[sizes[0]]) / _STEP, (least[sizes[3]] - least[sizes[2]]) / _STEP
    return {"ratio": large / small, "small": small, "large": large}


def planned(data: dict[str, Any]) -> float:
    """CPU seconds from a description to all that is handed over."""
    from rackwright import inventory, rules
    from rackwright.inventory import Host
    from rackwright.plan import expand
    from rackwright.stackfile.load import load_cluster

    started = time.process_time()
    loaded = load_cluster(data, "rack-bench")
    rules.check(loaded, date(2026, 12, 1))
    assert loaded.cluster is not None
    plan = expand(loaded.cluster, "rack-bench")
    there = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", node.name) for node in plan.nodes}
    inventory.inventory(plan, there)
    inventory.ssh_config(plan, there)
    inventory.known_hosts(plan, there)
    return time.process_time() - started


PARTS: Final[dict[str, Callable[[Path], dict[str, float]]]] = {"texts": texts, "growth": growth}


def part(name: str, file: Path) -> Cost:
    """A part of this file in a process of its own: the seconds that it says, and its memory."""
    with tempfile.TemporaryDirectory() as home:
        ran = run([sys.executable, str(HERE / "scale.py"), "--part", name, str(file)], environment={**os.environ, "RACKWRIGHT_HOME": home})
    told = json.loads(ran.output)
    return Cost(told["seconds"], told["cpu"], ran.memory)


def part_said(name: str, file: Path) -> dict[str, float]:
    """What a part says."""
    told: dict[str, float] = json.loads(run([sys.executable, str(HERE / "scale.py"), "--part", name, str(file)]).output)
    return told


@dataclass(frozen=True)
class Ran(Cost):
    """A command with what it said."""

    output: str


def run(command: list[str], project: Project | None = None, *, environment: dict[str, str] | None = None) -> Ran:
    """Run a command to its good end; its largest process counts the children that it waited for."""
    started = time.monotonic()
    place = {"cwd": project.folder, "env": project.environment} if project else {"env": environment}
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, **place)  # type: ignore[call-overload]
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        output = said.read()
    assert child.returncode == 0, f"{' '.join(command)}\n{output}"
    return Ran(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output)


def venv(program: str) -> str:
    """A program of the environment that this runs in."""
    return str(HERE.parent / ".venv" / "bin" / program)


def machine() -> str:
    """What it was measured on, and how many processes wanted a core meanwhile."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Measured on {date.today()} with `make bench-scale`: {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"kernel {platform.release().split('-')[0]}, Python {platform.python_version()}, load {os.getloadavg()[2]:.0f}.\n"
        "No machine was contacted: the figures are the cost of planning."
    )


if __name__ == "__main__":
    sys.exit(main())
