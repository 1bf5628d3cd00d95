"""Packets that a loaded ruleset accepts, by evaluation of its rules."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row

from rackwright.checks.cluster import test_firewall
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.firewall import METADATA_SERVICE, Packet, parse_metadata_service, parse_ruleset
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured" / "firewall"
LOGIN, WORKER, STRANGER = "10.77.0.16", "10.77.0.25", "203.0.113.9"


def ruleset(case):
    """Return a captured ruleset."""
    return parse_ruleset((FOLDER / f"{case}.txt").read_text(encoding="utf-8"))


def rules(*expressions, policy="drop", chains=(), sets=()):
    """Return a ruleset with one input chain of these rules."""
    head = {"chain": {"family": "inet", "table": "t", "name": "input", "hook": "input", "prio": 0, "policy": policy}}
    body = [{"rule": {"family": "inet", "table": "t", "chain": "input", "expr": list(expression)}} for expression in expressions]
    return parse_ruleset(json.dumps({"nftables": [{"metainfo": {}}, head, *chains, *sets, *body]}))


def match(left, right, op="=="):
    """Return one comparison."""
    return {"match": {"op": op, "left": left, "right": right}}


DPORT = {"payload": {"protocol": "tcp", "field": "dport"}}
SADDR = {"payload": {"protocol": "ip", "field": "saddr"}}


class TestRoleRules:
    @pytest.mark.parametrize(
        ("case", "source", "port", "admitted"),
        [
            ("good-worker", LOGIN, 22, True),
            ("good-worker", WORKER, 22, False),
            ("good-worker", STRANGER, 22, False),
            ("good-worker", WORKER, 6818, True),
            ("good-worker", STRANGER, 6818, False),
            ("good-entry", STRANGER, 22, True),
            ("good-entry", STRANGER, 6817, False),
            ("good-entry", WORKER, 6817, True),
            ("good-flat", STRANGER, 6818, False),
            ("good-flat", LOGIN, 22, True),
        ],
    )
    def test_role_rules_decide_about_packets(self, case, source, port, admitted):
        assert ruleset(case).admits(Packet(source, port)) is admitted

    def test_policy_drops_by_default(self):
        assert ruleset("good-worker").input_policies == ("drop",)


class TestIpv6:
    """Packets over IPv6, which the rules of the cluster's own IPv4 addresses do not match."""

    STRANGER = "2001:db8::cb00:7109"
    SADDR = {"payload": {"protocol": "ip6", "field": "saddr"}}

    @pytest.mark.parametrize(("case", "port"), [("good-worker", 22), ("good-entry", 22), ("good-entry", 6817), ("good-flat", 6818)])
    def test_role_rules_admit_no_ipv6(self, case, port):
        """0.0.0.0/0 is every address of IPv4."""
        assert not ruleset(case).admits(Packet(self.STRANGER, port))

    @pytest.mark.parametrize(
        ("source", "port", "admitted"),
        [
            ("2001:db8:7::9", 22, True),
            ("2001:db8:7::9", 6817, False),
            ("2001:db8:8::9", 22, False),
            ("fe80::9", 22, False),
            ("192.0.2.9", 22, True),
            (STRANGER, 22, False),
        ],
    )
    def test_role_rules_of_two_families_decide(self, source, port, admitted):
        """The rules of a machine with `allowed_cidrs: [192.0.2.0/24, "2001:db8:7::/64"]`, as nft 1.0.6 prints them."""
        assert ruleset("good-dual-stack").admits(Packet(source, port)) is admitted

    @pytest.mark.parametrize(("source", "admitted"), [("2001:db8:7::9", True), ("2001:db8:8::9", False), (STRANGER, False)])
    def test_allowed_network_admits_its_addresses(self, source, admitted):
        own = {"prefix": {"addr": "2001:db8:7::", "len": 64}}
        assert rules([match(self.SADDR, own), match(DPORT, 22), {"accept": None}]).admits(Packet(source, 22)) is admitted

    @pytest.mark.parametrize(
        ("left", "value", "admitted"),
        [
            ({"meta": {"key": "nfproto"}}, "ipv6", True),
            ({"meta": {"key": "nfproto"}}, "ipv4", False),
            ({"meta": {"key": "protocol"}}, "ip6", True),
            ({"payload": {"protocol": "ip6", "field": "nexthdr"}}, "tcp", True),
            ({"payload": {"protocol": "ip", "field": "protocol"}}, "tcp", False),
        ],
    )
    def test_family_of_a_packet_is_matched(self, left, value, admitted):
        assert rules([match(left, value), {"accept": None}]).admits(Packet(self.STRANGER, 22)) is admitted

    @pytest.mark.parametrize(("family", "admitted"), [("ip6", False), ("ip", True)])
    def test_tables_of_its_family_see_a_packet(self, family, admitted):
        head = {"chain": {"family": family, "table": "t", "name": "input", "hook": "input", "prio": 0, "policy": "drop"}}
        assert parse_ruleset(json.dumps({"nftables": [{"metainfo": {}}, head]})).admits(Packet(self.STRANGER, 22)) is admitted

    def test_rule_for_one_address_of_the_node_is_unknown(self):
        """The plan has no IPv6 address of a node."""
        own = rules([match({"payload": {"protocol": "ip6", "field": "daddr"}}, "2001:db8::5"), {"accept": None}])
        with pytest.raises(UndeterminedError, match="IPv6 address that the test packet does not have"):
            own.admits(Packet(self.STRANGER, 22))

    @pytest.mark.parametrize(
        ("allow", "rule", "fails"),
        [
            (["0.0.0.0/0"], None, False),
            (["0.0.0.0/0"], [{"accept": None}], True),
            (["0.0.0.0/0", "2001:db8:7::/64"], None, True),
            (["0.0.0.0/0", "2001:db8:7::/64"], [match(SADDR, {"prefix": {"addr": "2001:db8:7::", "len": 64}}), {"accept": None}], False),
            (["0.0.0.0/0", "::/0"], [match(SADDR, {"prefix": {"addr": "::", "len": 0}}), {"accept": None}], False),
        ],
    )
    def test_check_compares_both_families(self, allow, rule, fails):
        any4 = [match({"payload": {"protocol": "ip", "field": "saddr"}}, {"prefix": {"addr": "0.0.0.0", "len": 0}}), {"accept": None}]
        node = SimpleNamespace(name="login0", ssh_port=22, address=LOGIN)
        cluster = SimpleNamespace(access=SimpleNamespace(allow=allow), network=SimpleNamespace(gateway=None))
        with pytest.raises(Mismatch) if fails else nullcontext():
            test_firewall.test_admits_only_allowed_networks(node, cluster, lambda _: rules(any4, *([rule] if rule else [])), Expect())

    def test_hole_over_ipv6_only_is_found(self):
        node = SimpleNamespace(name="worker0", ssh_port=22, address=WORKER)
        cluster = SimpleNamespace(access=SimpleNamespace(jump_hosts=["login0"]), network=SimpleNamespace(gateway=None))
        open6 = rules([match({"meta": {"key": "nfproto"}}, "ipv6"), match(DPORT, 22), {"accept": None}])
        with pytest.raises(Mismatch, match="2001:db8"):
            test_firewall.test_blocks_external(node, cluster, lambda _: open6, Expect())


