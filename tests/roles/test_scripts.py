"""What roles write or do for hardware that no test has, run against made-up device files and stand-ins for the tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

from .conftest import stand_ins

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
ROCE = PROJECT / "tests" / "golden" / "roles" / "stack" / "debian0" / "usr" / "local" / "libexec" / "rackwright" / "roce"

RXE = PROJECT / "tests" / "golden" / "roles" / "vm" / "worker0" / "usr" / "local" / "libexec" / "rackwright" / "roce"


def stand_in(folder: Path, name: str, body: str) -> None:
    """A program that answers in another's name."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


class Cards:
    """Two network cards as the kernel shows them, and what their tools were asked."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.asked = folder / "class", folder / "asked"
        for number in range(2):
            device = self.sys / "infiniband" / f"mlx5_{number}"
            for path in (device / "tc/1/traffic_class", device / "device/sriov_numvfs", device / "device/net" / f"eth{number}" / "x"):
                path.parent.mkdir(parents=True)
                path.write_text("0")
            for side in ("roce_np", "roce_rp"):
                (self.sys / "net" / f"eth{number}" / "ecn" / side / "enable").mkdir(parents=True)
        for tool in ("mlnx_qos", "cma_roce_mode", "cma_roce_tos"):
            stand_in(folder / "bin", tool, f'echo {tool} "$@" >> {self.asked}')
        self.script = folder / "roce"
        self.script.write_text(ROCE.read_text().replace("/sys/class", str(self.sys)))
        self.environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}

    def run(self, verb: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(self.script), verb], capture_output=True, text=True, check=False, env=self.environment)


@pytest.fixture
def cards(tmp_path: Path) -> Cards:
    return Cards(tmp_path)


def test_every_device_is_marked_stopped_and_divided(cards: Cards) -> None:
    done = cards.run("apply")
    assert done.returncode == 0, done.stderr
    assert cards.asked.read_text().splitlines() == [
        line
        for number in range(2)
        for line in (
            f"mlnx_qos -i eth{number} --trust=dscp --pfc=0,0,0,1,0,0,0,0",
            f"cma_roce_mode -d mlx5_{number} -p 1 -m 2",
            f"cma_roce_tos -d mlx5_{number} -t 106",
        )
    ]
    for number in range(2):
        device = cards.sys / "infiniband" / f"mlx5_{number}"
        assert [(device / path).read_text().strip() for path in ("tc/1/traffic_class", "device/sriov_numvfs")] == ["106", "4"]
        assert (cards.sys / "net" / f"eth{number}" / "ecn/roce_np/enable/3").read_text().strip() == "1"


def test_another_mark_and_another_number_of_functions_are_seen(cards: Cards) -> None:
    cards.run("apply")
    for number in range(2):  # As mlx5's traffic_class_show prints it; rules of its own may follow.
        (cards.sys / "infiniband" / f"mlx5_{number}" / "tc/1/traffic_class").write_text("Global tclass=106\nsrc_ip=10.0.0.1 tclass=4\n")
    assert cards.run("check").returncode == 0
    functions = cards.sys / "infiniband/mlx5_1/device/sriov_numvfs"
    functions.write_text("2")
    assert "mlx5_1: 2 virtual functions, 4 are declared" in cards.run("check").stderr
    functions.write_text("4")
    for other in ("Global tclass=0\n", "Global tclass=1060\n", "src_ip=10.0.0.1 tclass=106\n", ""):
        (cards.sys / "infiniband/mlx5_0/tc/1/traffic_class").write_text(other)
        assert "mlx5_0: packets are not marked with 106" in cards.run("check").stderr


def test_a_device_that_is_not_there_is_an_error(cards: Cards) -> None:
    cards.script.write_text(cards.script.read_text().replace("mlx5_1'", "mlx5_7'"))
    done = cards.run("apply")
    assert done.returncode == 1 and "mlx5_7: there is no such device" in done.stderr


class Rails:
    """Two cards of a virtual machine; a stand-in for `rdma` creates and deletes devices as the kernel shows them."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.conf, self.asked = folder / "class", folder / "conf", folder / "asked"
        for card in ("eth1", "eth2"):
            (self.sys / "net" / card).mkdir(parents=True)
            (self.conf / card).mkdir(parents=True)
            for setting in ("arp_ignore", "arp_announce"):
                (self.conf / card / setting).write_text("0\n")
        devices = self.sys / "infiniband"
        devices.mkdir()
        added = f'add) mkdir "{devices}/$3" && echo "$7" > "{devices}/$3/parent" ;;'
        stand_in(folder / "bin", "rdma", f'echo rdma "$@" >> {self.asked}; case $2 in {added} delete) rm -r "{devices}/$3" ;; esac')
        stand_in(folder / "bin", "modprobe", f'echo modprobe "$@" >> {self.asked}')
        self.script = folder / "rxe"
        text = RXE.read_text().replace("/sys/class", str(self.sys)).replace("/proc/sys/net/ipv4/conf", str(self.conf))
        self.script.write_text(text)
        self.environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}

    def run(self, verb: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(self.script), verb], capture_output=True, text=True, check=False, env=self.environment)

    def parents(self) -> dict[str, str]:
        """Device -> its card."""
        return {path.name: (path / "parent").read_text().strip() for path in (self.sys / "infiniband").iterdir()}


