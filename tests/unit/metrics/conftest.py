"""The collectors of roles/metrics_collectors as modules, with answers in place of the node's tools."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client.parser import text_string_to_metric_families

FILES = Path(__file__).parents[3] / "roles" / "metrics_collectors" / "files"
NODE = {
    "units": ["munge.service", "slurmd.service"],
    "certificates": {"node_exporter": "2027-01-15T08:00:00+00:00"},
    "mounts": ["/mnt/sharedfs"],
    "gpu": {"count": 2, "simulated": True},
    "slurm": {"partitions": ["gpu", "cpu"], "accounts": ["research"]},
    "prometheus": {"host": "login0", "port": 9090, "period_s": 60},
    "fabric": {"cables": ["worker0/mlx5_0:1 leaf-su1-r0:1", "worker1/mlx5_0:1 leaf-su1-r0:2", "leaf-su1-r0:9 spine-01:1"]},
}
"""What the role writes for a node that has everything."""

Series = dict[str, float]
Collect = Callable[[str, Mapping[str, str]], Series]


@pytest.fixture(scope="session", autouse=True)
def on_path() -> Iterator[None]:
    """The programs find their library beside them."""
    sys.path.insert(0, str(FILES))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    yield
    sys.dont_write_bytecode = written
    sys.path.remove(str(FILES))


def module(subject: str) -> ModuleType:
    return importlib.import_module(f"metrics_{subject}")


def success(subject: str) -> str:
    """Name the series that says whether a collector could read its subject."""
    return f'rackwright_collector_success{{collector="{subject}"}}'


def series(text: str) -> Series:
    """Every sample as `name{label="value",…}`, parsed as Prometheus does."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, f"{name} twice"
            found[name] = sample.value
    return found


@pytest.fixture
def collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collect:
    """Run a collector with an answer by the first words of a command; a command without one is missing on the node."""

    def run(subject: str, answers: Mapping[str, str]) -> Series:
        library, collector = importlib.import_module("rackwright_metrics"), module(subject)

        def answer(command: list[str], statuses: tuple[int, ...] = (0,)) -> str:
            line = " ".join(command)
            for start, said in answers.items():
                if line.startswith(start):
                    if said.startswith("status "):
                        raise library.CollectError(said)
                    return said
            raise library.CollectError(f"{command[0]} is missing")

        monkeypatch.setattr(collector, "output_of", answer, raising=False)
        (tmp_path / "metrics.json").write_text(json.dumps(NODE))
        library.run(subject, collector.collect, str(tmp_path), str(tmp_path / "metrics.json"))
        return series((tmp_path / f"{subject}.prom").read_text())

    return run