class TestOtherRules:
    def test_missing_ruleset_accepts_everything(self):
        empty = parse_ruleset('{"nftables": [{"metainfo": {}}]}')
        assert empty.input_policies == ()
        assert empty.admits(Packet(STRANGER, 22))

    def test_second_chain_must_accept_too(self):
        second = {"chain": {"family": "ip", "table": "u", "name": "late", "hook": "input", "prio": 10, "policy": "drop"}}
        assert not rules([{"accept": None}], chains=[second]).admits(Packet(LOGIN, 22))

    def test_range_of_other_address_family_never_matches(self):
        found = rules([match(SADDR, {"set": [{"range": ["fd00::1", "fd00::9"]}, {"range": ["10.0.0.1", "10.0.0.9"]}]}), {"accept": None}])
        assert found.admits(Packet("10.0.0.5", 22))
        assert not found.admits(Packet("10.0.0.10", 22))

    def test_prefixes_ranges_and_sets_match(self):
        inside = match(SADDR, {"prefix": {"addr": "10.77.0.0", "len": 24}})
        ports = match(DPORT, {"set": [22, {"range": [60001, 63000]}]})
        found = rules([inside, ports, {"accept": None}])
        assert [found.admits(Packet(LOGIN, port)) for port in (22, 60001, 62000, 63001)] == [True, True, True, False]
        assert not found.admits(Packet(STRANGER, 22))

    def test_not_equal_matches(self):
        found = rules([match(SADDR, LOGIN, "!="), {"drop": None}], [{"accept": None}])
        assert found.admits(Packet(LOGIN, 1))
        assert not found.admits(Packet(WORKER, 1))

    def test_rules_for_other_protocols_are_skipped(self):
        found = rules([match({"payload": {"protocol": "ip6", "field": "saddr"}}, "::1", "!="), {"drop": None}], [{"accept": None}])
        assert found.admits(Packet(LOGIN, 22))

    def test_jumps_return_and_gotos_do_not(self):
        side = {"chain": {"family": "inet", "table": "t", "name": "side"}}
        body = {"rule": {"family": "inet", "table": "t", "chain": "side", "expr": [match(DPORT, 22), {"return": None}]}}
        assert rules([{"jump": {"target": "side"}}], [{"accept": None}], chains=[side, body]).admits(Packet(LOGIN, 22))
        assert not rules([{"goto": {"target": "side"}}], [{"accept": None}], chains=[side, body]).admits(Packet(LOGIN, 22))

    def test_verdict_maps_are_evaluated(self):
        table = {"key": DPORT, "data": {"set": [[22, {"accept": None}], [{"range": [6817, 6820]}, {"drop": None}]]}}
        found = rules([{"vmap": table}], [{"accept": None}])
        assert [found.admits(Packet(LOGIN, port)) for port in (22, 6818, 80)] == [True, False, True]

    def test_counters_and_logs_have_no_effect(self):
        assert not rules([{"counter": {"packets": 1, "bytes": 2}}, {"log": {"prefix": "x"}}, {"reject": None}]).admits(Packet(LOGIN, 22))

    @pytest.mark.parametrize(
        "expression",
        [
            [{"xt": None}, {"accept": None}],
            [match({"fib": {"result": "type", "flags": ["daddr"]}}, "local"), {"accept": None}],
            [match(SADDR, {"what": "ever"}), {"accept": None}],
            [match({"payload": {"base": "nh", "offset": 0, "len": 8}}, 1), {"accept": None}],
            [match({"payload": {"protocol": "tcp", "field": "flags"}}, "syn"), {"accept": None}],
        ],
    )
    def test_unsupported_statement_is_unknown(self, expression):
        with pytest.raises(UndeterminedError, match="unsupported"):
            rules(expression).admits(Packet(LOGIN, 22))


