"""Munge authenticates every Slurm message: one key, everywhere, readable by munged alone."""

from __future__ import annotations

from collections import Counter

from cluster.probes.munge import DECODED, KEY, partner
from cluster.probes.units import MUNGE, UNITS
from rackwright.errors import CouldNotTell


def test_service_runs(ask, expect):
    """Without it every Slurm command on the node fails."""
    unit = ask(UNITS)[MUNGE]
    expect(unit.described, "active", holds=unit.state == "active")


def test_key_is_the_same_everywhere(ask, members, expect):
    """Told by a digest of its digest, and against what most nodes have, so that the odd one is named."""
    mine, digests = ask(KEY).digest, Counter()
    for name in members("slurm"):
        try:
            digests[ask(KEY, of=name).digest] += 1
        except CouldNotTell:  # that node's own check says so
            continue
    common = digests.most_common(1)[0][0]
    expect("the common one" if mine == common else "another one", "the common one")


def test_key_is_private(ask, expect):
    """Whoever reads the key can act as any user on any node."""
    key = ask(KEY)
    expect(f"{key.owner} {key.mode}", "munge:munge 400 or 600", holds=key.owner == "munge:munge" and key.mode in ("400", "600"))


def test_credentials_cross_nodes(node, judge, ask, expect):
    """A credential made on another node is understood here: same key, clocks in step, both daemons alive."""
    made_on = partner(judge.place(node.name))
    expect(f"{ask(DECODED)}, from {made_on}", f"Success, from {made_on}")
