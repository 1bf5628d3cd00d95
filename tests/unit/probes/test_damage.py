"""Every parser on damaged output: it returns a value or raises, and undamaged values stay the same."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.damage import damages
from support.parser_registry import PARTS, parsers
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_gpu, test_slurm, test_storage
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.gpu import GPUS
from rackwright.checks.cluster.probes.slurm import NODES
from rackwright.checks.cluster.probes.storage import MOUNTS
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

INFRA = Path(__file__).parents[3] / "infra"
ALL = list(parsers())
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def test_every_parser_is_registered():
    """Functions named `parse…` of the checks, the hardware report and the acceptance."""
    registered = {function for one in ALL for function in one.functions} | set(PARTS)
    written = set()
    for folder in ("cluster", "hardware", "acceptance"):
        for file in sorted((INFRA / "rackwright" / "checks" / folder).rglob("*.py")):
            module = ".".join(file.relative_to(INFRA).with_suffix("").parts)
            tree = ast.parse(file.read_text(encoding="utf-8"))
            written |= {(module, node.name) for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("parse")}
    assert written - registered == set()
    assert set(PARTS) <= written


@pytest.mark.parametrize("one", ALL, ids=[one.name for one in ALL])
def test_damaged_output_raises_only_undetermined_error(one):
    for damaged in damages(one.sample, most=25):
        try:
            one.read(damaged.text)
        except UndeterminedError:
            pass
        except Exception as error:
            raise AssertionError(f"{damaged.what}: {error!r}") from error


EMPTY_IS_AN_ANSWER = {
    ("checks", "hosts"): "an empty file is what it says",
    ("checks", "gpu-xids"): "the command looks for another line of the log before it prints none",
    ("checks", "amd-errors"): "the same",
    ("checks", "fabric-ports"): "a node without adapters",
    ("checks", "pods-left"): "the blank line that echo prints where nothing is left",
    ("hardware", "numa"): "a kernel without NUMA; a part of the hardware report, which judges nothing",
    ("hardware", "rdma"): "a node without adapters; a part of the hardware report, which judges nothing",
}


@each_row("text", ["", "\n"])
@each_row("one", ALL, ids=[one.name for one in ALL])
def test_empty_output_is_undetermined(one, text):
    """A tool that prints nothing with status 0 has not answered, unless its command makes sure of that."""
    if (one.name.split(": ")[0], one.name.split(" ")[1]) in EMPTY_IS_AN_ANSWER:
        one.read(text or "\n")
        return
    with pytest.raises(UndeterminedError):
        one.read(text)


ROWS = (
    *("mig", "nvlinks", "rack-fabric", "kernel-modules", "driver-libraries"),
    *(
        "gpus",
        "gpu-repairs",
        "gpu-devices",
        "gpu-device-numbers",
        "nvlink-fabric",
        "slurm-nodes",
        "slurm-partitions",
        "mounts",
        "storage-roots",
        "storage-usage",
    ),
    *("storage-answering", "nfs-server", "units", "identity", "resolved", "hosts", "space", "inodes", "system-state"),
    *("accounts", "directories", "kernel-settings", "service-limits", "huge-pages"),
    *("fabric-ports", "fabric-links", "fabric-errors"),
    *("amd-gpus", "amd-metrics", "amd-pages", "amd-links", "amd-pci", "amd-devices"),
)
"""Probes whose answers are parsed row by row."""
HARDWARE = ("gpus", "gpu_links", "numa", "interfaces", "rdma", "mounts")
ACCEPTANCE = ("nvidia-smi", "nvlink", "topo", "dcgm", "nccl")
BY_ROW = [
    one
    for one in ALL
    if one.sample.strip()
    and not one.sample.lstrip().startswith("{")
    and (one.name.split(": ")[0], one.name.split(" ")[1])
    in {*(("checks", name) for name in ROWS), *(("hardware", name) for name in HARDWARE), *(("acceptance", name) for name in ACCEPTANCE)}
]


SCALARS = frozenset({str, int, float, bool, type(None)})


def subjects(value):
    """Return the values of an answer by path, as far as they were read: keys of mappings, fields, rows by their first field."""
    found = {}
    _add_subjects(found, value, "")
    return found


def _add_subjects(found, value, path):
    if type(value) in SCALARS:  # most values, and the tests below take 2 us each
        found[path] = value
    elif isinstance(value, UnreadableValue):
        found[path] = None
    elif is_dataclass(value) and not isinstance(value, type):
        for name in _compared(type(value)):
            _add_subjects(found, getattr(value, name), f"{path}.{name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _add_subjects(found, item, f"{path}[{key}]")
    elif isinstance(value, Iterable) and not isinstance(value, str | set | frozenset):
        for item in value:
            _add_subjects(found, item, f"{path}[{_key(item)}]")
    else:
        found[path] = value if not isinstance(value, set | frozenset) else sorted(map(str, value))


@cache
def _compared(row):
    """Return the names of a row's fields whose values are those of the output."""
    return [field.name for field in fields(row) if field.compare and field.name not in ("unsure", "cut", "unread", "unrated")]