def chain(name, *expressions, table="u", **hook):
    """Return a chain of another table with its rules."""
    head = {"chain": {"family": "ip", "table": table, "name": name, **hook}}
    return [head, *({"rule": {"family": "ip", "table": table, "chain": name, "expr": list(one)}} for one in expressions)]


INPUT = {"type": "filter", "hook": "input", "prio": 0, "policy": "accept"}
COUNTED = {"counter": {"packets": 1, "bytes": 60}}
FLOWTABLE = {"flowtable": {"family": "ip", "table": "u", "name": "f", "dev": "eth0"}}
NAT = {**INPUT, "type": "nat", "hook": "prerouting"}
MANAGED = "# Warning: table ip u is managed by iptables-nft, do not touch!"
MODULE = {"xt": {"type": "match", "name": "conntrack"}}
LATE = {
    "module-of-iptables-before-a-drop": (chain("INPUT", [MODULE, {"drop": None}], **INPUT), None),
    "module-of-iptables-before-an-accept": (
        chain("INPUT", [MODULE, COUNTED, {"accept": None}], **INPUT),
        True,
    ),
    "target-of-iptables": (chain("INPUT", [MODULE, {"xt": {"type": "target", "name": "REJECT"}}], **INPUT), None),
    "target-that-drops": (chain("INPUT", [{"xt": {"type": "target", "name": "REJECT"}}], **INPUT), False),
    "target-that-marks": (chain("INPUT", [MODULE, {"xt": {"type": "target", "name": "MARK"}}], **INPUT), True),
    "jump-to-a-chain-that-returns": (
        [*chain("KUBE-NODEPORTS", [MODULE, {"return": None}]), *chain("INPUT", [MODULE, {"jump": {"target": "KUBE-NODEPORTS"}}], **INPUT)],
        True,
    ),
    "jump-to-a-chain-that-drops": (
        [*chain("KUBE-FIREWALL", [MODULE, {"drop": None}]), *chain("INPUT", [{"jump": {"target": "KUBE-FIREWALL"}}], **INPUT)],
        None,
    ),
    "jump-to-a-missing-chain": (chain("INPUT", [{"jump": {"target": "gone"}}], **INPUT), None),
    "drop-of-another-port-after-a-module": (chain("INPUT", [MODULE, match(DPORT, 23), {"drop": None}], **INPUT), True),
    "limit-over": (chain("INPUT", [{"limit": {"rate": 10, "per": "second", "inv": True}}, {"drop": None}], **INPUT), True),
    "limit-below": (chain("INPUT", [{"limit": {"rate": 10, "per": "second"}}, {"accept": None}], [{"drop": None}], **INPUT), True),
    "connections-over": (chain("INPUT", [{"ct count": {"val": 8, "inv": True}}, {"reject": None}], **INPUT), True),
    "quota": (chain("INPUT", [{"quota": {"val": 25, "val_unit": "mbytes"}}, {"drop": None}], **INPUT), None),
    "mark": (chain("INPUT", [{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}, {"accept": None}], **INPUT), True),
    "text-instead-of-json": (chain("INPUT", ['osf name "Linux"', {"drop": None}], **INPUT), None),
    "statement-without-content": (chain("INPUT", [{"xt": None}, {"drop": None}], **INPUT), None),
    "rule-without-statements": ([*chain("INPUT", **INPUT), {"rule": {"family": "ip", "table": "u", "chain": "INPUT"}}], True),
    "priority-by-name": (chain("INPUT", [{"drop": None}], **{**INPUT, "prio": "filter"}), False),
    "missing-set": (chain("INPUT", [match(SADDR, "@gone"), {"drop": None}], **INPUT), None),
    "nat-of-docker": (
        chain("PREROUTING", [MODULE, {"jump": {"target": "DOCKER"}}], **NAT),
        True,
    ),
    "flowtable-and-objects": (
        [{"flowtable": {"family": "ip", "table": "u", "name": "f", "dev": "eth0"}}, {"counter": {"family": "ip"}}, {}],
        True,
    ),
}