@pytest.fixture
def rails(tmp_path: Path) -> Rails:
    return Rails(tmp_path)


def test_each_rail_gets_its_device_once(rails: Rails) -> None:
    for _ in range(2):
        done = rails.run("apply")
        assert done.returncode == 0, done.stderr
    assert rails.parents() == {"rxe0": "eth1", "rxe1": "eth2"}
    assert [line for line in rails.asked.read_text().splitlines() if line.startswith("rdma")] == [
        "rdma link add rxe0 type rxe netdev eth1",
        "rdma link add rxe1 type rxe netdev eth2",
    ]
    assert rails.asked.read_text().startswith("modprobe -a rdma_rxe rdma_ucm\n")
    assert rails.run("check").returncode == 0


def test_device_on_another_card_moves(rails: Rails) -> None:
    rails.run("apply")
    (rails.sys / "infiniband/rxe1/parent").write_text("eth0\n")
    found = rails.run("check")
    assert found.returncode == 1 and "rxe1: it is on eth0 and belongs on eth2" in found.stderr
    assert rails.run("apply").returncode == 0
    assert rails.parents() == {"rxe0": "eth1", "rxe1": "eth2"}


@pytest.mark.parametrize(("setting", "value"), [("arp_ignore", "0"), ("arp_announce", "1")])
def test_card_that_answers_for_other_rails_is_found(rails: Rails, setting: str, value: str) -> None:
    rails.run("apply")
    (rails.conf / "eth2" / setting).write_text(f"{value}\n")
    found = rails.run("check")
    assert found.returncode == 1 and "eth2: it answers for the addresses of other rails" in found.stderr


def test_missing_device_is_found(rails: Rails) -> None:
    found = rails.run("check")
    assert found.returncode == 1 and "rxe0: there is no such device; it belongs on eth1" in found.stderr


def test_missing_card_is_an_error(rails: Rails) -> None:
    (rails.sys / "net/eth2").rmdir()
    found = rails.run("apply")
    assert found.returncode == 1 and "rxe1: there is no interface eth2" in found.stderr


SIZE = 16 * 2**20


