"""Odd but valid answers, and answers damaged in one place: the verdict, while all other values are judged as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.checks import acceptance
from rackwright.checks.acceptance.evaluators import collectives, health
from rackwright.checks.acceptance.parsers import dcgm, nccl, nccl_log
from rackwright.checks.acceptance.phase import guarded
from rackwright.checks.cluster import test_node, test_slurm, test_storage
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, decimal, integer
from rackwright.checks.cluster.probes.gpu_topology import read_matrix
from rackwright.checks.cluster.probes.identity import (
    IDENTITY,
    RESOLVED,
    SPACE,
    parse_df,
    parse_identity,
    parse_resolved,
    parse_system_state,
)
from rackwright.checks.cluster.probes.slurm import parse_nodes
from rackwright.checks.cluster.probes.slurm_states import STATES, is_working, states_of
from rackwright.checks.cluster.probes.storage import MOUNTS, parse_mounts, parse_nfs_server
from rackwright.checks.cluster.probes.units import parse_units
from rackwright.checks.hardware import parsers as hardware
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


class TestValues:
    def test_unread_value_is_no_value(self):
        """No check passes with such a value."""
        value = UnreadableValue("fan", "ERR!", "0, ERR!")
        for use in (
            *(lambda: value == 3, lambda: value < 3, lambda: not value, lambda: value + 1, lambda: int(value)),
            *(lambda: sorted(value), lambda: len(value), lambda: 3 in value, lambda: value["name"]),
        ):
            with pytest.raises(UndeterminedError, match='fan is "ERR!" in the line "0, ERR!"'):
                use()

    @pytest.mark.parametrize("cell", ["", "1.980", "1,980", "12x", "0x10", "1.5", "nan", "inf", "--", "1e400"])
    def test_non_integer_cell_is_unread(self, cell):
        with pytest.raises((ValueError, OverflowError)):
            integer(cell)

    @pytest.mark.parametrize("cell", ["", "1,234", "1.234,5", "nan", "inf", "10.25 GB/s"])
    def test_non_numeric_cell_is_unread(self, cell):
        with pytest.raises(ValueError):
            decimal(cell)

    def test_fault_outweighs_unread_value(self):
        blind = UnreadableValue("b", "?", "b ?")
        with pytest.raises(UndeterminedError):
            Expect()({"a": 1, "b": blind}, {"a": 1, "b": 2})
        with pytest.raises(Mismatch, match="expected a: 1, found a: 3"):
            Expect()({"a": 3, "b": blind}, {"a": 1, "b": 2})
        with pytest.raises(Mismatch):
            Expect()({"x", blind}, {"y"})
        with pytest.raises(UndeterminedError):
            Expect()({"y", blind}, {"y"})
        with pytest.raises(UndeterminedError):
            Expect()(blind, 5)

    def test_missing_name_beside_unread_line_is_unknown(self):
        found = Lines({"a": 1}, ["b|"])
        with pytest.raises(UndeterminedError, match=r"b\|"):
            Expect()(found, {"a": 1, "b": 2})
        with pytest.raises(Mismatch):
            Expect()(found, {"a": 2, "b": 2})
        with pytest.raises(Mismatch):
            Expect()(Lines({"a": 1}), {"a": 1, "b": 2})


SLURM = (
    "NodeName=n{number} Arch=x86_64 CPUAlloc=0 CPUTot=96 Gres=gpu:h200:8(S:0-1) NodeAddr=n{number} OS=Linux 6.1.0-18 #1 SMP "
    "RealMemory=1500000 Sockets=2 State={state} ThreadsPerCore=1 Partitions=gpu BootTime=2026-03-01T00:00:00{more}"
)


def slurm_node(state="IDLE", more="", number=1):
    return parse_nodes(SLURM.format(state=state, more=more, number=number) + "\n")[f"n{number}"]


def usable(state):
    return verdict_of(test_slurm.test_node_is_usable, {}, node=None, slurm_node=slurm_node(state))[0]


class TestSlurm:
    @pytest.mark.parametrize(
        "state",
        [
            "MIXED+RESERVED",
            "IDLE+CLOUD+MAINTENANCE+RESERVED",
            "IDLE+DYNAMIC_NORM",
            "FUTURE",
            "IDLE+PLANNED",
            "ALLOCATED+BLOCKED",
            "IDLE+CLOUD+POWERED_DOWN",
            "IDLE~",
            "MIXED-",
            "IDLE$",
        ],
    )
    def test_working_or_waking_node_is_usable(self, state):
        assert usable(state) is PASSED

    @pytest.mark.parametrize(
        "state", ["IDLE+DRAIN+RESERVED", "DOWN*+CLOUD", "MIXED*", "IDLE+FAIL", "IDLE+REBOOT_ISSUED", "UNKNOWN", "IDLE+INVALID_REG", "IDLE@"]
    )
    def test_node_out_of_use_is_unusable(self, state):
        assert usable(state) is FAILED

    def test_unlisted_state_is_unknown_unless_another_fails(self):
        assert usable("IDLE+HIBERNATING") is UNKNOWN
        assert usable("IDLE+DRAIN+HIBERNATING") is FAILED
        assert usable("[N/A]") is UNKNOWN

    def test_flag_of_newer_controller_hides_no_fault(self):
        assert [usable(state) for state in ("DOWN+?", "IDLE+?", "?")] == [FAILED, UNKNOWN, UNKNOWN]

    def test_times_with_blanks_hide_no_other_value(self):
        node = slurm_node("IDLE+DYNAMIC_NORM", " LastBusyTime=01 Mar 2026 07:12 Reason=bad fan [root@01 Mar 2026 07:30]")
        assert (sorted(node.states), node.reason, node.cpus) == (["DYNAMIC_NORM", "IDLE"], "bad fan [root@01 Mar 2026 07:30]", 96)

    def test_every_state_has_a_meaning(self):
        assert all(state.meaning for state in STATES.values())
        assert is_working(states_of("idle")) and not is_working(states_of("idle*"))

    @pytest.mark.parametrize("more", [" Comment=see State=DOWN CPUTot=3 ReservationName=course", " ReservationName=course", "", " Extra=x"])
    def test_reason_keeps_its_author(self, more):
        node = slurm_node("IDLE+DRAIN", f" Reason=fan 3 of 8 is loud, State=old [alice@2026-02-03T04:05:06]{more}")
        assert (node.reason, node.cpus) == ("fan 3 of 8 is loud, State=old [alice@2026-02-03T04:05:06]", 96)
        assert sorted(node.states) == ["DRAIN", "IDLE"]

    @pytest.mark.parametrize("more", ["Comment=rack 7", "Topology=tree:leaf1", "Parameters=a b", "TLSCertTokenSet=Yes"])
    def test_reason_without_author_is_read(self, more):
        assert slurm_node("DOWN", f" Reason=Not responding {more}").reason == "Not responding"

    def test_free_text_never_replaces_a_value(self):
        """A comment follows the values, also for a node without a reason."""
        node = slurm_node("IDLE", " Comment=was State=DOWN RealMemory=1")
        assert (node.states, node.memory_mib, node.reason) == ({"IDLE"}, 1500000, "")

    def test_only_the_unread_value_is_unknown(self):
        node = parse_nodes(SLURM.format(state="IDLE", more="", number=1).replace("CPUTot=96", "CPUTot=(null)") + "\r\n")["n1"]
        planned = SimpleNamespace(cpus=96, memory_mib=1500000, gpus=8, gpu_type="h200", gres=())
        verdicts = [
            verdict_of(check, {}, slurm_node=node, planned=planned)[0]
            for check in (
                test_slurm.test_node_has_planned_cpus,
                test_slurm.test_node_has_planned_memory,
                test_slurm.test_node_has_planned_gpus,
            )
        ]
        assert verdicts == [UNKNOWN, PASSED, PASSED]

    def test_warning_and_unnamed_record_are_skipped(self):
        text = "slurm_load: a warning\n" + SLURM.format(state="IDLE", more="", number=1) + "\n State=IDLE CPUTot=96\n"
        found = parse_nodes(text)
        assert list(found) == ["n1"] and isinstance(found.at("n2"), UnreadableValue)


MOUNTINFO = """29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
61 29 0:44 / /scratch/tmp rw,relatime shared:9 - tmpfs  rw,size=1g
62 29 0:45 / /home rw,nosuid,nodev,noatime shared:10 master:3 - lustre 10.1.2.3@tcp:/wxyz rw,flock
"""
HOME = SimpleNamespace(mount="/home", kind="fsx-lustre", servers=[], folder=None, clients=["w0"])


def mounted(text):
    node, cluster = SimpleNamespace(name="w0"), SimpleNamespace(storage=[HOME])
    return verdict_of(test_storage.test_is_mounted, {MOUNTS: lambda: parse_mounts(text)}, node=node, cluster=cluster)


class TestStorage:
    def test_file_system_without_source_is_read(self):
        assert parse_mounts(MOUNTINFO)["/scratch/tmp"].source == ""
        assert mounted(MOUNTINFO)[0] is PASSED

    @pytest.mark.parametrize("line", ["63 29", "63 29 0:46 / /mnt/x rw,relatime", "63 29 0:46 / /mnt/x rw - nfs4", "a warning"])
    def test_odd_line_hides_no_other_mount(self, line):
        assert mounted(f"{line}\n{MOUNTINFO}")[0] is PASSED

    @pytest.mark.parametrize(("options", "expected"), [("rw", False), ("ro", True)])
    def test_blank_in_options_of_the_file_system(self, options, expected):
        """9p of WSL escapes the blanks of its source and not those of its options; one `ro` still counts."""
        row = (
            f"63 29 0:38 / /mnt/c rw,noatime - 9p C:\\134My\\040Files dirsync,path=C:\\My Files;symlinkroot=/mnt/,{options},trans=virtio\n"
        )
        found = parse_mounts(MOUNTINFO + row)
        assert (found.unread, found["/mnt/c"].source, "ro" in found["/mnt/c"].effective) == ((), "C:\\My Files", expected)

    def test_unread_mount_is_unknown_and_missing_mount_fails(self):
        verdict, reason = mounted(MOUNTINFO.replace(" - lustre", " lustre"))
        assert (verdict, "10.1.2.3@tcp:/wxyz" in reason) == (UNKNOWN, True)
        assert mounted("".join(MOUNTINFO.splitlines(keepends=True)[:2]))[0] is FAILED

    def test_mount_in_truncated_line_is_unknown(self):
        assert mounted(MOUNTINFO[:-30])[0] is UNKNOWN

    def test_unread_export_leaves_the_others(self):
        server = parse_nfs_server("8\n+4.2 -3\n/srv/a 10.0.0.0/8(rw,sync)\n/srv/b 10.0.0.0/8(rw\n")
        assert (list(server.exports), server.unread) == (["/srv/a"], ("/srv/b 10.0.0.0/8(rw",))


IDENTIFIED = 'hostname=w0\nmachine_id=4f\nzone=/usr/share/zoneinfo/Etc/UTC\nID="{}"\nVERSION_ID="{}"\n'


def judged_node(check, text, **more):
    answers = {IDENTITY: lambda: parse_identity(text), SPACE: lambda: parse_df(text), RESOLVED: lambda: parse_resolved(text)}
    return verdict_of(check, answers, **more)[0]


class TestIdentity:
    @pytest.mark.parametrize(
        ("name", "release", "planned"),
        [
            ("rocky", "9.4", "rocky-9"),
            ("rocky", "9", "rocky-9"),
            ("almalinux", "9.6", "almalinux-9"),
            ("ubuntu", "24.04", "ubuntu-24.04"),
            ("debian", "13", "debian-13"),
        ],
    )
    def test_enterprise_linux_minor_release_is_ignored(self, name, release, planned):
        text = IDENTIFIED.format(name, release)
        assert judged_node(test_node.test_os_matches_plan, text, node=SimpleNamespace(os=planned)) is PASSED
        assert judged_node(test_node.test_os_matches_plan, text, node=SimpleNamespace(os="rocky-8")) is FAILED

    def test_unread_release_is_unknown_alone(self):
        text = IDENTIFIED.format("debian", "")
        node = SimpleNamespace(os="debian-13", name="w0")
        assert judged_node(test_node.test_os_matches_plan, text, node=node) is UNKNOWN
        assert judged_node(test_node.test_hostname_matches_plan, text, node=node) is PASSED

    def test_unread_machine_id_is_not_unique(self):
        text = IDENTIFIED.format("debian", "13").replace("machine_id=4f", "machine_id=")
        more = {"node": SimpleNamespace(name="w0"), "members": lambda group: ("w0", "w1")}
        assert judged_node(test_node.test_machine_id_is_unique, text, **more) is UNKNOWN

    def test_warning_before_system_state_is_skipped(self):
        assert parse_system_state("a warning of bash\r\ndegraded\r\n● a.service loaded failed failed A\r\n").failed == ("a.service",)

    def test_unread_file_system_hides_no_full_one(self):
        text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 100 {} {} {} /\n/dev/sdb1 100 50 50 ERR! /data\n"
        checks = test_node.test_disk_space
        assert judged_node(checks, text.format(10, 90, "10%"), limit=90) is UNKNOWN
        assert judged_node(checks, text.format(99, 1, "99%"), limit=90) is FAILED

    def test_name_in_unread_line_is_unknown(self):
        hosts = [SimpleNamespace(name="w0", address="10.0.0.1"), SimpleNamespace(name="w1", address="10.0.0.2")]
        cluster = SimpleNamespace(hosts=hosts)
        assert judged_node(test_node.test_names_resolve, "w0 10.0.0.1\nw1\n", cluster=cluster) is UNKNOWN
        assert judged_node(test_node.test_names_resolve, "w0 10.0.0.9\nw1\n", cluster=cluster) is FAILED


def test_unread_unit_is_unknown_alone():
    found = parse_units("Id=a.service\nLoadState=loaded\nActiveState=\n\nId=b.service\nLoadState=loaded\nActiveState=active\n\nx\n")
    assert found["b.service"].state == "active" and isinstance(found["a.service"].state, UnreadableValue)
    with pytest.raises(UndeterminedError):
        found["c.service"]


def test_job_tools_print_decimal_points():
    """In every locale of the user who submits the job."""
    tools = Path(acceptance.__file__).parent / "programs" / "tools.py"
    asked = json.dumps(["locale", ["sh", "-c", "echo $LC_ALL"], 60])
    done = subprocess.run(
        [sys.executable, str(tools), asked], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "de_DE.UTF-8"}
    )
    assert json.loads(done.stdout)["locale"]["out"] == "C.UTF-8\n"


CARDS = "\tGPU0\tGPU1\tmlx5_2\tmlx5_3\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tPIX\tSYS\t0-15\t0\nGPU1\tNV4\t X \tSYS\tPIX\t16-31\t1\n"
CARDS += "mlx5_2\tPIX\tSYS\t X \tSYS\t\t\nmlx5_3\tSYS\tPIX\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n"


class TestTopology:
    def test_columns_named_like_devices_are_read(self):
        """Drivers before 520 have no legend of cards."""
        links = hardware.parse_gpu_links(CARDS)
        assert (links.paths["GPU0"], links.numa) == ({"GPU1": "NV4", "mlx5_2": "PIX", "mlx5_3": "SYS"}, {"GPU0": "0", "GPU1": "1"})

    @pytest.mark.parametrize("cell", ["", "N/A", "ERR!", "[Unknown Error]", "0-15"])
    def test_unread_cell_is_unknown_alone(self, cell):
        found = hardware.parse_gpu_links(CARDS.replace("\tPIX\tSYS\t0-15", f"\t{cell}\tSYS\t0-15"))
        assert "GPU0 to mlx5_2" in found.why
        assert found.value.paths["GPU0"] == {"GPU1": "NV4", "mlx5_3": "SYS"}
        assert found.value.paths["GPU1"] == hardware.parse_gpu_links(CARDS).paths["GPU1"]

    def test_empty_affinity_is_none(self):
        """In a virtual machine without NUMA nodes, nvidia-smi leaves both affinities of a GPU empty."""
        found = hardware.parse_gpu_links("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n\nLegend:\n")
        assert found.numa == {"GPU0": "N/A"}

    def test_row_with_shifted_cells_is_unknown(self):
        matrix = read_matrix(CARDS.replace("GPU1\tNV4\t X ", "GPU1\t X \tNV4"))
        assert isinstance(matrix.paths["GPU1", "GPU0"], UnreadableValue) and matrix.paths["GPU0", "GPU1"] == "NV4"


def diagnosed(status, warnings=(), **more):
    result = {"entity_group": "GPU", "entity_id": 3, "status": status, **({"warnings": warnings} if warnings else {}), **more}
    good = {"entity_group": "GPU", "entity_id": 4, "status": "Pass"}
    document = {
        "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": [good, result]}]}]}
    }
    return guarded("dcgm_passes", "w", lambda: health.diagnosis("dcgm_passes", "w", dcgm.parse(json.dumps(document) + "\na warning\n")))


class TestDiagnosis:
    @pytest.mark.parametrize("word", ["Fail", "FAILED", "Warn", "Warning", "Error", "Isolated", "ERR!"])
    def test_unknown_word_fails(self, word):
        assert diagnosed(word).verdict is FAILED

    @pytest.mark.parametrize("word", ["Skip", "Skipped", "Not Run", "", None, "[N/A]"])
    def test_skipped_test_is_unknown(self, word):
        assert diagnosed(word).verdict is UNKNOWN

    def test_pass_with_warning_fails(self):
        found = diagnosed("Pass", [{"error_category": 1, "error_id": 9, "warning": "only half of the memory was tested"}])
        assert (found.verdict, "memory GPU 3: only half of the memory was tested" in found.reason) == (FAILED, True)
        assert diagnosed("Pass", errors=[{"message": "no memory"}]).verdict is FAILED
        assert diagnosed("Pass", info=["clocked at 1980 MHz"]).verdict is PASSED

    def test_table_reads_unknown_word_and_warning(self):
        table = (
            "| Diagnostic                | Result                                         |\n"
            "|-----  Metadata  ----------+------------------------------------------------|\n"
            "| Board                     | Serial                                         |\n"
            "+-----  Hardware  ----------+------------------------------------------------+\n"
            "| pcie                      | {} |\n"
            "{}+---------------------------+------------------------------------------------+\n"
        )
        warning = f"| {'Warning':<25} | {'Replays were counted.':<46} |\n"
        info = f"| {'Info':<25} | {'16 lanes':<46} |\n"
        rows = {("Pass", ""): PASSED, ("Pass", info): PASSED, ("Pass", warning): FAILED, ("Error", ""): FAILED, ("-", ""): UNKNOWN}
        for (word, below), verdict in rows.items():
            text = table.format(f"{word:<46}", below)
            assert guarded("d", "w", lambda text=text: health.diagnosis("d", "w", dcgm.parse(text))).verdict is verdict, (word, below)


NCCL = """# nThread 1 nGpus 2 minBytes 16777216 maxBytes 33554432 step: 2(factor)
#  Rank  0 Group  0 Pid 9 on w0 device  0 [0x01] NVIDIA L4
#  Rank  1 Group  0 Pid 9 on w0 device  1 [0x02] NVIDIA L4
    16777216       4194304     float     sum      -1   1313.0   12.78   12.78      0   1312.7   12.78   12.78      0
    33554432       8388608     float     sum      -1   2610.0   12.86   {}      {}   2609.7   12.86   12.86      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 12.82
