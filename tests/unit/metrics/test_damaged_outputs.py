"""Collectors on damaged outputs of their tools: a collector has figures or a reason, and a fault stays one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import pytest
from support.damage import damages

from .conftest import NODE, module
from .test_collectors import CABLES, CAPTURED, FABRIC, UNIT
from .test_gpu import GPU
from .test_slurm import NODE as NODE_ROW
from .test_slurm import SLURM

UNITS = UNIT.format("munge.service", "active", 0) + UNIT.format("slurmd.service", "failed", 5)
GPUS = GPU.format(0, "10", 30, 3, 8) + GPU.format(1, "20", 31, 0, 0)
ERRORS = (CAPTURED / "fabric-errors" / "errors.txt").read_text()
ANSWERS: dict[str, dict[str, str]] = {
    "units": {"systemctl show": UNITS, "systemctl list-units": "a.service loaded failed failed A\n"},
    "gpu": {"nvidia-smi": GPUS},
    "slurm": SLURM,
    "fabric": {**FABRIC, "ibnetdiscover": "".join(CABLES[1:]), "ibqueryerrors": ERRORS},
}
"""Outputs by the first words of their command: a failed unit, a GPU with ECC errors, a missing cable."""
CASES = [(subject, tool) for subject, answers in ANSWERS.items() for tool in answers]


def collected(subject: str, answers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Return the samples of a collector, None where it has a reason; raise what it raises."""
    library, collector = importlib.import_module("rackwright_metrics"), module(subject)

    def answer(command: list[str], statuses: tuple[int, ...] = (0,)) -> str:
        return next(said for start, said in answers.items() if " ".join(command).startswith(start))

    monkeypatch.setattr(collector, "output_of", answer)
    samples = library.Samples()
    try:
        collector.collect(NODE, samples)
    except library.CollectError:
        return None
    return str(samples.text())


@pytest.mark.parametrize(("subject", "tool"), CASES)
def test_damaged_output_raises_only_collect_error(subject: str, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for damaged in damages(ANSWERS[subject][tool], most=40):
        try:
            collected(subject, {**ANSWERS[subject], tool: damaged.text}, monkeypatch)
        except Exception as error:
            raise AssertionError(f"{damaged.what}: {error!r}") from error


@pytest.mark.parametrize(
    ("subject", "tool", "healthy"),
    [
        ("units", "systemctl show", 'rackwright_unit_active{name="slurmd.service"} 1\n'),
        ("fabric", "ibnetdiscover", 'rackwright_fabric_cable_up{a="worker0/mlx5_0",a_port="1",b="leaf-su1-r0",b_port="1"} 1\n'),
        ("gpu", "nvidia-smi", "rackwright_gpus_present 3\n"),
    ],
)
def test_damage_makes_no_fault_healthy(subject: str, tool: str, healthy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for damaged in damages(ANSWERS[subject][tool], most=40):
        assert healthy not in (collected(subject, {**ANSWERS[subject], tool: damaged.text}, monkeypatch) or ""), damaged.what


def test_damage_makes_no_drained_node_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose state is not read completely is reported as such."""
    rows = NODE_ROW.format("IDLE+DRAIN", "", "") + NODE_ROW.format("IDLE", "", "").replace("w0", "w1")
    healthy, read = ('rackwright_slurm_node_state{node="w0",state="drain"} 0\n', 'rackwright_slurm_node_unread{node="w0"} 0\n')
    for damaged in damages(rows, most=200):
        text = collected("slurm", {**SLURM, "scontrol": damaged.text}, monkeypatch) or ""
        assert not (healthy in text and read in text), damaged.what
