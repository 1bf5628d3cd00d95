"""`rackwright fabric`, as a person and as a program meet it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.inventory import paths
from rackwright.plan import expand
from rackwright.plan.fabric import description, wiring
from rackwright.plan.fabric.netlist import port_guids
from rackwright.stackfile.load import load_stack


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rackwright fabric` in this process."""

    def once(*arguments: str | Path) -> CliResult:
        return run_cli(monkeypatch, capsys, "fabric", *map(str, arguments))

    return once


def discovered(stack: str | Path = "lab", *, without: tuple[str, ...] = (), swapped: tuple[str, str] | None = None, slow: str = "") -> str:
    """What `ibnetdiscover -p` prints of a stack's planned fabric; some cables missing, a pair swapped, one at another speed."""
    cluster = load_stack(stack if isinstance(stack, Path) else paths.stack_file(stack)).cluster
    assert cluster is not None
    plan = expand(cluster, "discovered")
    assert plan.fabric is not None
    cables = {cable.device + f":{cable.port}": cable for cable in wiring(plan).cables}
    if swapped:
        one, other = (f"{device}:1" for device in swapped)
        cables[one], cables[other] = (
            cables[one]._replace(switch=cables[other].switch, switch_port=cables[other].switch_port),
            cables[other]._replace(switch=cables[one].switch, switch_port=cables[one].switch_port),
        )
    guids = port_guids(plan)
    lines = [f"SW 13 64 {guids['leaf-su1-r7']:#018x} 4x SDR                                     'leaf-su1-r7'"]
    for cable in cables.values():
        if cable.device in without:
            continue
        kind = "CA" if "/" in cable.device else "SW"
        one, other = f"{kind} 27 {cable.port} {guids[cable.device]:#018x}", f"SW 13 {cable.switch_port} {guids[cable.switch]:#018x}"
        width = plan.fabric.width if kind == "CA" else plan.fabric.switch_width
        rate = f"{width} NDR" if cable.device != slow else f"{width} HDR" if width == "4x" else "1x NDR"
        here, there = description(cable.device), cable.switch
        lines += [f"{one} {rate} - {other} ( '{here}' - '{there}' )", f"{other} {rate} - {one} ( '{there}' - '{here}' )"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A file for what was discovered."""
    return tmp_path / "discovered"


def diff(run: Run, file: Path, text: str, *more: str) -> CliResult:
    file.write_text(text)
    return run("diff", "lab", str(file), *more)


def test_the_plan_says_what_growth_costs(run: Run) -> None:
    ended = run("plan", "rack-h100")
    assert ended.code == 0
    assert "bisection                102.4 Tb/s  409.6 Tb/s" in ended.out
    assert "planned for 256 nodes: 48 switches now; 24 suffice for the current nodes" in ended.out
    assert [row.split() for row in ended.out.splitlines() if row.startswith(("64 ", "128 ", "256 "))] == [
        ["64", "nodes", "48", "1024", "0", "0"],
        ["128", "nodes", "64", "2048", "1024", "0"],
        ["256", "nodes", "96", "4096", "2048", "0"],
    ]


def test_the_plan_for_programs(run: Run) -> None:
    told = json.loads(run("plan", "rack-h100", "--json", "--nodes", "128").out)
    assert (told["schema"], told["stack"]) == ("rackwright.fabric/1", "rack-h100")
    assert told["room"] == {"switches": 48, "alone": 24, "moved": 511}
    assert told["with"]["cables_to_nodes"] == 1024 and told["full"]["bisection_gbps"] == 409600
    assert [step["moved"] for step in told["growth"]] == [0, 0, 0]
    assert told["positions"]["leaf-su3-r0"] == {"rack": "n02", "unit": 1}


def test_cables_are_csv_and_json(run: Run) -> None:
    listed = list(csv.DictReader(io.StringIO(run("cables", "lab").out)))
    told = json.loads(run("cables", "lab", "--json").out)["cables"]
    assert len(listed) == len(told) == 81
    assert listed[0]["from_device"] == told[0]["from_device"] == "worker0/mlx5_0"
    grown = list(csv.DictReader(io.StringIO(run("cables", "lab", "--nodes", "3").out)))
    assert [row["from_device"] for row in grown if row["state"] == "added"] == [f"worker2/mlx5_{rail}" for rail in range(8)]


def test_a_picture_is_printed_or_written(run: Run, tmp_path: Path) -> None:
    drawn = run("svg", "lab").out
    assert drawn.startswith("<svg ")
    assert run("svg", "lab", "-o", str(tmp_path / "fabric.svg")).code == 0
    assert (tmp_path / "fabric.svg").read_text() == drawn
    refused = run("svg", "lab", "-o", str(tmp_path / "nowhere" / "fabric.svg"))
    assert (refused.code, refused.out) == (2, "") and "pass a file in a writable folder" in refused.err


def test_a_fabric_as_planned_differs_in_nothing(run: Run, found: Path) -> None:
    assert diff(run, found, discovered()) == CliResult(0, "all 81 cables are connected as planned\n", "")
    managed = discovered().replace("'leaf-su1-r3'", "'MF0;leaf-su1-r3:MQM9700/U1'")
    assert diff(run, found, managed).code == 0


def test_what_is_missing_swapped_or_slow_is_named(run: Run, found: Path) -> None:
    text = discovered(without=("worker1/mlx5_2",), swapped=("worker0/mlx5_6", "worker0/mlx5_7"), slow="worker1/mlx5_0")
    ended = diff(run, found, text)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "worker0/mlx5_6:1 is connected to leaf-su1-r7:1 (expected leaf-su1-r6:1)",
        "worker0/mlx5_7:1 is connected to leaf-su1-r6:1 (expected leaf-su1-r7:1)",
        "worker1/mlx5_0:1 - leaf-su1-r0:2 runs at 4x HDR",
        "worker1/mlx5_2:1 - leaf-su1-r2:2 is missing",
    ]
    told = json.loads(diff(run, found, text, "--json").out)
    assert [row["kind"] for row in told["differences"]] == ["moved", "moved", "slow", "missing"]


def test_links_of_split_ports_have_half_the_lanes(run: Run, found: Path, tmp_path: Path) -> None:
    """Those between switches have all, and a link of one lane is slow."""
    stack = tmp_path / "Pulumi.half.yaml"
    stack.write_text(paths.stack_file("rack-h100").read_text().replace("max_nodes: 256", "rate: NDR200"))
    found.write_text(discovered(stack))
    ended = run("diff", str(stack), str(found))
    assert (ended.code, ended.out) == (0, "all 768 cables are connected as planned\n")
    found.write_text(discovered(stack, slow="worker1/mlx5_0").replace("4x NDR", "2x NDR"))
    slow = run("diff", str(stack), str(found)).out.splitlines()
    assert slow[0] == "worker1/mlx5_0:1 - leaf-su1-r0:2 runs at 1x NDR"
    assert slow[1] == "leaf-su1-r0:65 - spine-01:1 runs at 2x NDR" and slow[-1] == "and 217 more"


def test_link_of_other_device_is_listed(run: Run, found: Path) -> None:
    lines = discovered().splitlines()
    leaf = next(line.split()[3] for line in lines if line.startswith("SW") and "( 'leaf-su1-r1' - " in line)
    one, other = f"CA 99 1 0x{'2' * 16}", f"SW 13 40 {leaf}"
    text = f"{one} 4x NDR - {other} ( 'stranger mlx5_0' - 'leaf-su1-r1' )\n{other} 4x NDR - {one} ( 'leaf-su1-r1' - 'stranger mlx5_0' )\n"
    ended = diff(run, found, discovered() + text)
    listed = f'1 link(s) of devices outside the plan, at free ports: "stranger mlx5_0" 0x{"2" * 16}:1'
    assert (ended.code, ended.out.splitlines()[1:]) == (0, [listed])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "contains no link"),
        ("ibwarn: [12] mad_rpc: timed out\n", "contains no link: ibwarn: [12] mad_rpc: timed out"),
        ("Cluster fabric:\n", "line 1 is not output of `ibnetdiscover -p`"),
        (discovered().splitlines()[1] + "\n", "the output is incomplete"),
    ],
)
def test_a_file_that_does_not_tell_is_no_verdict(run: Run, found: Path, text: str, cause: str) -> None:
    ended = diff(run, found, text)
    assert (ended.code, ended.out) == (3, "")
    assert cause in ended.err and "run `ibnetdiscover -p` again" in ended.err


def test_simulated_devices_are_known_by_the_guids_of_the_plan(run: Run, found: Path) -> None:
    assert diff(run, found, re.sub(r"'[^']*'", "''", discovered())) == CliResult(0, "all 81 cables are connected as planned\n", "")


def test_devices_that_nothing_identifies_are_no_verdict(run: Run, found: Path, tmp_path: Path) -> None:
    """Of a real fabric, whose GUIDs the plan does not have."""
    text, missing = discovered("rack-h100", without=("worker1/mlx5_2",)), "worker1/mlx5_2:1 - leaf-su1-r2:2 is missing\n"
    unnamed = re.sub(r"'spine-\d+'", "'SwitchIB Mellanox Technologies'", text).replace("worker0 mlx5_3", "worker0 HCA-4")
    names = tmp_path / "ib-node-name-map"
    lines = (re.match(r"\S+ \d+ \d+ (0x\S+) .*\( '(.*?)' - ", line) for line in text.splitlines())
    names.write_text("".join(f'{line[1]} "{line[2]}"\n' for line in lines if line))
    found.write_text(unnamed)
    ended = run("diff", "rack-h100", str(found))
    assert (ended.code, ended.out) == (3, missing)
    assert "32 switches have neither a name nor a GUID of the plan" in ended.err and "--node-name-map" in ended.err
    mapped = run("diff", "rack-h100", str(found), "--node-name-map", str(names))
    assert (mapped.code, mapped.out) == (1, missing)
    refused = run("diff", "rack-h100", str(found), "--node-name-map", str(found))
    assert refused.code == 2 and "is not a line of a node-name map" in refused.err


def test_adapters_are_known_by_the_guids_that_nodes_report(run: Run, found: Path, tmp_path: Path) -> None:
    """Those that no node reports stay unknown, and what reads no GUID is refused."""
    text = discovered("rack-h100", without=("worker1/mlx5_2",))
    found.write_text(re.sub(r"'worker(\d+) mlx5_(\d)'", "'worker HCA'", text))
    ports = tmp_path / "ibstat"
    lines = (re.match(r"CA \d+ \d+ 0x(\S+) .*\( '(worker\d+) (mlx5_\d)' - ", line) for line in text.splitlines())
    blocks = [
        f"{line[2]}.example.org: CA '{line[3]}'\n{line[2]}.example.org: \tCA type: MT4129\n{line[2]}.example.org: \tPort 1:\n"
        f"{line[2]}.example.org: \t\tPort GUID: 0x{line[1]}\n"
        for line in lines
        if line
    ]
    ports.write_text("".join(blocks))
    ended = run("diff", "rack-h100", str(found), "--ports", str(ports))
    assert (ended.code, ended.out) == (1, "worker1/mlx5_2:1 - leaf-su1-r2:2 is missing\n")
    ports.write_text("".join(block for block in blocks if not block.startswith("worker7.")))
    ended = run("diff", "rack-h100", str(found), "--ports", str(ports))
    assert ended.code == 3 and "8 planned cables cannot be compared" in ended.err and "--ports" in ended.err
    assert run("diff", "rack-h100", str(found)).code == 3
    refused = run("diff", "rack-h100", str(found), "--ports", str(found))
    assert refused.code == 2 and "contains no port GUID of a node" in refused.err


def test_bad_input_is_told(run: Run, found: Path) -> None:
    for arguments, cause in (
        (("plan", "lab-small"), "stack lab-small has no fabric"),
        (("diff", "lab", str(found)), "No such file"),
        (("plan", "lab", "--nodes", "9"), "planned for 8"),
        (("cables", "lab", "--nodes", "1"), "already has 2"),
    ):
        ended = run(*arguments)
        assert (ended.code, ended.out) == (2, ""), ended
        assert cause in ended.err