#
"""
TWO = collectives.ExpectedTopology(("w0",), 2, "l4", nccl_log.Transport.SOCKET)


def collective(busbw="12.86", wrong="0", text=NCCL):
    def look():
        (finding,) = collectives.results("results", nccl.parse(text.format(busbw, wrong)), TWO)
        return finding

    return guarded("results", "w0", look).verdict


class TestCollective:
    @pytest.mark.parametrize("wrong", ["12", "3.35544e+07", "1e+06"])
    def test_any_number_of_wrong_elements_fails(self, wrong):
        assert collective(wrong=wrong) is FAILED

    @pytest.mark.parametrize("wrong", ["ERR!", "1.5", "-", "nan"])
    def test_unread_count_is_unknown(self, wrong):
        assert collective(wrong=wrong) is UNKNOWN
        assert collective(wrong=wrong, text=NCCL.replace("12.78      0 ", "12.78      7 ", 1)) is FAILED

    def test_smaller_message_never_replaces_largest(self):
        assert collective(busbw="ERR!") is PASSED
        with pytest.raises(UndeterminedError, match="33554432 B busbw"):
            _ = nccl.parse(NCCL.format("ERR!", 0)).bandwidth_gb_s
        assert nccl.parse(NCCL.format("12,86", 0)).bandwidth_gb_s == 12.86

    def test_missing_row_of_largest_message_is_detected(self):
        lines = NCCL.format("12.86", 0).splitlines(keepends=True)
        cut = "".join(line for line in lines if not line.startswith("    33554432"))
        with pytest.raises(UndeterminedError, match="the row of 33554432 B is missing"):
            _ = nccl.parse(cut).bandwidth_gb_s
        assert collective(text=cut) is UNKNOWN

    def test_missing_row_leaves_results_unknown(self):
        lines = NCCL.format("12.86", 0).splitlines(keepends=True)
        assert collective(text="".join(line for line in lines if not line.startswith("    16777216"))) is UNKNOWN