class Targets:
    """Files in place of devices; `mkfs.lustre` records its arguments, `tunefs.lustre` prints what a device holds.

    Modules of the collection change nothing: one of them would write to /etc of this machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, folder / "asked"
        self.asked.touch()
        stand_in(folder / "bin", "mkfs.lustre", f'echo "$@" >> {self.asked}')
        stand_in(folder / "bin", "tunefs.lustre", 'cat "$2.target" 2>/dev/null || { echo no target >&2; exit 2; }')

    def device(self, name: str, content: str = "") -> str:
        """A device: empty, with a foreign file system, or with a target."""
        path = self.folder / name
        with path.open("wb") as stream:
            stream.truncate(SIZE)
        if content:
            subprocess.run(["mkfs.ext4", "-q", str(path)], check=True)
        if "Target:" in content:
            Path(f"{path}.target").write_text(content)
        return str(path)

    def configure(self, *targets: dict[str, Any], **more: Any) -> tuple[int, str]:
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        given = {"lustre_server_targets": list(targets), "lustre_server_mgs": ["10.0.0.1@o2ib"], "node": {"name": "oss0", "os": "rocky-9"}}
        (self.folder / "vars.json").write_text(json.dumps({**local, "cluster": {"preinstalled_roles": []}, **given, **more}))
        done = ansible_runner.run(
            private_data_dir=str(self.folder / "runner"),
            playbook=str(HERE / "lustre.yml"),
            inventory="oss0,",
            cmdline=f"-e @{self.folder / 'vars.json'}",
            envvars={
                "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": stand_ins(self.folder),
                "ANSIBLE_STRATEGY": "unforked",
                "ANSIBLE_STRATEGY_PLUGINS": str(HERE / "strategy_plugins"),
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            },
            quiet=True,
        )
        return done.rc, " ".join(done.stdout.read().split())


@pytest.fixture
def targets(tmp_path: Path) -> Targets:
    (tmp_path / "runner").mkdir()
    return Targets(tmp_path)


def test_empty_devices_become_targets_where_somebody_said_so(targets: Targets) -> None:
    meta = {"device": targets.device("meta"), "kind": "mgs+mdt", "index": 0, "mount": "/lustre/mdt0"}
    data = {"device": targets.device("data"), "kind": "ost", "index": 3, "mount": "/lustre/ost3"}
    code, said = targets.configure(meta, data)
    assert code != 0 and "lustre_server_format_empty_devices: true" in said, said
    assert targets.asked.read_text() == ""
    code, said = targets.configure(meta, data, lustre_server_format_empty_devices=True)
    assert code == 0, said
    assert targets.asked.read_text().splitlines() == [
        f"--fsname=lustre --mgs --mdt --index=0 {meta['device']}",
        f"--fsname=lustre --ost --mgsnode=10.0.0.1@o2ib --index=3 {data['device']}",
    ]


def test_one_device_with_something_else_keeps_all_from_being_written_to(targets: Targets) -> None:
    empty = {"device": targets.device("empty"), "kind": "ost", "index": 0, "mount": "/lustre/ost0"}
    taken = {"device": targets.device("taken", "somebody's"), "kind": "ost", "index": 1, "mount": "/lustre/ost1"}
    code, said = targets.configure(empty, taken, lustre_server_format_empty_devices=True)
    assert code != 0 and "holds ext4 and is not a target of lustre - nothing was written to any device" in said, said
    assert targets.asked.read_text() == ""


TOLD = "   Read previous values:\nTarget:     {}\nIndex:      0\n{}Mount type: ldiskfs\nFlags:      0x62\n"
"""What tunefs.lustre --dryrun says of a target."""
NAMED = "Lustre FS:  {}\n"


def on_devices(targets: Targets, *told: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Targets of a kind on devices that tunefs.lustre tells so of: target, and line of the file system."""
    return [
        {
            "device": targets.device(f"{kind}-{words[0]}-{number}", TOLD.format(*words)),
            "kind": kind,
            "index": 0,
            "mount": f"/lustre/{number}",
        }
        for number, (kind, *words) in enumerate(told)
    ]


def test_a_target_is_known_again_before_its_first_mount_and_a_management_server_without_a_name(targets: Targets) -> None:
    """The name of a target is parted by `:` until it has registered, by `=` after writeconf, by `-` else; an MGS's own name is MGS."""
    ours = NAMED.format("lustre")
    code, said = targets.configure(
        *on_devices(targets, ("mgs", "MGS", ours), ("mgs", "MGS", NAMED.format("")), ("mgs", "MGS", "")),
        *on_devices(targets, ("mgs+mdt", "lustre:MDT0000", ours), ("ost", "lustre=OST0000", ours), ("ost", "lustre-OST0000", ours)),
    )
    assert code == 0, said
    assert targets.asked.read_text() == ""


def test_a_target_of_another_kind_or_of_another_file_system_is_refused(targets: Targets) -> None:
    ours = NAMED.format("lustre")
    others = on_devices(
        targets,
        ("mgs", "MGS", NAMED.format("scratch")),
        ("mgs", "lustre-OST0000", ours),
        ("ost", "MGS", ours),
        ("ost", "otherlustre-OST0000", NAMED.format("otherlustre")),
        ("ost", "lustre-MDT0000", ours),
    )
    code, said = targets.configure(*others)
    assert code != 0 and [other for other in others if f"{other['device']}: holds" not in said] == [], said
    assert targets.asked.read_text() == ""


def test_a_target_of_this_file_system_is_left_as_it_is_and_one_of_another_is_refused(targets: Targets) -> None:
    ours = {"device": targets.device("ours", "Target: lustre-OST0000"), "kind": "ost", "index": 0, "mount": "/lustre/ost0"}
    other = {"device": targets.device("other", "Target: scratch-OST0000"), "kind": "ost", "index": 0, "mount": "/lustre/ost1"}
    assert targets.configure(ours, lustre_server_format_empty_devices=True)[0] == 0
    code, said = targets.configure(ours, other, lustre_server_format_empty_devices=True)
    assert code != 0 and "is not a target of lustre" in said, said
    assert targets.asked.read_text() == ""
