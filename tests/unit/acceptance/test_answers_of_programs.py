"""Answers of the project's programs beside other text, and samples that nvidia-smi and the adapters give in part."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from types import ModuleType

import pytest

from rackwright.checks.acceptance.evaluators import monitoring
from rackwright.checks.acceptance.evaluators.records import record
from rackwright.checks.acceptance.phase import PROGRAMS
from rackwright.checks.acceptance.phases import cpu
from rackwright.checks.acceptance.phases.shared_file_system import SIZE
from rackwright.checks.acceptance.smoke import answer
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

from .played import FAILED, PASSED, UNKNOWN, output, scope

ANSWER = {"processes": 128, "value": 400.0, "wrong": 0}
BESIDE = {
    "profile": "Loading module {gcc/13}\n%s\n",
    "library at the end": "%s\nWarning: 2 files {a, b} were left open\n",
    "log in JSON": '{"level": "warn"}\n%s\n{"level": "info"}\n',
    "CRLF": "%s\r\n",
    "byte order mark": "\ufeff%s\n",
}


@pytest.mark.parametrize("form", BESIDE)
def test_record_is_found_beside_other_text(form: str) -> None:
    assert _said(BESIDE[form] % json.dumps(ANSWER)) == ANSWER


def test_answer_of_a_probe_is_found_beside_other_text() -> None:
    """A task prolog of the site may print into the output of a task (slurm.conf, TaskProlog)."""
    raw = {"out": "0 0\n", "rc": 0}
    for said, found in ((f"prolog {{ok}}\n{json.dumps(raw)}\n", True), ("prolog\n", False), (json.dumps(raw)[:-4], False)):
        whole = output(cpu.PHASE.jobs(scope())[0], lambda *_: {})
        changed = dataclasses.replace(whole, tasks=(dataclasses.replace(whole.tasks[0], out=said),))
        if found:
            assert answer(changed, "worker0", SIZE) == 0
        else:
            with pytest.raises(UndeterminedError, match="printed no result"):
                answer(changed, "worker0", SIZE)


@pytest.mark.parametrize("said", ["", "Killed", json.dumps({"figures": [ANSWER]})[:-3], '{"a": {"value": 1}, "b'])
def test_cut_record_is_unknown(said: str) -> None:
    """An object inside of it is no record."""
    with pytest.raises(UndeterminedError, match="no complete record"):
        _said(said)


def _said(text: str) -> object:
    whole = output(cpu.PHASE.jobs(scope())[0], lambda *_: {})
    return record(dataclasses.replace(whole, tasks=(dataclasses.replace(whole.tasks[0], out=text),)), "worker0")


def _samples(loads: list[list[float | None]], counts: list[dict[str, int]]) -> tuple[monitoring.Sample, ...]:
    return monitoring.parse(
        [
            {"second": n, "cpu_busy": 0.1, "gpu_busy": load, "sent_bytes": sent}
            for n, (load, sent) in enumerate(zip(loads, counts, strict=True))
        ]
    )


@pytest.mark.parametrize(
    ("loads", "gpus", "expected"),
    [
        ([[0, 90], [95, 90], [0, 0]], 2, PASSED),
        ([[None, 90], [None, 90], [None, 0]], 2, UNKNOWN),
        ([[None, 90], [80, 90], [None, 0]], 2, PASSED),
        ([[None, 0], [None, 0], [None, 0]], 2, FAILED),
        ([[None, 90], [None, 90], [None, 90]], 1, PASSED),
        ([[], [], []], 1, UNKNOWN),
        ([[0, 0], [0, 0], [0, 0]], 2, FAILED),
    ],
)
def test_load_that_is_not_told_is_unknown(loads: list[list[float | None]], gpus: int, expected: Verdict) -> None:
    assert monitoring.gpus_worked("gpu_activity_seen", "worker0", _samples(loads, [{}] * 3), gpus).verdict is expected


MAXIMUM = 4 * (2**32 - 1)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([10, 20, 30], PASSED),
        ([30, 10, 20], PASSED),
        ([30, 30, 10], FAILED),
        ([10, 10, 10], FAILED),
        ([MAXIMUM] * 3, UNKNOWN),
        ([10, MAXIMUM, MAXIMUM], PASSED),
        ([10, None, None], UNKNOWN),
        ([10, None, 20], PASSED),
    ],
    ids=("grows", "reset and grows", "reset only", "silent", "saturated", "saturates", "lost", "one reading lost"),
)
def test_counter_of_a_rail_is_judged(counts: list[int | None], expected: Verdict) -> None:
    sent = [{} if count is None else {"mlx5_0": count} for count in counts]
    assert monitoring.rails_carried("rails_carried_data", "worker0", _samples([[]] * 3, sent), ("mlx5_0",)).verdict is expected


@pytest.mark.parametrize(
    ("said", "loads"),
    [
        ("98\n0\n", [98.0, 0.0]),
        ("98\r\n[N/A]\r\n", [98.0, None]),
        ("[Unknown Error]\n97\n", [None, 97.0]),
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n12\n", [12.0]),
        ("Failed to initialize NVML: Driver/library version mismatch\n", []),
        ("", []),
    ],
)
def test_load_of_each_gpu_is_read(said: str, loads: list[float | None], tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write({said.encode()!r})\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert _collective().gpu_busy() == loads


def test_unread_counter_leaves_out_its_device_only(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _collective()
    for device, text in (("mlx5_0", "100\n"), ("mlx5_1", "Invalid argument\n")):
        folder = tmp_path / "sys" / "class" / device
        folder.mkdir(parents=True)
        (folder / "port_xmit_data").write_text(text)
    monkeypatch.setattr(program.glob, "glob", lambda _: ["/sys/class/infiniband/mlx5_0/x", "/sys/class/infiniband/mlx5_1/x"])
    real = open
    monkeypatch.setitem(
        program.__dict__, "open", lambda path: real(tmp_path / "sys" / "class" / path.split("/")[4] / "port_xmit_data", encoding="utf-8")
    )
    assert program.sent_bytes() == {"mlx5_0": 400}


def _collective() -> ModuleType:
    """Return the program as a module; its name keeps it from running."""
    module = ModuleType("collective")
    exec(compile((PROGRAMS / "collective.py").read_text(encoding="utf-8"), "collective.py", "exec"), module.__dict__)
    return module
