"""Packet filter of a node as nft prints it, and an evaluation of one new TCP connection against its rules.

The evaluation supports only the expressions that this needs. A rule with any other expression, such as a module of iptables, of which
nft prints the name alone, may match or not. UndeterminedError is raised where the decision depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import json_documents
from rackwright.errors import UndeterminedError

ChainKey = tuple[str, str, str]
"""Family, table and name."""


@dataclass(frozen=True)
class Packet:
    """The first packet of a TCP connection over IPv4, or over IPv6 if the source is an IPv6 address."""

    source: str
    port: int
    destination: str = ""
    interface: str = "eth0"
    leaves_by: str = ""
    """Output interface of a forwarded packet; empty for a packet to the node itself."""

    @property
    def family(self) -> str:
        """Return the family of tables that see the packet beside `inet`: ip or ip6."""
        return "ip6" if ":" in self.source else "ip"


@dataclass(frozen=True)
class Chain:
    """Rules in order; a base chain also has its hook and its policy."""

    kind: str | None
    hook: str | None
    priority: int
    policy: str
    rules: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Ruleset:
    """Chains by (family, table, name), named sets by (family, table, name)."""

    chains: Mapping[ChainKey, Chain]
    sets: Mapping[ChainKey, tuple[Any, ...]]

    @property
    def input_policies(self) -> tuple[str, ...]:
        """Return the policy of each base chain on the input hook."""
        return tuple(chain.policy for _, chain in self._filter_chains("input"))

    def admits(self, packet: Packet) -> bool:
        """Return whether all chains on the hook accept the packet. Raise UndeterminedError where that depends on an unsupported rule."""
        hook, doubts = "forward" if packet.leaves_by else "input", list[str]()
        found = [self._verdicts(key, packet, doubts) for key, _ in self._filter_chains(hook, packet.family)]
        if {"drop"} in found:  # no other chain can accept what one drops: nft(8), CHAINS
            return False
        if any("drop" in verdicts for verdicts in found):
            raise UndeterminedError(doubts[0])
        return True

    def _filter_chains(self, hook: str, family: str = "ip") -> list[tuple[ChainKey, Chain]]:
        """Return the chains on a hook, without those of type nat: these change where a packet goes, not whether it passes."""
        found = [
            (key, chain) for key, chain in self.chains.items() if chain.hook == hook and chain.kind != "nat" and key[0] in (family, "inet")
        ]
        return sorted(found, key=lambda item: item[1].priority)

    def _verdicts(self, key: ChainKey, packet: Packet, doubts: list[str]) -> set[str]:
        """Return the possible verdicts of a chain: accept, drop; of a chain without hook also return."""
        chain, found = self.chains[key], set[str]()
        for rule in chain.rules:
            outcomes = self._outcomes(key, rule, packet, doubts)
            found |= outcomes - {"continue"}
            if "continue" not in outcomes:
                break
        else:
            found.add("return")
        return (found - {"return"}) | {chain.policy} if chain.hook and "return" in found else found

    def _outcomes(self, key: ChainKey, rule: tuple[Any, ...], packet: Packet, doubts: list[str]) -> set[str]:
        """Return the possible outcomes of a rule. `continue`: the next rule decides."""
        maybe = set[str]()
        for statement in rule:
            try:
                outcome = self._outcome(key, *_parts(statement), packet, doubts)
            except (UndeterminedError, *_UNREADABLE) as error:
                doubts.append(str(error) if isinstance(error, UndeterminedError) else f"the ruleset has an unreadable rule: {error!r}")
                maybe |= {"continue"} if _is_condition(statement) else {"continue", "accept", "drop"}
                continue
            if outcome:
                return outcome | maybe
        return {"continue"} | maybe

    def _outcome(self, key: ChainKey, kind: str, value: Any, packet: Packet, doubts: list[str]) -> set[str]:
        """Return the outcomes of a statement that decides; none if the next statement of the rule does."""
        if kind == "match":
            return set() if self._matches(key, value, packet) else {"continue"}
        if kind == "vmap":
            verdict = self._mapped(key, value, packet)
            return self._outcome(key, *_parts(verdict), packet, doubts) if verdict is not None else set()
        if kind in ("jump", "goto"):
            found = self._verdicts((key[0], key[1], value["target"]), packet, doubts)
            return {"continue" if kind == "jump" and verdict == "return" else verdict for verdict in found}
        if kind in ("limit", "ct count") and isinstance(value, Mapping):
            return {"continue"} if value.get("inv") else set()  # `over`: one packet is not above a limit
        if kind == "xt" and isinstance(value, Mapping) and value.get("type") == "target":
            return {"drop"} if value.get("name") in ("DROP", "REJECT") else {"accept", "drop"} if value.get("name") == "NFQUEUE" else set()
        if kind in _VERDICTS:
            return {"drop" if kind == "reject" else kind}
        if kind in _HARMLESS or (kind == "mangle" and not {"meta", "ct"}.isdisjoint(value["key"])):  # a mark, not the packet's addresses
            return set()
        raise UndeterminedError(f"the ruleset has an unsupported statement: {kind}")

    def _mapped(self, key: ChainKey, value: Mapping[str, Any], packet: Packet) -> Mapping[str, Any] | None:
        data = value["data"]
        pairs = self.sets[(key[0], key[1], data[1:])] if isinstance(data, str) else data["set"]
        actual = _actual(value["key"], packet)
        if actual is _NOT_THERE:
            return None
        return next((verdict for element, verdict in pairs if _is(actual, element)), None)

    def _matches(self, key: ChainKey, match: Mapping[str, Any], packet: Packet) -> bool:
        actual = _actual(match["left"], packet)
        if actual is _NOT_THERE:  # a rule about another protocol does not match this packet, even with !=
            return False
        right = match["right"]
        if isinstance(right, str) and right.startswith("@"):
            right = {"set": list(self.sets[(key[0], key[1], right[1:])])}
        hit = _is(actual, right)
        return not hit if match["op"] == "!=" else hit


_VERDICTS: Final = ("accept", "drop", "reject", "return", "jump", "goto")
_HARMLESS: Final = frozenset(
    ("counter", "log", "comment", "last", "notrack", "set", "flow", "dup", "secmark", "ct helper", "ct timeout", "ct expectation")
)
"""Statements that change or record something and leave the verdict to the next one: libnftables-json(5), STATEMENTS."""
_CONDITIONS: Final = frozenset({"match", "xt", "limit", "quota", "ct count", "meter"})
"""Statements after which the rule goes on or ends: a module of iptables, too, unless it is a target."""
_UNREADABLE: Final = (LookupError, ValueError, TypeError, AttributeError)
_Address = IPv4Address | IPv6Address
_NOT_THERE: Final = object()


def _parts(statement: Any) -> tuple[str, Any]:
    """Return kind and content of a statement or object; nft prints a text for what it cannot write as JSON."""
    if isinstance(statement, Mapping) and len(statement) == 1:
        return next(iter(statement.items()))
    return (str(statement), None) if statement else ("empty", None)


def _is_condition(statement: Any) -> bool:
    kind, value = _parts(statement)
    return kind in _CONDITIONS and not (kind == "xt" and not isinstance(value, Mapping))


def _actual(left: Mapping[str, Any], packet: Packet) -> Any:
    """Return the packet's value of the left side of a match."""
    kind, about = next(iter(left.items()))
    if kind == "concat":
        parts = [_actual(part, packet) for part in about]
        return _NOT_THERE if any(part is _NOT_THERE for part in parts) else tuple(parts)
    if kind == "payload" and "protocol" in about:
        return _field(about["protocol"], about["field"], packet)
    if kind == "ct" and about["key"] == "state":
        return "new"
    meta = {"iif": packet.interface, "iifname": packet.interface, "l4proto": "tcp"}
    meta |= {"nfproto": "ipv6" if packet.family == "ip6" else "ipv4", "protocol": packet.family}
    meta |= {"oif": packet.leaves_by, "oifname": packet.leaves_by} if packet.leaves_by else {}
    if kind == "meta" and about["key"] in meta:
        return meta[about["key"]]
    raise UndeterminedError(f"the ruleset matches an unsupported expression: {json.dumps(left)}")


