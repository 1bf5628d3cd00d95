"""Verdict on the connections between the GPUs of a node, as the driver lists them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations

from rackwright.checks.acceptance.parsers.nvidia_smi import Topology
from rackwright.checks.acceptance.phase import Finding, compared, unknown
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.errors import UndeterminedError


def gpus_connected(check: str, node: str, found: Topology, gpus: int) -> Finding:
    """Verify that as many NVLinks (`NV18`) join each two GPUs. Raises UndeterminedError if no pair differs and one was not read."""
    names = found.names("GPU")
    if len(names) != gpus:
        return unknown(check, node, f"nvidia-smi topo lists {len(names)} GPUs, not {gpus}")
    paths = {pair: found.paths.get(pair) for pair in permutations(names, 2)}
    read = {pair: path for pair, path in paths.items() if isinstance(path, str)}
    links = Counter(path for path in read.values() if re.fullmatch(r"NV\d+", path))
    usual = links.most_common(1)[0][0] if links else "NV#"
    other = {pair: path for pair, path in read.items() if path != usual}
    unread = next((path for path in paths.values() if isinstance(path, UnreadableValue)), None)
    if not other and (unread is not None or len(read) < len(paths)):
        raise UndeterminedError(unread.why if unread is not None else "nvidia-smi topo left out a pair of GPUs")
    named = [f"{one}-{two} {path}" for (one, two), path in other.items() if names.index(one) < names.index(two) or (two, one) not in other]
    words = ", ".join(named[:4]) + (", …" if len(named) > 4 else "")
    return compared(check, node, words or usual, usual)
