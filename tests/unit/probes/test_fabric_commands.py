"""Commands of the fabric's probes with stand-ins for the tools and for the kernel's folders."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.probes import fabric_commands
from rackwright.checks.cluster.probes.fabric import LINKS, MANAGER, PORTS, parse_manager, parse_ports
from rackwright.checks.cluster.probes.fabric_commands import unpacked
from rackwright.checks.cluster.probes.fabric_errors import COUNTERS

RAILS = ["mlx5_0", "mlx5_1", "mlx5_2"]
UP = ("InfiniBand", "4: ACTIVE", "5: LinkUp")


def place(*rails, simulated=False, cables=3):
    fabric = {"simulated": simulated, "cables": ["worker0/mlx5_0:1 leaf-01:1"] * cables}
    return SimpleNamespace(node={"rails": rails or RAILS}, declared=SimpleNamespace(fabric=fabric))


@pytest.fixture
def node(tmp_path):
    """Run a command on a node with these tools and ports: name -> link layer, state, physical state."""

    def run(command, tools, ports=None):
        folder = tmp_path / "infiniband"
        for name, cells in (ports or {}).items():
            port = folder / name / "ports" / "1"
            port.mkdir(parents=True, exist_ok=True)
            for file, cell in zip(("link_layer", "state", "phys_state"), cells, strict=True):
                (port / file).write_text(f"{cell}\n")
        for name, script in tools.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        command = command.replace("/sys/class/infiniband", str(folder)).replace("/etc/rackwright", str(tmp_path))
        return subprocess.run(
            ["/bin/sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
        )

    return run


SMINFO = """case "$2" in
  mlx5_2) echo "sminfo: sm lid 1 sm guid 0xb2, activity count 9 priority 14 state 3 SMINFO_MASTER" ;;
  *) echo "sminfo: sm lid 1 sm guid 0xb1, activity count 9 priority 14 state 3 SMINFO_MASTER" ;;
esac"""


@pytest.mark.parametrize("probe", [LINKS, COUNTERS], ids=["links", "errors"])
def test_warnings_come_before_the_output(probe, node):
    """In one pipe, a warning interrupts a line whenever the output buffer is full."""
    command = probe.command_at(place(simulated=True))
    tool = "ibnetdiscover" if probe is LINKS else "ibqueryerrors"
    script = "printf 'first line, ca'\necho warning >&2\nprintf 'rried on\\nlast\\n'\nexit 1"
    done = node(command, {tool: script})
    assert (done.returncode, done.stdout, done.stderr) == (0, "warning\nfirst line, carried on\nlast\n", "")
    assert node(command, {tool: "exit 255"}).stdout == "\n== fabric ended with status 255\n"


@pytest.mark.parametrize(
    ("ports", "asked"),
    [
        (dict.fromkeys(RAILS, UP), ["mlx5_0", "mlx5_2"]),
        ({"mlx5_0": ("InfiniBand", "1: DOWN", "2: Polling"), "mlx5_1": UP}, ["mlx5_1"]),
        ({"mlx5_0": ("Ethernet", "4: ACTIVE", "5: LinkUp"), "mlx5_1": UP}, ["mlx5_1"]),
        ({"mlx5_0": ("InfiniBand", "1: DOWN", "3: Disabled"), "mlx5_1": ("InfiniBand", "2: INIT", "5: LinkUp")}, ["mlx5_1"]),
        ({}, ["mlx5_0"]),
    ],
    ids=["two subnets", "first down", "first Ethernet", "no subnet manager", "no adapter"],
)
def test_fabric_is_queried_through_active_rails(ports, asked, node):
    """Once for each subnet; adapters outside the plan are not used."""
    tools = {"ibnetdiscover": 'echo "$*"', "sminfo": SMINFO}
    done = node(LINKS.command_at(place()), tools, {"mlx5_storage": UP, **ports})
    assert done.stdout.splitlines() == [f"-p -C {name} -P 1" for name in asked]


def test_baseline_follows_the_counters(node, tmp_path):
    command, tools = COUNTERS.command_at(place(simulated=True)), {"ibqueryerrors": "echo counters; exit 1"}
    assert node(command, tools).stdout == "counters\n"
    (tmp_path / "fabric-errors.baseline").write_text("earlier\n")
    assert node(command, tools).stdout == "counters\n== baseline\nearlier\n"


def test_missing_tool_is_reported(node):
    assert {node(probe.command_at(place()), {}).returncode for probe in (LINKS, COUNTERS, MANAGER)} == {127}


def test_each_subnet_needs_a_manager(node):
    good = node(MANAGER.command_at(place()), {"sminfo": SMINFO}, dict.fromkeys(RAILS, UP)).stdout
    assert parse_manager(good).state == "MASTER"
    gone = SMINFO.replace("mlx5_2)", "mlx5_2) echo 'sminfo: iberror: failed: query' >&2; exit 255;; never)")
    assert parse_manager(node(MANAGER.command_at(place()), {"sminfo": gone}, dict.fromkeys(RAILS, UP)).stdout) is None
    standby = good.replace("state 3 SMINFO_MASTER\nsminfo", "state 2 SMINFO_STANDBY\nsminfo")
    assert parse_manager(standby).state == "STANDBY"


def test_long_output_is_packed(node, monkeypatch):
    monkeypatch.setattr(fabric_commands, "_LONGEST", 100)
    script = 'for number in 1 2 3 4 5 6 7 8 9; do echo "row $number of a large fabric"; done'
    said = node(LINKS.command_at(place(simulated=True)), {"ibnetdiscover": script}).stdout
    assert "large" not in said and unpacked(said).splitlines()[-1] == "row 9 of a large fabric"
    with pytest.raises(ValueError, match="packed output is damaged"):
        unpacked(said[:-20])


def test_time_limit_grows_with_the_fabric():
    assert (LINKS.timeout_at(place(cables=50)), LINKS.timeout_at(place(cables=5000))) == (8.1, 18)
    assert COUNTERS.timeout_at(place(cables=5000)) == 58
    assert PORTS.timeout_at(place()) == PORTS.timeout


BLOCK = "CA '%s'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
OLD = f"""show() {{ if [ "$1" = mlx5_1 ]; then echo "ibpanic: [7] main: stat of IB device '$1' failed: Invalid argument" >&2; exit 255; fi
printf "{BLOCK}" "$1"; }}
case "$1" in -l) echo mlx5_0; echo mlx5_1; echo mlx5_2 ;; '') show mlx5_0; show mlx5_1; show mlx5_2 ;; *) show "$1" ;; esac"""
"""ibstat before rdma-core 54, which ends at the first adapter that it cannot read."""


def test_ibstat_reads_adapters_behind_an_unreadable_one(node):
    done = node(PORTS.command_at(place()), {"ibstat": OLD}, dict.fromkeys(RAILS, UP))
    ports = {port.adapter: str(port.state) for port in parse_ports(done.stdout)}
    assert (done.returncode, ports) == (0, {"mlx5_0": "Active", "mlx5_1": "unknown", "mlx5_2": "Active"})


def test_node_without_adapters_is_no_error(node):
    lost = 'echo "ibpanic: [7] main: can\'t list IB device names: No such file or directory" >&2; exit 255'
    done = node(PORTS.command_at(place()), {"ibstat": lost})
    assert (done.returncode, parse_ports(done.stdout)) == (0, ())
    assert node(PORTS.command_at(place()), {"ibstat": lost}, dict.fromkeys(RAILS, UP)).returncode == 255