class TestTablesOfOtherPrograms:
    """Docker, libvirt, kube-proxy and fail2ban add tables of their own, most of them by iptables-nft."""

    @each_row("case", LATE)
    def test_accepted_packet_depends_on_all_tables(self, case):
        others, admitted = LATE[case]
        found = rules([match(DPORT, 22), {"accept": None}], chains=others)
        with pytest.raises(UndeterminedError, match=r"unsupported|unreadable") if admitted is None else nullcontext():
            assert found.admits(Packet(LOGIN, 22)) is admitted

    @each_row("case", LATE)
    def test_own_drop_is_final(self, case):
        assert rules([match(DPORT, 22), {"accept": None}], chains=LATE[case][0]).admits(Packet(STRANGER, 6818)) is False

    @pytest.mark.parametrize("flags", ["dormant", ["dormant"]])
    def test_dormant_table_filters_nothing(self, flags):
        found = rules([{"drop": None}], chains=[{"table": {"family": "inet", "name": "t", "flags": flags}}])
        assert found.input_policies == () and found.admits(Packet(STRANGER, 6818))

    def test_warnings_around_the_ruleset_are_skipped(self):
        text = json.dumps({"nftables": [{"metainfo": {}}, *chain("INPUT", [{"drop": None}], **INPUT)]})
        assert not parse_ruleset(f"Warning: x\n{text}\n# Warning: table ip u is managed by iptables-nft, do not touch!\n").admits(
            Packet(LOGIN, 22)
        )


POD = "10.244.25.7"


def through(source, port):
    """Return a packet that is forwarded to a pod."""
    return Packet(source, port, POD, leaves_by="cni0")


