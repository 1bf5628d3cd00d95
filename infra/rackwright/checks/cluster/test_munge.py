"""Munge authenticates every Slurm message: one key on all nodes, readable by munged only."""

from __future__ import annotations

from collections import Counter

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.pytest_plugin import CheckPlugin
from rackwright.checks.cluster.probes.munge import DECODED, KEY, partner
from rackwright.checks.cluster.probes.units import MUNGE, UNITS
from rackwright.errors import UndeterminedError


def test_service_runs(ask: Ask, expect: Expect) -> None:
    """Without it every Slurm command on the node fails."""
    unit = ask(UNITS)[MUNGE]
    expect(unit.described, "active", holds=unit.state == "active")


def test_key_is_the_same_everywhere(ask: Ask, members: Members, expect: Expect) -> None:
    """Nodes with different keys reject each other. Each key's hashed digest is compared with that of most nodes."""
    own, digests = ask(KEY).digest, Counter[str]()
    for name in members("slurm"):
        try:
            digests[ask(KEY, of=name).digest] += 1
        except UndeterminedError:  # the check of that node reports the error
            continue
    common = digests.most_common(1)[0][0]
    expect("the key of most nodes" if own == common else "another key", "the key of most nodes")


def test_key_is_private(ask: Ask, expect: Expect) -> None:
    """A user who reads the key can act as any user on any node."""
    key = ask(KEY)
    expect(f"{key.owner} {key.mode}", "munge:munge 400 or 600", holds=key.owner == "munge:munge" and key.mode in ("400", "600"))


def test_credentials_decode_across_nodes(node: Record, check_plugin: CheckPlugin, ask: Ask, expect: Expect) -> None:
    """A credential of another node must decode here: this needs the same key, synchronised clocks and both daemons."""
    made_on = partner(check_plugin.context(node.name))
    expect({f"from {made_on}": ask(DECODED)}, {f"from {made_on}": "Success"})
