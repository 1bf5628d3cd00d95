"""What the roles write on each node of several clusters, against the files kept under tests/golden/roles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from goldens import Goldens, compact

from rackwright.drivers.ssh_key_pair import generate

from .conftest import HERE, play, recorded_steps
from .written import Kept, Step, assert_nothing_is_lost

MONITORING = {
    "authority": "certificate of the authority\n",
    "client": {"certificate": "certificate of the client\n", "private_key": "key of the client\n"},
    "servers": {
        name: {"certificate": f"certificate of {name}\n", "private_key": f"key of {name}\n", "not_after": "2029-03-02T08:00:00+00:00"}
        for name in ("login0", "worker0")
    },
}
CLUSTERS = sorted(path.stem for path in (HERE / "inventories").glob("*.yml"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Step]]:
    """By cluster: what the modules were asked, in order."""

    def record(cluster: str) -> list[Step]:
        # What is done with these is not in the record.
        secrets = {"host_keys": {"login0": generate("login0")[1]} if cluster == "aws" else {}, "kubernetes_encryption_key": "a2V5"}
        secrets |= {"monitoring": MONITORING} if cluster == "monitoring" else {}
        inventory = HERE / "inventories" / f"{cluster}.yml"
        return recorded_steps(play(folders[cluster], "record.yml", inventory, {"secrets": secrets}, "--skip-tags install"))

    folders: dict[str, Path] = {cluster: tmp_path_factory.mktemp("runner") for cluster in CLUSTERS}
    with ThreadPoolExecutor(2) as side_by_side:
        return dict(zip(CLUSTERS, side_by_side.map(record, CLUSTERS), strict=True))


@pytest.fixture(scope="module")
def kept(recorded: dict[str, list[Step]]) -> tuple[Kept, dict[str, dict[str, Any]]]:
    """The files of all clusters, and by cluster its manifest."""
    files = Kept()
    return files, {cluster: files.manifest(steps, f"{cluster}/") for cluster, steps in recorded.items()}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nodes_get_what_they_got(cluster: str, kept: Any, goldens: Goldens) -> None:
    """Every text they get, and what else the modules are asked. Of a file that a role copies the manifest names the source."""
    files, manifests = kept
    goldens.check(f"roles/{cluster}/manifest.json", compact(manifests[cluster]) + "\n")
    for name, text in files.files.items():
        if name.startswith(f"{cluster}/"):
            goldens.check(f"roles/{name}", text)


def test_each_golden_file_is_of_a_node_that_gets_it(kept: Any, goldens: Goldens) -> None:
    goldens.check_names("roles", [*(f"{cluster}/manifest.json" for cluster in CLUSTERS), *kept[0].files])


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_manifest_holds_each_step_of_each_node_in_order(cluster: str, recorded: dict[str, list[Step]], kept: Any) -> None:
    assert_nothing_is_lost(kept[0], kept[1][cluster], recorded[cluster])