class TestRulesWithKubernetes:
    """The roles' rules with those of kube-proxy and kubelet: verdict maps with three keys, chains that translate addresses."""

    @pytest.mark.parametrize(
        ("packet", "admitted"),
        [
            (Packet(LOGIN, 22, WORKER), True),
            (Packet(STRANGER, 22, WORKER), False),
            (Packet(LOGIN, 10250, WORKER), True),
            (Packet(STRANGER, 10250, WORKER), False),
            (Packet(STRANGER, 30003, WORKER), False),
            (through(LOGIN, 80), True),
            (through(STRANGER, 80), False),
            (through("10.244.16.9", 8080), True),
        ],
    )
    def test_rules_beside_kubernetes_decide_about_packets(self, packet, admitted):
        assert ruleset("good-kubernetes").admits(packet) is admitted

    def test_verdict_map_refuses_service_without_pods(self):
        found = ruleset("good-kubernetes")
        assert not found.admits(Packet(LOGIN, 30001, "10.77.0.24"))
        assert not found.admits(Packet(LOGIN, 80, "10.245.0.42", leaves_by="cni0"))
        assert found.admits(Packet(LOGIN, 81, "10.244.25.1", leaves_by="cni0"))

    def test_address_translation_neither_accepts_nor_refuses(self):
        chain = {"family": "ip", "table": "n", "name": "in", "type": "nat", "hook": "input", "prio": 100, "policy": "accept"}
        rule = {"family": "ip", "table": "n", "chain": "in", "expr": [{"masquerade": None}]}
        found = rules([{"accept": None}], chains=[{"chain": chain}, {"rule": rule}])
        assert found.input_policies == ("drop",)
        assert found.admits(Packet(LOGIN, 22))

    def test_forwarded_packets_pass_through_other_chains(self):
        assert not rules().admits(Packet(LOGIN, 22))
        assert rules().admits(through(LOGIN, 22))

    @pytest.mark.parametrize(
        "expression",
        [
            [match({"concat": [SADDR, {"fib": {"result": "type"}}]}, {"concat": [LOGIN, "local"]}), {"accept": None}],
            [match({"ct": {"key": "status"}}, "dnat"), {"accept": None}],
            [{"mangle": {"key": {"payload": {"protocol": "ip", "field": "daddr"}}, "value": "10.0.0.1"}}, {"accept": None}],
            [{"vmap": {"key": {"numgen": {"mode": "random", "mod": 1}}, "data": {"set": [[0, {"accept": None}]]}}}],
        ],
    )
    def test_unsupported_deciding_statement_is_unknown(self, expression):
        with pytest.raises(UndeterminedError, match="unsupported"):
            rules(expression).admits(Packet(LOGIN, 22, WORKER))

    def test_rule_on_missing_address_is_unknown(self):
        with pytest.raises(UndeterminedError, match="address that the test packet does not have"):
            ruleset("good-kubernetes").admits(Packet(LOGIN, 22))


class TestForwardingCheck:
    """firewall.forwards_only_the_cluster, on correct and on wrong rules."""

    @staticmethod
    def judged(found):
        hosts = [SimpleNamespace(name=name, address=address) for name, address in (("login0", LOGIN), ("worker0", WORKER))]
        cluster = SimpleNamespace(
            network=SimpleNamespace(gateway="10.77.0.1"), hosts=hosts, scheduler=SimpleNamespace(pods="10.244.0.0/16")
        )
        planned = SimpleNamespace(pods="10.244.25.0/24")
        test_firewall.test_forwards_only_the_cluster(hosts[1], cluster, planned, lambda _: found, Expect())

    def test_role_rules_pass(self):
        self.judged(ruleset("good-kubernetes"))

    @pytest.mark.parametrize("case", ["good-worker", "open-forward"])
    def test_rules_that_forward_outside_traffic_fail(self, case):
        """Without a forward chain everything is forwarded; one wrong rule suffices as well."""
        with pytest.raises(Mismatch, match=r"203\.0\.113\.9"):
            self.judged(ruleset(case))


class TestMetadataService:
    """169.254.169.254 under the roles' rules."""

    @pytest.mark.parametrize(("case", "nobody"), [("good", "refused"), ("open", "open")])
    def test_result_of_metadata_probe_is_read(self, case, nobody):
        text = (FOLDER.parent / "metadata-service" / f"{case}.txt").read_text(encoding="utf-8")
        assert parse_metadata_service(text) == {"root": "open", "nobody": nobody}

    @pytest.mark.parametrize(("service", "asks"), [(True, True), (False, False)])
    def test_probe_queries_only_a_planned_service(self, service, asks):
        command = METADATA_SERVICE.command_at(SimpleNamespace(declared=SimpleNamespace(cluster={"metadata_service": service})))
        assert ("169.254.169.254" in command) == asks

    @pytest.mark.parametrize(
        ("found", "ends"),
        [
            ({"root": "open", "nobody": "refused"}, None),
            ({"root": "open", "nobody": "open"}, Mismatch),
            ({"root": "open", "nobody": "silent"}, UndeterminedError),
            ({"root": "silent", "nobody": "refused"}, None),
            ({"root": "silent", "nobody": "silent"}, UndeterminedError),
        ],
    )
    def test_check_compares_probe_result(self, found, ends):
        """Never run on real nodes; run in a container by tests/e2e/cloud/test_cloud_node.py."""
        with pytest.raises(ends) if ends else nullcontext():
            test_firewall.test_metadata_service_restricted(lambda _: found, Expect())
