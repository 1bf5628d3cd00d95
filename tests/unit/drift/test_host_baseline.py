"""The baseline that nodes report, and its comparison."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from support.programs import edit_program

from rackwright.drift.difference import Category
from rackwright.drift.host_baseline.compare import differences
from rackwright.remote.command import python_arguments
from rackwright.remote.programs import host_baseline


class TestCollection:
    @pytest.mark.parametrize(
        ("row", "told"),
        [
            ("0100007F:0016", ("127.0.0.1", 22)),
            ("00000000:1F90", ("0.0.0.0", 8080)),
            ("00000000000000000000000001000000:0050", ("::1", 80)),
            ("0000000000000000FFFF00000100007F:0050", ("::ffff:127.0.0.1", 80)),
        ],
    )
    def test_socket_address_is_read_in_kernel_format(self, row, told):
        assert host_baseline.address(row) == told

    def test_only_reachable_system_sockets_are_listed(self, monkeypatch):
        head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
        row = "   0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000  {}        0 12345"
        table = [row.format("00000000:0016", "0A", 0), row.format("0100007F:0019", "0A", 0)]
        table += [row.format("00000000:2328", "0A", 2001), row.format("0100A8C0:0016", "01", 0)]
        waits = [row.format("00000000:0044", "07", 0), row.format("00000000:9C40", "07", 0)]
        texts = {
            "/proc/net/tcp": [head, *table],
            "/proc/net/udp": [head, *waits],
            "/proc/sys/net/ipv4/ip_local_port_range": ["32768 60999"],
        }
        monkeypatch.setattr(host_baseline, "lines", lambda path: texts.get(path, [head]))
        assert host_baseline.listening() == {"tcp 0.0.0.0 22": "user 0", "udp 0.0.0.0 68": "user 0"}

    @pytest.mark.parametrize(
        ("kept", "entry"), [("!", "locked"), ("*", "locked"), ("", "without a password"), ("$y$j9T$abc", "with a password")]
    )
    def test_passwords_are_reported_only_as_set(self, monkeypatch, kept, entry):
        files = {"/etc/shadow": [f"eve:{kept}:20000:0:99999:7:::"], "/etc/passwd": ["eve:x:0:0::/root:/bin/sh"]}
        monkeypatch.setattr(host_baseline, "lines", files.__getitem__)
        assert host_baseline.accounts() == {"eve": f"0:0 /root /bin/sh {entry}"}

    @pytest.mark.parametrize(
        ("field", "entry"), [("x", "locked"), ("*", "locked"), ("", "without a password"), ("$6$ab$cd", "with a password")]
    )
    def test_password_of_an_account_without_shadow_is_reported(self, monkeypatch, field, entry):
        files = {"/etc/shadow": ["root:*:20000::::::"], "/etc/passwd": [f"eve:{field}:0:0::/root:/bin/sh", "+::::::", "# comment"]}
        monkeypatch.setattr(host_baseline, "lines", files.__getitem__)
        assert host_baseline.accounts()["eve"] == f"0:0 /root /bin/sh {entry}"

    def test_mount_without_source_hides_no_other(self, monkeypatch):
        rows = [
            "29 1 8:1 / / rw - ext4 /dev/sda1 rw",
            "61 29 0:44 / /scratch rw,nosuid - tmpfs  rw",
            "62 29 0:45",
            "63 29 0:46 / /x rw - nfs4",
        ]
        monkeypatch.setattr(host_baseline, "lines", lambda path: rows)
        assert host_baseline.mounts() == {"/": "/dev/sda1 ext4 rw", "/scratch": " tmpfs nosuid,rw"}

    @pytest.mark.parametrize(
        ("is_debian", "listed", "found"),
        [
            (
                True,
                "slurmd:amd64 25.05.1-1 hi \nmunge:amd64 0.5.16-1 ii \nold:amd64 1 rc \n",
                {"slurmd:amd64": "25.05.1-1", "munge:amd64": "0.5.16-1"},
            ),
            (True, "broken:amd64 2 iiR\nhalf:amd64 3 iU \n", {"broken:amd64": "2"}),
            (False, "kernel.x86_64 5.14.0-9\nkernel.x86_64 5.14.0-10\n", {"kernel.x86_64": "5.14.0-10 5.14.0-9"}),
            (False, "kernel.x86_64 5.14.0-10\nkernel.x86_64 5.14.0-9\n", {"kernel.x86_64": "5.14.0-10 5.14.0-9"}),
        ],
        ids=["on-hold", "broken", "two-kernels", "two-kernels-in-another-order"],
    )
    def test_packages_are_listed_once_with_their_versions(self, monkeypatch, is_debian, listed, found):
        monkeypatch.setattr(host_baseline.os.path, "exists", lambda path: is_debian)
        monkeypatch.setattr(host_baseline, "run", lambda *command: listed)
        assert host_baseline.packages() == found

    def test_empty_object_of_iproute_is_skipped(self, monkeypatch):
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: '[{},{"dst":"default"},{}]')
        assert host_baseline.read_json("ip") == [{"dst": "default"}]

    def test_authorized_keys_are_reported_by_digest(self, monkeypatch, tmp_path):
        (tmp_path / ".ssh").mkdir()
        file = tmp_path / ".ssh" / "authorized_keys"
        file.write_text('# a word\nssh-ed25519 AAAAkey me\ncommand="x" ssh-rsa AAAAother\n')
        texts = {"/etc/passwd": [f"eve:x:1:1::{tmp_path}:/bin/sh"], str(file): file.read_text().splitlines()}
        monkeypatch.setattr(host_baseline, "lines", texts.__getitem__)
        found = host_baseline.keys()
        assert sorted(found.values()) == [str(file), f"{file} with options"] and "AAAA" not in str(found)

    def test_queueing_disciplines_are_reported_per_link(self, monkeypatch):
        text = "2: eth0@if3: <BROADCAST,UP> mtu 1500 qdisc tbf state UP mode DEFAULT\\    link/ether 02:00\n"
        monkeypatch.setattr(host_baseline, "run", lambda *command: text)
        monkeypatch.setattr(host_baseline.os, "listdir", lambda folder: ["eth0", "eth1"])
        monkeypatch.setattr(host_baseline.os.path, "isdir", lambda path: True)
        monkeypatch.setattr(host_baseline, "lines", lambda path: ["1500" if path.endswith("mtu") else "up"])
        assert host_baseline.links() == {"eth0": "mtu 1500, up, tbf", "eth1": "mtu 1500, up, no queue"}

    def test_packet_filter_tables_are_listed_by_family(self, monkeypatch):
        monkeypatch.setattr(host_baseline, "run", lambda *command: "table inet rackwright\ntable ip nat\n")
        monkeypatch.setattr(host_baseline.os.path, "exists", lambda path: path == "/proc/net/ip_tables_names")
        monkeypatch.setattr(host_baseline, "lines", lambda path: ["mangle"])
        assert sorted(host_baseline.filters()) == ["inet rackwright", "ip nat", "iptables mangle"]

    def test_drops_outside_rackwright_table_are_listed(self, monkeypatch):
        text = (
            "table inet rackwright {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tdrop\n\t}\n}\n"
            "table inet mine {\n\tset drop {\n\t\ttype ipv4_addr\n\t\telements = { 203.0.113.4 }\n\t}\n\n\tchain early {\n"
            '\t\ttype filter hook input priority -10; policy accept;\n\t\tlog prefix "drop me" accept\n'
            '\t\tiifname "ib0" tcp dport 22 counter drop\n\t\ttcp dport vmap { 22 : accept, 23 : drop }\n\t}\n}\n'
            "table ip other {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n"
            "# Warning: table ip filter is managed by iptables-nft, do not touch!\ntable ip filter {\n\tchain INPUT {\n"
            '\t\tudp dport 53 counter xt target "REJECT"\n\t}\n\n\tchain KUBE-FIREWALL {\n\t\tcounter drop\n\t}\n}\n'
        )
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: text)
        assert list(host_baseline.drops()) == [
            'inet mine early: iifname "ib0" tcp dport 22 counter drop',
            "inet mine early: tcp dport vmap { 22 : accept, 23 : drop }",
            "ip other forward: type filter hook forward priority filter; policy drop;",
            'ip filter INPUT: udp dport 53 counter xt target "REJECT"',
        ]

    def test_failed_command_is_no_empty_answer(self):
        with pytest.raises(RuntimeError, match="no such path"):
            host_baseline.run("sh", "-c", "echo no such path >&2; exit 1", strict=True)
        assert host_baseline.run("a-command-that-is-not-installed", strict=True) == ""

    def test_reservations_are_listed_without_times(self, monkeypatch):
        text = (
            "ReservationName=course StartTime=2026-11-26T09:00:00 EndTime=2026-11-26T17:00:00 Duration=08:00:00 Nodes=worker[0-1] "
            "NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=gpu Flags=WEEKLY Users=eve Groups=(null) Accounts=(null) State=INACTIVE\n"
        )
        monkeypatch.setattr(host_baseline, "runs", lambda name: True)
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: text)
        assert host_baseline.reservations() == {"course": "Nodes worker[0-1], Users eve, Accounts (null), Flags WEEKLY"}
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: "No reservations in the system\n")
        assert host_baseline.reservations() == {}

    def test_slurm_is_queried_only_with_slurmctld(self, monkeypatch):
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: pytest.fail("scontrol was called"))
        monkeypatch.setattr(host_baseline.os, "listdir", lambda path: ["self", "7", "8"])
        stats = {"/proc/7/stat": ["7 (slurmctld) T 1 7 7"], "/proc/8/stat": ["8 (slurm (d)) S 1 8 8"]}
        monkeypatch.setattr(host_baseline, "lines", stats.__getitem__)
        assert host_baseline.reservations() == {}
        stats["/proc/7/stat"] = ["7 (slurmctld) S 1 7 7"]
        assert host_baseline.runs("slurmctld") and host_baseline.runs("slurm (d)") and not host_baseline.runs("slurmd")

    def test_routes_rules_and_permanent_neighbours_are_listed(self, monkeypatch):
        outputs = {
            "-4 route": [
                {"dst": "default", "gateway": "10.61.0.1", "dev": "eth0", "protocol": "dhcp", "metric": 100, "flags": ["linkdown"]},
                {"dst": "10.61.0.0/24", "dev": "eth0", "protocol": "kernel", "scope": "link", "prefsrc": "10.61.0.24", "flags": []},
                {"type": "blackhole", "dst": "203.0.113.0/24", "table": "100", "flags": []},
                {"type": "local", "dst": "10.61.0.24", "dev": "eth0", "table": "local", "protocol": "kernel", "flags": []},
                {"dst": "10.62.0.0/24", "gateway": "10.61.0.9", "dev": "eth0", "protocol": "bird", "flags": []},
                {"dst": "10.63.1.0/24", "dev": "cni0", "protocol": "kernel", "scope": "link", "flags": []},
            ],
            "-4 rule": [{"priority": 0, "src": "all", "table": "local"}, {"priority": 99, "src": "10.61.0.24", "table": "100"}],
            "-4 neighbour": [
                {"dst": "10.61.0.25", "dev": "eth0", "lladdr": "02:00:00:00:00:19", "state": ["PERMANENT"]},
                {"dst": "10.63.2.0", "dev": "flannel.1", "lladdr": "02:00:00:00:00:20", "state": ["PERMANENT"]},
            ],
            "-6 route": [
                {"dst": "fe80::/64", "dev": "eth0", "protocol": "kernel", "metric": 256, "flags": [], "pref": "medium", "expires": 9}
            ],
        }
        monkeypatch.setattr(host_baseline.os.path, "exists", lambda path: path == "/proc/net/if_inet6")
        monkeypatch.setattr(
            host_baseline,
            "run",
            lambda *command, strict: json.dumps(outputs[" ".join(command[2:4])]) if " ".join(command[2:4]) in outputs else "",
        )
        assert host_baseline.routes() == {
            "route -4 default table main metric 100": "dev eth0 gateway 10.61.0.1 protocol dhcp",
            "route -4 10.61.0.0/24 table main metric 0": "dev eth0 prefsrc 10.61.0.24 protocol kernel scope link",
            "route -4 203.0.113.0/24 table 100 metric 0": "type blackhole",
            "rule -4 priority 0 src all table local": "there",
            "rule -4 priority 99 src 10.61.0.24 table 100": "there",
            "neighbour 10.61.0.25 eth0": "02:00:00:00:00:19",
            "route -6 fe80::/64 table main metric 256": "dev eth0 protocol kernel",
        }

    def test_node_without_ipv6_queries_only_ipv4(self, monkeypatch):
        families = []
        monkeypatch.setattr(host_baseline.os.path, "exists", lambda path: False)
        monkeypatch.setattr(host_baseline, "run", lambda *command, strict: families.append(command[2]) or "")
        assert host_baseline.routes() == {} and set(families) == {"-4"}

    def test_settings_are_normalised_and_missing_ones_skipped(self, monkeypatch):
        def lines(path):
            if path != "/proc/sys/net/ipv4/tcp_rmem":
                raise FileNotFoundError(path)
            return ["4096\t131072\t6291456"]

        monkeypatch.setattr(host_baseline, "lines", lines)
        assert host_baseline.settings() == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}

    def test_irrelevant_mount_options_are_ignored(self, monkeypatch):
        row = "36 35 98:0 / /mnt rw,noatime shared:1 - {} /dev/x rw,size=1024k,nr_inodes=5,relatime"
        monkeypatch.setattr(host_baseline, "lines", lambda path: [row.format("tmpfs")])
        assert host_baseline.mounts() == {"/mnt": "/dev/x tmpfs noatime,relatime,rw"}

    def test_transient_mounts_are_ignored(self, monkeypatch):
        row = "36 35 98:0 / {} rw - tmpfs tmpfs rw"
        monkeypatch.setattr(
            host_baseline, "lines", lambda path: [row.format(top) for top in ("/run/user/2001", "/var/lib/kubelet/pods/a/b")]
        )
        assert host_baseline.mounts() == {}

    def test_runlevel_link_counts_only_without_unit(self, monkeypatch):
        links = ["K01munge", "S01munge", "S01acct", "README"]
        monkeypatch.setattr(host_baseline.os, "walk", lambda top: [("/etc/rc3.d", [], links), ("/etc/init.d", [], ["munge", "acct"])])
        monkeypatch.setattr(host_baseline.os.path, "lexists", lambda path: path == "/usr/lib/systemd/system/munge.service")
        monkeypatch.setattr(host_baseline, "digest", lambda path: "there")
        assert list(host_baseline.etc()) == ["/etc/rc3.d/S01acct", "/etc/rc3.d/README", "/etc/init.d/munge", "/etc/init.d/acct"]

    def test_directory_owner_and_mode_are_listed(self, monkeypatch, tmp_path):
        (tmp_path / "tree" / "deep").mkdir(parents=True)
        (tmp_path / "tree" / "file").write_text("x")
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared").chmod(0o1777)
        (tmp_path / "tree" / "deep").chmod(0o2770)
        (tmp_path / "tree").chmod(0o755)
        monkeypatch.setattr(host_baseline, "HOMES", f"{tmp_path}/home")
        monkeypatch.setattr(host_baseline, "PLACES", (f"{tmp_path}/shared", f"{tmp_path}/not-there"))
        monkeypatch.setattr(host_baseline, "OWN_TREES", (f"{tmp_path}/tree", f"{tmp_path}/no-tree"))
        own = f"{(tmp_path / 'tree').stat().st_uid}:{(tmp_path / 'tree').stat().st_gid}"
        expected = {"shared": "1777", "tree": "0755", "tree/deep": "2770"}
        assert host_baseline.directories() == {f"{tmp_path}/{name}": f"{mode} {own}" for name, mode in expected.items()}

    @pytest.mark.parametrize("mounted", [False, True])
    def test_homes_that_are_a_mount_are_not_read(self, monkeypatch, tmp_path, mounted):
        (tmp_path / "home").mkdir()
        (tmp_path / "home").chmod(0o777)
        home = f"{tmp_path}/home"
        monkeypatch.setattr(host_baseline, "HOMES", home)
        monkeypatch.setattr(host_baseline, "PLACES", ())
        monkeypatch.setattr(host_baseline, "OWN_TREES", ())
        monkeypatch.setattr(host_baseline, "mounts", lambda: {home: "nfs4 server:/home rw"} if mounted else {"/": "ext4 /dev/vda1 rw"})
        assert [value.split()[0] for value in host_baseline.directories().values()] == ([] if mounted else ["0777"])

    def test_files_are_reported_by_mode_owner_digest(self, tmp_path):
        file = tmp_path / "secret"
        file.write_text("hush")
        file.chmod(0o640)
        before = host_baseline.digest(str(file))
        assert re.fullmatch(r"0640 \d+:\d+ [0-9a-f]{16}", before)
        file.write_text("hush!")
        assert host_baseline.digest(str(file)) != before

    def test_failed_kind_is_named_without_affecting_others(self, monkeypatch):
        """Only root can read all kinds: which others are there depends on the user, and not on the failed one."""
        intact = self.run_program()
        edit_program(monkeypatch, "host_baseline", lambda text: text.replace(": node,", ": lambda: 1 / 0,"))
        result = self.run_program()
        assert result["error"]["node"].startswith("ZeroDivisionError")
        assert "node" in intact and intact.keys() - {"node", "error"} == result.keys() - {"error"} != set()

    def run_program(self):
        command = [sys.executable, *python_arguments("host_baseline", {})[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


class TestComparison:
    WAS = {"etc": {"/etc/hosts": "a", "/etc/ssh/sshd_config": "b"}, "units": {"munge.service": "running"}, "node": {"life": "1"}}

    @pytest.mark.parametrize(
        ("kind", "name", "value", "category"),
        [
            ("etc", "/etc/hosts", "c", Category.BENIGN),
            ("etc", "/etc/ssh/sshd_config", "c", Category.SECURITY),
            ("etc", "/etc/sudoers.d/eve", "c", Category.SECURITY),
            ("units", "munge.service", None, Category.BREAKING),
        ],
    )
    def test_changed_added_and_removed_values_are_explained(self, kind, name, value, category):
        part = {key: one for key, one in {**self.WAS[kind], name: value}.items() if one is not None}
        (only,) = differences("lab", "worker0", self.WAS, {**self.WAS, kind: part})
        assert (only.node, only.subject, only.live, only.category) == ("worker0", f"baseline.{kind} {name}", value or "nothing", category)
        assert "rackwright drift lab --update-baseline" in only.remedy

    @pytest.mark.parametrize(("before", "after", "named"), [(None, "a", True), ("a", "b", True), ("a", None, False)])
    def test_reservation_counts_only_when_it_appears(self, before, after, named):
        was, now = ({"node": {"life": "1"}, "reservations": {"x": value} if value else {}} for value in (before, after))
        assert [one.subject for one in differences("lab", "login0", was, now)] == (["baseline.reservations x"] if named else [])

    def test_equal_states_have_no_difference(self):
        assert list(differences("lab", "worker0", self.WAS, self.WAS)) == []

    def test_order_of_routes_to_one_network_does_not_matter(self):
        """Every link with IPv6 has a route to fe80::/64, and a link that comes up again is the last one of the list."""
        name = "route -6 fe80::/64 table main metric 256"
        was = {"routes": {name: "dev bond0 protocol kernel; dev br0 protocol kernel"}, "mounts": {"/x": "a; b"}}
        assert list(differences("lab", "n0", was, {"routes": {name: "dev br0 protocol kernel; dev bond0 protocol kernel"}})) == []
        assert len(list(differences("lab", "n0", was, {"routes": {name: "dev br0 protocol kernel"}}))) == 1
        assert len(list(differences("lab", "n0", was, {"mounts": {"/x": "b; a"}}))) == 1

    def test_unread_kind_has_no_difference(self):
        assert list(differences("lab", "worker0", self.WAS, {"node": {"life": "1"}})) == []
