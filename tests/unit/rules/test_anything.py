"""Whatever a file says, the answer is findings: neither the model nor a rule ever raises."""

from __future__ import annotations

import copy
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright import rules
from rackwright.inventory import paths
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY, load_cluster

GOOD: list[dict[str, Any]] = yaml_reader.read(Path(__file__).parent / "good.yml")[0]
TODAY = date(2026, 12, 1)
AWS: dict[str, Any] = yaml_reader.read(paths.stack_file("aws-p5"))[0]["config"][CONFIG_KEY]
SOFTWARE: dict[str, Any] = {
    **GOOD[0]["cluster"],
    "software": {
        "profile": "2026-lts-cuda12",
        "versions": {"cuda": "12.8", "driver": "580.65.06"},
        "nccl": {"environment": {"NCCL_ALGO": "Ring"}},
    },
}

WORDS = st.sampled_from(
    [
        "login",
        "worker",
        "worker0",
        "storage0",
        "gpu",
        "h100",
        "lab",
        "10.77.0.0/24",
        "10.77.0.0/31",
        "5m",
        "0s",
        "2GiB",
        "/mnt/x",
        "/",
        "out",
        "x",
        "aws",
        "p5.48xlarge",
        "t3.small",
        "spot",
        "PERSISTENT_1",
        "HDD",
        "us-east-2",
        "0.0.0.0/0",
        "1200GiB",
        "2026-lts",
        "debian-13",
        "v100",
        "13.0",
        "open",
        "dma-buf",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 70000) | st.floats(allow_nan=False) | WORDS | st.text(max_size=8)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=3), max_leaves=6
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree."""
    inside = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [path, *(place for key, value in inside for place in places(value, (*path, key)))]


@pytest.mark.parametrize("base", [GOOD[0]["cluster"], AWS, SOFTWARE], ids=["lab", "aws", "software"])
@settings(derandomize=True)
@given(data=st.data())
def test_any_value_at_any_place_is_judged(base: dict[str, Any], data: st.DataObject) -> None:
    """And what has no error can be planned."""
    cluster: Any = copy.deepcopy(base)
    for _ in range(data.draw(st.integers(1, 3))):
        *parents, last = data.draw(st.sampled_from(places(cluster)[1:]))
        place = cluster
        for key in parents:
            place = place[key]
        place[last] = data.draw(ANYTHING | WORDS)
    loaded = load_cluster(cluster, "lab")
    found = rules.check(loaded, TODAY)
    assert all(finding.path and finding.cause for finding in found)
    assert (loaded.cluster is None) <= any(finding.is_error for finding in found)
    if loaded.cluster is not None and not any(finding.is_error for finding in found):
        json.dumps(expand(loaded.cluster, "lab").to_data())
