"""`make bench-monitoring`: what monitoring costs on stack lab-monitoring, and what 1,000 nodes would cost, computed from it.

usage: python benchmarks/monitoring.py [--stack NAME] [--write]
    --stack  a stack that is up; without it, a copy of lab-monitoring is brought up and removed, and the phase is timed
    --write  put the tables into docs/monitoring.md

Many synthetic series are added for two minutes, to separate memory and CPU per series from what a daemon needs without them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.project import Project, clone  # noqa: E402

_PAGE = HERE.parent / "docs" / "monitoring.md"
_MARKS = ("<!-- costs -->", "<!-- end of costs -->")
_NODES = 1000
_WINDOW = 60.0
"""Seconds over which CPU time is measured."""
_SYNTHETIC = 40_000
"""Series that are added: about those of 70 workers. Chosen so that memory grows by more than it varies."""
_SETTLING = 60.0
"""Seconds after which Prometheus has read the synthetic series four times."""
_SAMPLE_BYTES = 2
"""Bytes of a sample on disk: prometheus.io, Storage, "an average of only 1-2 bytes per sample"; the larger."""
_MEMORY = "twice the {:.1f} KiB of a series after two minutes, since a head block holds samples of up to three hours"
_SERVER = "login0"
_DAEMONS = {"Prometheus": "prometheus", "Alertmanager": "prometheus-alertmanager", "node_exporter": "prometheus-node-exporter"}
_USED = """
import json, os, subprocess, sys
ticks, found = os.sysconf("SC_CLK_TCK"), {}
for unit in sys.argv[1:]:
    pid = subprocess.run(["systemctl", "show", "--value", "--property=MainPID", unit], capture_output=True, text=True).stdout.strip()
    if pid in ("", "0"):
        continue
    cells = open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()
    rss = next(line.split()[1] for line in open("/proc/" + pid + "/status") if line.startswith("VmRSS"))
    found[unit] = {"cpu_s": (int(cells[11]) + int(cells[12])) / ticks, "rss_mib": int(rss) / 1024}
print(json.dumps(found))
"""
_INSTALLED = "dpkg-query --show --showformat='${Installed-Size}\\n' " + " ".join(_DAEMONS.values()) + " 2>/dev/null; true"
_COLLECTED = """
import glob, json, os, subprocess, time
found = {}
for path in sorted(glob.glob("/usr/local/libexec/rackwright/metrics/metrics_*.py")):
    name = os.path.basename(path)[8:-3]
    if not os.path.exists("/etc/systemd/system/rackwright-metrics-" + name + ".timer"):
        continue
    began, child = time.monotonic(), subprocess.Popen(["/usr/bin/python3", "-B", path])
    _, status, used = os.wait4(child.pid, 0)
    found[name] = {"seconds": time.monotonic() - began, "cpu_s": used.ru_utime + used.ru_stime, "rss_mib": used.ru_maxrss / 1024}
print(json.dumps(found))
"""
_MINUTELY = ("ranks", "jobs")
"""Collectors that start once a minute, whatever the scrape interval up to 30 s is (roles/metrics_collectors)."""
_ADD = """
import os, sys
path = "/var/lib/rackwright/metrics/results-benchmark.prom"
with open(path + ".new", "w") as stream:
    stream.writelines("rackwright_benchmark{number=\\"%d\\"} %d\\n" % (number, number) for number in range(int(sys.argv[1])))
os.chown(path + ".new", -1, os.stat(os.path.dirname(path)).st_gid)
os.chmod(path + ".new", 0o640)
os.rename(path + ".new", path)
"""


@dataclass(frozen=True)
class Usage:
    """What a process needs: cores, and memory in MiB."""

    cores: float
    rss_mib: float


@dataclass(frozen=True)
class Cluster:
    """What was measured. Series and samples are without the synthetic ones."""

    daemons: dict[str, dict[str, Usage]]
    """By node and name."""
    collectors: dict[str, dict[str, dict[str, float]]]
    """By node and subject: seconds, cpu_s, rss_mib of one run."""
    series: dict[str, float]
    """By target, `job on node`, those of its last scrape."""
    scrape_s: dict[str, float]
    head: float
    samples_per_s: float
    per_node: float
    """Series about one worker that other nodes' collectors write: its state in Slurm, its cables and ports."""
    interval_s: float
    disk_mib: float
    disk_minutes: float
    installed_mib: dict[str, float]
    """By node: installed size of the daemons' packages, without the fonts and JavaScript of Prometheus' pages."""
    grown: Usage
    """What Prometheus needs with the synthetic series."""
    phase: tuple[float, float] | None
    """Seconds of the phase monitoring, and of the whole `up`; None for a stack that was up."""


