"""Parsers on answers of healthy and faulty nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.accounting import only_local, parse_listening, parse_table
from rackwright.checks.cluster.probes.accounts import parse_accounts
from rackwright.checks.cluster.probes.driver_errors import Severity, parse_xids
from rackwright.checks.cluster.probes.gpu import parse_devices, parse_gpus
from rackwright.checks.cluster.probes.identity import (
    parse_df,
    parse_hosts,
    parse_identity,
    parse_network,
    parse_resolved,
    parse_system_state,
)
from rackwright.checks.cluster.probes.munge import parse_decoded, parse_key
from rackwright.checks.cluster.probes.slurm import expand, parse_nodes, parse_partitions, parse_ping, parse_settings, parse_version
from rackwright.checks.cluster.probes.software import (
    KernelDriver,
    parse_cuda,
    parse_driver,
    parse_fabric,
    parse_fabric_manager,
    parse_health,
    parse_loaded,
    parse_nccl,
)
from rackwright.checks.cluster.probes.software import parse_settings as parse_nccl_settings
from rackwright.checks.cluster.probes.sshd import parse_auth_methods, parse_host_keys, parse_known_hosts
from rackwright.checks.cluster.probes.sshd import parse_settings as parse_sshd
from rackwright.checks.cluster.probes.storage import is_same_folder, is_there, options_of, parse_mounts, parse_nfs_server, parse_roots
from rackwright.checks.cluster.probes.units import parse_units, servers_of

FOLDER = Path(__file__).parents[1] / "captured"


def captured(probe, case="good"):
    """Return one captured output."""
    return (FOLDER / probe / f"{case}.txt").read_text(encoding="utf-8")


class TestGpus:
    def test_healthy_gpus_are_read(self):
        gpus = parse_gpus(captured("gpus"))
        assert [gpu.index for gpu in gpus] == list(range(8))
        assert {(gpu.product, gpu.memory_mib, gpu.driver) for gpu in gpus} == {("NVIDIA H100 80GB HBM3", 81559, "580.173.02")}

    def test_lost_gpu_is_reported(self):
        assert len(parse_gpus(captured("gpus", "lost"))) == 7

    def test_missing_gpus_are_reported(self):
        assert len(parse_gpus(captured("gpus", "none"))) == 0

    def test_errors_and_throttled_clock_are_read(self):
        sick = parse_gpus(captured("gpus", "ecc-and-slow"))[2]
        assert (sick.uncorrected, sick.max_clock_mhz, sick.clock_reasons) == (4, 1410, 8)

    def test_missing_idle_persistence_is_reported(self):
        assert [gpu.index for gpu in parse_gpus(captured("gpus", "ecc-and-slow")) if not gpu.persistent] == [5]

    def test_disabled_ecc_has_no_counters(self):
        assert {gpu.uncorrected for gpu in parse_gpus(captured("gpus", "without-ecc"))} == {None}

    def test_application_errors_are_no_gpu_fault(self):
        """An illegal address, a misaligned one (three lines), a trap: as an H100 logged them."""
        errors = parse_xids(captured("gpu-xids", "good-of-programs"))
        assert len(errors) == 5 and {error.severity for error in errors} == {Severity.PROGRAM}

    def test_xids_are_read_without_other_lines(self):
        (error,) = parse_xids(captured("gpu-xids", "fallen-off"))
        assert error.text == "Xid (PCI:0000:10:00): 79, pid=1234, name=python, GPU has fallen off the bus."

    def test_shared_device_numbers_and_files_are_read(self):
        devices = parse_devices(captured("gpu-devices", "shared"))
        assert [device.character for device in devices] == [True, True, False]
        assert len({device.number for device in devices if device.character}) == 1


class TestIdentity:
    def test_debian_release_is_read(self):
        found = parse_identity(captured("identity"))
        assert (found.hostname, found.os, found.time_zone) == ("worker0", "debian-13", "Etc/UTC")

    def test_quotes_and_copied_time_zone_are_read(self):
        found = parse_identity(captured("identity", "rocky"))
        assert (found.os, found.time_zone) == ("rocky-9", "/etc/localtime")

    def test_failed_units_with_and_without_marker(self):
        found = parse_system_state(captured("system-state", "failed-units"))
        assert (found.state, found.failed) == ("degraded", ("munge.service", "slurmd.service"))

    def test_hosts_exclude_system_lines(self):
        assert parse_hosts(captured("hosts", "strange")) == {
            "10.77.0.16": ("login0.lab.internal", "login0", "gateway"),
            "10.77.0.99": ("gone",),
        }

    def test_unresolved_name_is_read(self):
        assert parse_resolved(captured("resolved", "one-missing"))["worker1"] == "none"

    def test_network_is_read(self):
        network = parse_network(captured("network"))
        assert [interface.name for interface in network.interfaces] == ["eth0"]
        assert network.gateways == ("10.77.0.1",)
        assert network.holder("10.77.0.24").mac == "02:6f:5a:11:22:34"
        assert network.holder("10.77.0.99") is None

    def test_full_disk_is_listed_once(self):
        assert [(system.mount, system.used) for system in parse_df(captured("space", "full"))] == [("/", 98), ("/run/with space", 0)]


class TestAccounts:
    def test_users_and_homes_are_read(self):
        found = parse_accounts(captured("accounts"))
        alice = found.accounts["alice"]
        assert (alice.uid, alice.gid, alice.shell) == (2001, 2001, "/bin/bash")
        assert (found.homes[alice.home].uid, found.homes[alice.home].kind) == (2001, "directory")
        assert [account.name for account in found.accounts.values() if account.is_ordinary] == ["alice", "bob"]

    def test_keys_exclude_options_and_comments(self):
        text = (
            captured("accounts").split("== keys")[0]
            + '== keys\nbob|restrict,from="10.0.0.0/8" ssh-ed25519 AAAA bob@desk\nbob|# none\nalice|\n'
        )
        assert parse_accounts(text).keys == {"bob": {"ssh-ed25519 AAAA"}, "alice": set()}

    def test_empty_password_is_reported(self):
        assert parse_accounts(captured("accounts").replace("== empty\n", "== empty\nguest\n")).without_password == ("guest",)


class TestSshd:
    def test_settings_are_read(self):
        assert parse_sshd(captured("sshd-settings"))["passwordauthentication"] == "no"
        assert parse_sshd(captured("sshd-settings", "passwords"))["passwordauthentication"] == "yes"
        assert parse_sshd(captured("sshd-settings"))["listenaddress"] == "[::]:22 0.0.0.0:22"

    def test_names_are_read_in_the_case_of_openssh_10_6(self):
        settings = parse_sshd(captured("sshd-settings", "openssh-10.6"))
        assert (settings["passwordauthentication"], settings["permitrootlogin"]) == ("no", "prohibit-password")
        assert settings["listenaddress"] == "[::]:22 0.0.0.0:22"

    def test_offered_algorithms_are_read(self):
        assert parse_auth_methods(captured("sshd-offer")) == ("publickey",)
        assert parse_auth_methods(captured("sshd-offer", "passwords")) == ("keyboard-interactive", "password", "publickey")

    def test_readable_host_keys_are_reported(self):
        assert parse_host_keys(captured("host-keys")).exposed == ()
        assert parse_host_keys(captured("host-keys", "exposed")).exposed == ("ssh_host_ed25519_key 640 root", "ssh_host_rsa_key 600 alice")

    def test_known_hosts_are_read(self):
        text = "# pinned\nlab-login0,other ssh-ed25519 AAAA comment\n@revoked * ssh-rsa BBBB\n\nlab-login0 ssh-rsa CCCC\n"
        assert parse_known_hosts(text) == {"lab-login0": {"ssh-ed25519": "AAAA", "ssh-rsa": "CCCC"}, "other": {"ssh-ed25519": "AAAA"}}


class TestMunge:
    def test_key_is_read(self):
        assert (parse_key(captured("munge-key")).mode, parse_key(captured("munge-key")).owner) == ("400", "munge:munge")

    @pytest.mark.parametrize(
        ("case", "status"), [("good", "Success"), ("other-key", "Invalid credential"), ("daemon-away", "No such file or directory")]
    )
    def test_decoding_is_read(self, case, status):
        assert parse_decoded(captured("munge-decoded", case)) == status

    def test_second_decoding_and_time_out_are_unknown(self):
        """munged decodes a credential once, and a round without a timely answer sends it again."""
        for text in ("STATUS:           Replayed credential (17)\n", "unmunge: Error: Failed to receive message header: Timed-out\n"):
            assert isinstance(parse_decoded(text), UnreadableValue), text


class TestSlurm:
    def test_nodes_are_read(self):
        node = parse_nodes(captured("slurm-nodes"))["worker0"]
        assert (node.states, node.cpus, node.memory_mib, node.gpus, node.reason) == ({"IDLE"}, 8, 2048, {"h100": 8}, "")

    def test_drained_and_unresponsive_nodes_are_read(self):
        nodes = parse_nodes(captured("slurm-nodes", "drained-and-down"))
        assert (nodes["worker0"].states, nodes["worker0"].reason) == ({"IDLE", "DRAIN"}, "bad DIMM [root@2026-11-21T04:00:00]")
        assert (nodes["worker1"].states, nodes["worker1"].gpus) == ({"DOWN", "NOT_RESPONDING"}, {"h100": 7})

    def test_empty_node_list_is_read(self):
        assert parse_nodes(captured("slurm-nodes", "none")) == {}

    def test_partitions_are_read(self):
        good, closed = (
            parse_partitions(captured("slurm-partitions"))["gpu"],
            parse_partitions(captured("slurm-partitions", "closed"))["gpu"],
        )
        assert (good.state, good.default, good.nodes) == ("UP", True, ("worker0", "worker1"))
        assert (closed.state, closed.default, closed.max_time) == ("DOWN", False, "1-00:00:00")

    def test_ping_is_read(self):
        assert parse_ping(captured("slurm-ping")) == {"login0": True}
        assert parse_ping(captured("slurm-ping", "backup")) == {"login0": False, "login1": True}

    def test_settings_are_read(self):
        assert parse_settings(captured("slurm-settings"))["HASH_VAL"] == "Match"
        assert parse_settings(captured("slurm-settings", "edited"))["HASH_VAL"].startswith("Different")

    def test_version_is_read(self):
        assert parse_version(captured("slurm-version")) == "24.11.5"

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("worker0", ["worker0"]),
            ("a[0-2],b", ["a0", "a1", "a2", "b"]),
            ("rack1-n[08-10]-ib", ["rack1-n08-ib", "rack1-n09-ib", "rack1-n10-ib"]),
            ("(null)", []),
        ],
    )
    def test_host_lists_are_expanded(self, text, names):
        assert list(expand(text)) == names


class TestAccounting:
    def test_rows_are_read(self):
        assert ("lab", "lab", "alice") in parse_table(captured("accounting-associations"))
        with pytest.raises(ValueError, match="no titles"):
            parse_table("")

    def test_listening_sockets_are_read(self):
        assert only_local(parse_listening(captured("database-listening")))
        assert parse_listening(captured("database-listening", "everywhere")) == ("*", "::1")
        assert not only_local(parse_listening(captured("database-listening", "everywhere")))
        assert only_local(parse_listening("State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"))


SHARED = SimpleNamespace(kind="moosefs", mount="/mnt/sharedfs", servers=["storage0"], folder=None)
DATA = SimpleNamespace(kind="nfs", mount="/mnt/da-ta", servers=["storage0"], folder="/srv/rackwright/data", rdma=False, nconnect=8)
TOOLS = SimpleNamespace(kind="nfs", mount="/mnt/tools", servers=["storage0"], folder="/srv/rackwright/tools", rdma=False, nconnect=8)


class TestStorage:
    def test_mounted_file_system_is_read(self):
        mount = parse_mounts(captured("mounts"))["/mnt/sharedfs"]
        assert mount.holds(SHARED)
        assert {"rw", "nosuid", "nodev"} <= mount.options

    def test_read_only_mount_of_writable_file_system(self):
        assert "ro" in parse_mounts(captured("mounts", "read-only"))["/mnt/sharedfs"].options

    def test_one_ro_option_means_read_only(self):
        """Remounted read-only on this node, the file system still has rw in the second list of the same line."""
        mount = parse_mounts(captured("mounts"))["/mnt/sharedfs"]
        assert "rw" in mount.effective
        assert "rw" not in replace(mount, options=mount.options | {"ro"}).effective

    def test_lustre_mount_is_read(self):
        """In the format of its kernel module (mount.lustre(8)); never captured from a real node."""
        line = "142 28 0:55 / /fsx rw,nosuid,nodev,noatime shared:80 - lustre 10.90.1.17@tcp:/abcdefgh rw,flock,lazystatfs\n"
        mount = parse_mounts(captured("mounts") + line)["/fsx"]
        lustre = SimpleNamespace(kind="fsx-lustre", mount="/fsx", servers=[], folder=None)
        assert (mount.holds(lustre), mount.holds(SHARED)) == (True, False)
        assert {"rw", "nosuid", "nodev"} <= mount.effective

    def test_missing_mount_is_reported(self):
        assert "/mnt/sharedfs" not in parse_mounts(captured("mounts", "not-mounted"))

    def test_other_fuse_file_system_does_not_match(self):
        text = captured("mounts").replace("mfs\\043storage0:9421", "sshfs")
        assert not parse_mounts(text)["/mnt/sharedfs"].holds(SHARED)

    def test_same_path_from_other_server_does_not_match(self):
        text = captured("mounts").replace("mfs\\043storage0:9421", "mfs\\043storage00:9421")
        assert not parse_mounts(text)["/mnt/sharedfs"].holds(SHARED)

    def test_nfs_mount_matches_on_client_and_server(self):
        """One machine was both when this was captured: /mnt/da-ta over NFS, /mnt/tools the folder itself."""
        mounts = parse_mounts(captured("mounts", "good-nfs"))
        assert is_there(mounts, DATA, "worker0")
        assert options_of(DATA, "worker0") <= mounts["/mnt/da-ta"].effective
        assert is_there(mounts, TOOLS, "storage0")
        assert options_of(TOOLS, "storage0") <= mounts["/mnt/tools"].effective

    def test_other_export_of_server_does_not_match(self):
        text = captured("mounts", "good-nfs")
        for other in (":/srv/rackwright/old", "1:/srv/rackwright/data"):
            wrong = text.replace("storage0:/srv/rackwright/data", f"storage0{other}")
            assert not is_there(parse_mounts(wrong), DATA, "worker0")

    def test_server_mounting_from_itself_does_not_match(self):
        assert not is_there(parse_mounts(captured("mounts", "good-nfs")), DATA, "storage0")

    def test_export_of_own_disk_matches_its_root(self):
        """/srv/rackwright/tools is a disk: the server exports its root instead of the folder below it."""
        before = captured("mounts", "good-nfs")
        disk = "90 29 254:16 / /srv/rackwright/tools rw - ext4 /dev/vdb rw\n"
        assert not is_same_folder(parse_mounts(before + disk), "/mnt/tools", "/srv/rackwright/tools")
        after = before.replace("254:0 /srv/rackwright/tools /mnt/tools", "254:16 / /mnt/tools")
        assert is_same_folder(parse_mounts(after + disk), "/mnt/tools", "/srv/rackwright/tools")

    def test_missing_required_nfs_options_are_reported(self):
        soft = parse_mounts(captured("mounts", "good-nfs").replace(",hard,", ",soft,"))["/mnt/da-ta"]
        assert options_of(DATA, "worker0") - soft.effective == {"hard"}

    def test_nfs_over_rdma_differs_from_tcp(self):
        over_tcp = parse_mounts(captured("mounts", "good-nfs"))["/mnt/da-ta"]
        over_rdma = SimpleNamespace(**{**vars(DATA), "rdma": True})
        assert options_of(over_rdma, "worker0") - over_tcp.effective == {"proto=rdma", "port=20049"}

    def test_exports_are_read(self):
        server = parse_nfs_server(captured("nfs-server"))
        assert (server.threads, server.versions) == (16, {"4.2"})
        assert list(server.exports) == ["/srv/rackwright/data", "/srv/rackwright/tools"]
        assert {"rw", "sync", "no_subtree_check", "root_squash"} <= server.exports["/srv/rackwright/data"]["10.0.2.0/24"]

    def test_open_exports_and_old_versions_are_reported(self):
        server = parse_nfs_server(captured("nfs-server", "open-to-all"))
        assert (server.threads, server.versions) == (0, {"3", "4.1", "4.2"})
        assert list(server.exports["/srv/rackwright/data"]) == ["10.0.2.0/24", "*"]
        assert "root_squash" not in server.exports["/srv/rackwright/data"]["10.0.2.0/24"]

    def test_storage_node_without_exports_has_no_answer(self):
        assert parse_nfs_server("nothing\n").exports == {}

    def test_root_of_file_system_is_read(self):
        root = parse_roots("/mnt/sharedfs|root:root|1777|81920|65536\n")["/mnt/sharedfs"]
        assert (root.owner, root.mode, root.size_mib) == ("root:root", "1777", 5120)


def test_units_are_read():
    """Keys have any order, and a missing unit is missing, not inactive."""
    assert parse_units(captured("units"))["slurmd.service"].described == "active, starts with the node"
    sick = parse_units(captured("units", "failed-and-missing"))
    assert sick["slurmd.service"].described == "failed, does not start with the node"
    assert sick["munge.service"].state == "not-found"


def test_storage_units_are_read():
    """The first server of MooseFS has one more; NFS has one server; other nodes need none."""
    moosefs = {"kind": "moosefs", "servers": ["storage0", "storage1"]}
    assert servers_of(moosefs, "storage0") == ("moosefs-master.service", "moosefs-chunkserver.service")
    assert servers_of(moosefs, "storage1") == ("moosefs-chunkserver.service",)
    assert servers_of({"kind": "nfs", "servers": ["storage0"]}, "storage0") == ("nfs-server.service",)
    assert servers_of({"kind": "nfs", "servers": ["storage0"]}, "worker0") == ()


class TestSoftware:
    """Software of real GPUs. The texts follow the tools' documentation: no GPU was available."""

    def test_kernel_module_flavour_is_read(self):
        assert parse_driver(captured("driver-modules")) == KernelDriver("open", "580.173.02")
        assert parse_driver(captured("driver-modules", "good-proprietary")) == KernelDriver("proprietary", "580.173.02")

    def test_nouveau_is_reported(self):
        assert "nouveau" in parse_loaded(captured("kernel-modules", "nouveau"))
        assert "nouveau" not in parse_loaded(captured("kernel-modules"))

    def test_unready_fabric_is_reported_on_its_gpu(self):
        assert {(gpu.state, gpu.status) for gpu in parse_fabric(captured("nvlink-fabric"))} == {("Completed", "Success")}
        waiting = parse_fabric(captured("nvlink-fabric", "waiting"))
        assert [(gpu.label, gpu.state) for gpu in waiting][1:] == [("GPU 00000000:43:00.0", "In Progress")]

    def test_versions_are_read(self):
        assert parse_fabric_manager(captured("nvlink-manager")) == "580.173.02"
        assert parse_cuda(captured("cuda")) == "13.0"
        assert parse_nccl(captured("nccl", "two")) == ("2.18.5", "2.28.9")
        assert parse_nccl("1142 libs found in cache `/etc/ld.so.cache'\n") == ()

    def test_settings_exclude_comments(self):
        assert parse_nccl_settings(captured("nccl-settings")) == {"NCCL_SOCKET_IFNAME": "eth0"}
        assert parse_nccl_settings(captured("nccl-settings", "good-none")) == {}

    def test_health_is_one_word(self):
        assert parse_health(captured("dcgm-health")).overall == "Healthy"
        assert parse_health(captured("dcgm-health", "warning")).overall == "Warning"