def _field(protocol: str, field: str, packet: Packet) -> Any:
    header = "nexthdr" if packet.family == "ip6" else "protocol"
    fields = {(packet.family, "saddr"): packet.source, (packet.family, "daddr"): packet.destination, (packet.family, header): "tcp"}
    if protocol in ("tcp", "th") and field == "dport":
        return packet.port
    if (protocol, field) in fields:
        return fields[protocol, field]
    if protocol in ("udp", "icmp", "icmpv6", "igmp", "sctp", *({"ip", "ip6"} - {packet.family})):
        return _NOT_THERE
    raise UndeterminedError(f"the ruleset matches an unsupported field: {protocol} {field}")


def _is(actual: Any, right: Any) -> bool:
    """Return whether a value equals the right side of a match or is contained in it."""
    if isinstance(right, list):
        return any(_is(actual, item) for item in right)
    if actual == "" and isinstance(right, str) and ":" in right:
        raise UndeterminedError("the ruleset matches an IPv6 address that the test packet does not have")
    if not isinstance(right, Mapping):
        return str(actual) == str(right) or (isinstance(right, str) and right.endswith("*") and str(actual).startswith(right[:-1]))
    if "set" in right:
        return any(_is(actual, item) for item in right["set"])
    if "elem" in right:
        return _is(actual, right["elem"]["val"])
    if "concat" in right:
        parts = right["concat"]
        return isinstance(actual, tuple) and len(parts) == len(actual) and all(map(_is, actual, parts))
    if actual == "" and not {"prefix", "range"}.isdisjoint(right):
        raise UndeterminedError("the ruleset matches an address that the test packet does not have")
    if "prefix" in right:
        return ip_address(actual) in ip_network(f"{right['prefix']['addr']}/{right['prefix']['len']}", strict=False)
    if "range" in right:
        low, high = right["range"]
        return low <= actual <= high if isinstance(actual, int) else _is_between(ip_address(actual), ip_address(low), ip_address(high))
    raise UndeterminedError(f"the ruleset compares with an unsupported value: {json.dumps(right)}")