def main() -> int:
    """Measure, print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--stack")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.stack:
        found = measure(Project(HERE.parent, asked.stack, dict(os.environ)), None)
    else:
        with tempfile.TemporaryDirectory(prefix="rackwright-bench-") as folder:
            project = clone(Path(folder) / "checkout", like="lab-monitoring", number=183)
            try:
                found = measure(project, brought_up(project))
            finally:
                project.remove()
    text = f"{machine()}\n\n{as_markdown(found)}"
    print(text)
    if asked.write:
        page = _PAGE.read_text(encoding="utf-8")
        head, rest = page.split(_MARKS[0])
        _PAGE.write_text(f"{head}{_MARKS[0]}\n\n{text}\n\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}", encoding="utf-8")
    return 0


def brought_up(project: Project) -> tuple[float, float]:
    """Bring the stack up; return the seconds of the phase, and of the whole run."""
    said = project.run_checked("up", timeout=2400)
    first = re.search(r"\((\d+)s\) monitoring:", said.output)
    last = re.search(r"converged: .* in ([\d.]+) s", said.output)
    assert first and last, said.output
    return float(last[1]) - float(first[1]), said.seconds


def measure(project: Project, phase: tuple[float, float] | None) -> Cluster:
    """Measure a stack at rest, then with synthetic series."""
    nodes = [row["metric"]["instance"] for row in query(project, 'up{job="node"}')]
    time.sleep(_SETTLING)
    before = {node: used(project, node) for node in nodes}
    time.sleep(_WINDOW)
    after = {node: used(project, node) for node in nodes}
    collectors = {node: json.loads(on_node(project, node, _COLLECTED)) for node in nodes}
    interval = value(project, 'max(prometheus_target_interval_length_seconds{quantile="0.5"})')
    figures = {
        "series": by_target(project, "scrape_samples_post_metric_relabeling"),
        "scrape_s": by_target(project, "scrape_duration_seconds"),
        "head": value(project, "prometheus_tsdb_head_series"),
        "samples_per_s": value(project, "sum(rate(prometheus_tsdb_head_samples_appended_total[2m]))"),
        "per_node": value(project, 'count({node="worker1"}) + (count({a=~"worker1/.*"} or {b=~"worker1/.*"}) or vector(0))')
        + 2 * value(project, 'count({device=~"worker1/.*"}) or vector(0)'),
        "disk_minutes": value(project, "(time() - process_start_time_seconds{job='prometheus'}) / 60"),
    }
    disk = (
        float(
            on_node(
                project,
                _SERVER,
                "import subprocess; print(subprocess.run(['du', '-sk', '/var/lib/prometheus/metrics2'], "
                "capture_output=True, text=True).stdout.split()[0])",
            )
        )
        / 1024
    )
    daemons = {node: between(before[node], after[node]) for node in nodes}
    installed = {node: sum(map(int, project.ssh(node, _INSTALLED).output.split())) / 1024 for node in (_SERVER, "worker1")}
    grown = with_more_series(project)
    return Cluster(daemons, collectors, **figures, interval_s=interval, disk_mib=disk, installed_mib=installed, grown=grown, phase=phase)


def with_more_series(project: Project) -> Usage:
    """Return what Prometheus needs while it reads the synthetic series, which are removed at the end."""
    on_node(project, _SERVER, _ADD, str(_SYNTHETIC))
    try:
        time.sleep(_SETTLING)
        before = used(project, _SERVER)
        time.sleep(_WINDOW)
        return between(before, used(project, _SERVER))["Prometheus"]
    finally:
        on_node(project, _SERVER, "import os; os.remove('/var/lib/rackwright/metrics/results-benchmark.prom')")


def used(project: Project, node: str) -> tuple[float, dict[str, Any]]:
    """Return the time, and what each daemon of a node has used."""
    return time.monotonic(), json.loads(on_node(project, node, _USED, *_DAEMONS.values()))


def between(before: tuple[float, dict[str, Any]], after: tuple[float, dict[str, Any]]) -> dict[str, Usage]:
    """Return the usage of each daemon between two readings, by its name."""
    seconds = after[0] - before[0]
    return {
        name: Usage((after[1][unit]["cpu_s"] - before[1][unit]["cpu_s"]) / seconds, after[1][unit]["rss_mib"])
        for name, unit in _DAEMONS.items()
        if unit in after[1]
    }


def on_node(project: Project, node: str, program: str, *arguments: str) -> str:
    """Run a Python program on a node, as root; return what it prints."""
    quoted = " ".join([f"'{word}'" for word in arguments])
    said = project.ssh(node, f"python3 - {quoted} <<'END_OF_PROGRAM'\n{program}\nEND_OF_PROGRAM\n")
    assert said.ok, said.output
    return said.output


def query(project: Project, expression: str) -> list[dict[str, Any]]:
    """Return the series of an expression in the form of Prometheus."""
    said = project.rackwright("monitor", project.stack, "--query", expression, "--json")
    assert said.ok, said.output
    return [{"metric": one["labels"], "value": one["samples"][-1][1]} for one in json.loads(said.output)["series"]]


def value(project: Project, expression: str) -> float:
    """Return the value of an expression with one series."""
    (found,) = query(project, expression)
    return float(found["value"])


def by_target(project: Project, metric: str) -> dict[str, float]:
    """Return a metric of scrapes by target."""
    return {f"{row['metric']['job']} on {row['metric']['instance']}": float(row["value"]) for row in query(project, metric)}


def as_markdown(found: Cluster) -> str:
    """Return the tables."""
    return "\n\n".join([_daemons(found), _collectors(found), _numbers(found), _computed(found)])


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown."""
    return (
        "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])
        .replace("| --- |", "|---|")
        .replace(" --- |", "---|")
    )