@cache
def _first_fields(row):
    return [field.name for field in fields(row)][:2]


def _key(item):
    """Return the key of a row: its first field, or two if one is ambiguous."""
    return "/".join(str(getattr(item, name)) for name in _first_fields(type(item))) if is_dataclass(item) else str(item)


def test_every_row_parser_is_covered():
    assert len({one.name.rpartition(" ")[0] for one in BY_ROW}) >= len(ROWS) + len(HARDWARE)


@pytest.mark.parametrize("one", BY_ROW, ids=[one.name for one in BY_ROW])
def test_damage_changes_only_damaged_values(one):
    """A returned value equals that of the whole output, unless its own line was damaged. A warning and line ends change nothing."""
    whole = subjects(one.read(one.sample))
    for damaged in damages(one.sample, most=40):
        try:
            found = subjects(one.read(damaged.text))
        except UndeterminedError:
            assert damaged.line, f"{damaged.what}: refused as a whole"
            continue
        wrong = {path: value for path, value in found.items() if value is not None and whole.get(path, value) != value}
        if not damaged.line:
            assert found == whole, damaged.what
        elif damaged.what.startswith("cut"):
            assert [row for row in _rows(wrong) if row not in HIDDEN] == [], damaged.what
        else:
            assert len(_rows(wrong)) <= 1, (damaged.what, wrong)


HIDDEN = ("[/proc/sys/fs/binfmt_misc", "[/sys/fs/cgroup/systemd")
"""Mount points of the samples with two mounts: without the later line, the earlier one is returned."""


def _rows(paths):
    """Return the rows, by their outermost key, to which values belong."""
    return {path.split("]")[0] for path in paths}


GPU_ROW = "{}, NVIDIA H200, 143771, 570.86.15, {}, {}, {}, Enabled, 00000000:{:02X}:00.0, {}, No, [N/A], {}, 16, 5, 5, P0\n"
SICK = "".join(
    GPU_ROW.format(
        index, 7 * (index == 1), 1410 if index == 2 else 1980, "0x8" if index == 3 else "0x0", 16 + index, "No" if index != 4 else "Yes", 16
    )
    for index in range(8)
)
SICK = SICK.replace("[N/A], 16, 16, 5, 5, P0\n", "[N/A], 8, 16, 5, 5, P0\n", 1)
PLAN = SimpleNamespace(count=8, product="NVIDIA H200", memory_mib=143771, driver="570.86.15")
NODE_LINES = "".join(
    f"NodeName=n{number} CPUTot=8 Gres=gpu:h200:8 RealMemory=2048 State={state} Partitions=gpu Reason=x [root@2026-01-01T00:00:00]\n"
    for number, state in enumerate(("IDLE", "IDLE+DRAIN", "MIXED+RESERVED"))
)
MOUNT_LINES = """29 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
61 29 0:44 / /scratch rw,relatime - tmpfs  rw
62 29 0:45 / /home rw,nosuid,nodev - ext4 /dev/sdb1 rw
"""
HOME = SimpleNamespace(mount="/home", kind="fsx-lustre", servers=[], folder=None, clients=["w0"])
SICK_CASES = {
    **{
        f"gpu {name}": (check, GPUS, SICK, {"node": SimpleNamespace(gpus=PLAN), "limit": 0.05})
        for name, check in vars(test_gpu).items()
        if name
        in (
            "test_no_ecc_errors",
            "test_max_clocks_match",
            "test_not_throttled",
            "test_no_memory_repair_is_due",
            "test_pcie_links_are_full",
        )
    },
    "mounts": (
        test_storage.test_is_mounted,
        MOUNTS,
        MOUNT_LINES,
        {"node": SimpleNamespace(name="w0"), "cluster": SimpleNamespace(storage=[HOME])},
    ),
}


@pytest.mark.parametrize("case", SICK_CASES)
def test_fault_never_passes_through_damage(case):
    """Unless the line of the faulty GPU is missing: then the count of GPUs fails."""
    check, probe, text, given = SICK_CASES[case]
    assert verdict_of(check, answers_of({probe: text}), **given)[0] is FAILED
    for damaged in damages(text, most=200):
        verdict = verdict_of(check, answers_of({probe: damaged.text}), **given)[0]
        if verdict is PASSED and probe is GPUS:
            verdict = verdict_of(test_gpu.test_count_matches_plan, answers_of({probe: damaged.text}), **given)[0]
        assert verdict in (FAILED, UNKNOWN), damaged.what


def test_drained_node_stays_unusable_through_damage():
    for damaged in damages(NODE_LINES, most=200):
        try:
            nodes = NODES.parse(damaged.text)
        except (ValueError, UndeterminedError):
            continue
        for name, usable in (("n0", PASSED), ("n1", FAILED), ("n2", PASSED)):
            if name not in nodes:
                continue
            verdict = verdict_of(test_slurm.test_node_is_usable, {}, node=None, slurm_node=nodes[name])[0]
            assert verdict in (usable, UNKNOWN), (damaged.what, name)