def _is_between(address: _Address, low: _Address, high: _Address) -> bool:
    return address.version == low.version and int(low) <= int(address) <= int(high)


_PRIORITIES: Final = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
"""Names of priorities: nft(8), CHAINS."""


def parse_ruleset(text: str) -> Ruleset:
    """Return the ruleset of `nft --json list ruleset`, without dormant tables, whose chains see no packet: nft(8), TABLES."""
    (document,) = json_documents(text)
    heads: dict[ChainKey, Mapping[str, Any]] = {}
    rules: dict[ChainKey, list[tuple[Any, ...]]] = {}
    sets: dict[ChainKey, tuple[Any, ...]] = {}
    dormant: set[tuple[str, str]] = set()
    for item in document["nftables"]:
        kind, body = _parts(item)
        if kind == "table" and "dormant" in (body.get("flags") or ()):
            dormant.add((body["family"], body["name"]))
        elif kind == "chain":
            heads[body["family"], body["table"], body["name"]] = body
        elif kind == "rule":
            rules.setdefault((body["family"], body["table"], body["chain"]), []).append(tuple(body.get("expr") or ()))
        elif kind in ("set", "map"):
            sets[body["family"], body["table"], body["name"]] = tuple(body.get("elem") or ())
    return Ruleset({key: _chain(head, rules.get(key, ())) for key, head in heads.items() if key[:2] not in dormant}, sets)


def _chain(head: Mapping[str, Any], rules: Iterable[tuple[Any, ...]]) -> Chain:
    priority = head.get("prio", 0)
    number = _PRIORITIES[priority] if priority in _PRIORITIES else int(priority)
    return Chain(head.get("type"), head.get("hook"), number, head.get("policy", "accept"), tuple(rules))


RULESET = Probe("firewall", on="nodes", command="nft --json list ruleset", parse=parse_ruleset)


_CONNECT: Final = """
import os, socket
PATIENCE = 2 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
def ask(who):
    try:
        socket.create_connection(("169.254.169.254", 80), PATIENCE).close()
        said = "open"
    except ConnectionRefusedError:
        said = "refused"
    except OSError:
        said = "silent"
    print(who, said, flush=True)
ask("root")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ask("nobody")
"""
"""Connects as root and, after dropping privileges, as `nobody`. It sends no request, so that the service returns no credentials."""


def parse_metadata_service(text: str) -> dict[str, str]:
    """Return the result of each connection from lines `root WORD` and `nobody WORD`, with WORD one of open, refused, silent."""
    found = dict(line.split() for line in text.splitlines())
    if set(found) != {"root", "nobody"} or not set(found.values()) <= {"open", "refused", "silent"}:
        raise ValueError("root and `nobody` did not both send a request")
    return found


def _metadata_service(context: ProbeContext) -> str:
    """Return the command. If the plan has no metadata service, no connection is made: the address may be another host's in that network."""
    return f"python3 -I -S -c '{_CONNECT}'" if context.declared.cluster.get("metadata_service") else "true"


METADATA_SERVICE = Probe("metadata-service", on="nodes", command=_metadata_service, parse=parse_metadata_service)