def _daemons(found: Cluster) -> str:
    rows = [
        [name, node, f"{usage.rss_mib:.0f} MiB", f"{100 * usage.cores:.2f} %"]
        for node, daemons in found.daemons.items()
        for name, usage in daemons.items()
    ]
    return table(["daemon", "node", "RSS", "CPU of a core"], rows)


def _collectors(found: Cluster) -> str:
    rows = [
        [subject, node, f"{one['seconds']:.2f} s", f"{one['cpu_s']:.2f} s", f"{one['rss_mib']:.0f} MiB"]
        for node, subjects in found.collectors.items()
        for subject, one in subjects.items()
    ]
    return table(["collector", "node", "one run", "CPU time", "RSS"], rows)


def _numbers(found: Cluster) -> str:
    rows = [[f"series of {name}", f"{count:,.0f}, read in {1000 * found.scrape_s[name]:.0f} ms"] for name, count in found.series.items()]
    rows += [
        ["series in Prometheus, with those of rules and alerts", f"{found.head:,.0f}"],
        ["samples", f"{found.samples_per_s:.0f} per second, one reading every {found.interval_s:.0f} s"],
        [
            "size on disk",
            f"{found.disk_mib:.1f} MiB after {found.disk_minutes:.0f} minutes (write-ahead log; blocks are written after 2 h)",
        ],
        *([f"installed packages of the daemons on {node}", f"{size:.0f} MiB"] for node, size in found.installed_mib.items()),
    ]
    if found.phase:
        rows.append(
            ["seconds of the phase `monitoring`, with the download of packages", f"{found.phase[0]:.0f} of {found.phase[1]:.0f} s of `up`"]
        )
    return table(["measured", "value"], rows)


def _computed(found: Cluster) -> str:
    """Return what a cluster of 1,000 workers like those of the lab would cost."""
    worker = found.series["node on worker1"]
    fixed = found.head - 2 * (worker + found.per_node)
    series = fixed + _NODES * (worker + found.per_node)
    samples = series / found.interval_s
    rest = found.daemons[_SERVER]["Prometheus"]
    memory = (found.grown.rss_mib - rest.rss_mib) / _SYNTHETIC
    cores = max(found.grown.cores - rest.cores, 0.0) / _SYNTHETIC
    every = {subject: 60.0 if subject in _MINUTELY else found.interval_s for subject in found.collectors["worker1"]}
    own = sum(one["cpu_s"] / every[subject] for subject, one in found.collectors["worker1"].items())
    exporter = found.daemons["worker1"]["node_exporter"]
    rows = [
        ["series", f"{series:,.0f}: {worker:.0f} + {found.per_node:.0f} for each worker, {fixed:.0f} for the rest"],
        ["samples per second", f"{samples:,.0f}"],
        [
            "memory of Prometheus",
            f"{(rest.rss_mib + 2 * memory * (series - found.head)) / 1024:.1f} GiB: {_MEMORY.format(1024 * memory)}",
        ],
        ["CPU of Prometheus", f"{rest.cores + cores * (series - found.head):.1f} cores"],
        [
            "disk",
            f"{samples * 86400 * _SAMPLE_BYTES / 2**30:.1f} GiB a day at {_SAMPLE_BYTES} bytes a sample (documentation of Prometheus)",
        ],
        ["on each worker", f"{exporter.rss_mib:.0f} MiB and {100 * (exporter.cores + own):.1f} % of a core, collectors included"],
    ]
    return table([f"computed for {_NODES:,} workers", "value"], rows)


def machine() -> str:
    """Return what it was measured on."""
    return (
        f"Measured on {date.today()} with `make bench-monitoring`: {os.cpu_count()} cores, kernel {platform.release().split('-')[0]}. "
        "All nodes are containers of one machine, and GPUs and fabric are simulated."
    )


if __name__ == "__main__":
    sys.exit(main())
