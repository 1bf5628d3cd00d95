"""The table of areas covers the product and the end-to-end tests, and nothing in it is stale."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from areas import table
from areas.table import Area, Pass, read_areas, read_passes, worker_of, write_passes

AREAS = read_areas()
PRODUCT = ("infra/", "ansible_collections/", "playbooks/", "roles/", "stacks/", "tools/bootstrap/",
           "tools/kubernetes/", "tools/pulumi/", "Pulumi.yaml", "ansible.cfg", "requirements.lock")  # fmt: skip


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """Files that git tracks, and new ones that it does not ignore."""
    listing = table.git("ls-files", "--cached", "--others", "--exclude-standard")
    assert listing
    return [file for file in listing.splitlines() if (table.ROOT / file).exists()]


def test_each_product_file_belongs_to_an_area(tracked: list[str]) -> None:
    product = [file for file in tracked if file.startswith(PRODUCT)]
    assert len(product) > 900
    assert [file for file in product if not any(area.covers(file) for area in AREAS.values())] == []


def test_each_end_to_end_test_belongs_to_one_area(tracked: list[str]) -> None:
    tests = [file for file in tracked if file.startswith(("tests/e2e/", "tests/faults/", "tests/newcomer/")) and "/test_" in file]
    assert len(tests) > 30
    assert {file: count for file in tests if (count := sum(area.holds(file) for area in AREAS.values())) != 1} == {}


@pytest.mark.parametrize("area", AREAS.values(), ids=AREAS)
def test_each_pattern_and_test_exists(area: Area, tracked: list[str]) -> None:
    assert [pattern for pattern in area.paths if not any(fnmatchcase(file, pattern) for file in tracked)] == []
    assert [test for test in area.tests if not (table.ROOT / test).exists()] == []


def test_other_targets_exist() -> None:
    makefile = (table.ROOT / "Makefile").read_text(encoding="utf-8")
    assert [area.only for area in AREAS.values() if area.only and f"\n{area.only}: " not in makefile] == []


def test_area_covers_its_own_tests_and_its_paths() -> None:
    area = Area("storage", ["tests/e2e/storage"], ["roles/nfs_*"])
    assert area.covers("tests/e2e/storage/test_nfs.py") and area.covers("roles/nfs_server/tasks/main.yml")
    assert not area.covers("tests/e2e/storage_other.py") and not area.covers("roles/base/nfs_.yml")


def test_record_keeps_the_later_pass(tmp_path: Path) -> None:
    older, later = Pass("aaa", "2026-11-01 10:00+00:00", 60, 5, 0), Pass("bbb", "2026-11-02 09:00+00:00", 61, 5, 1)
    for name, one in (("tracked", later), ("local", older)):
        write_passes({"drift": one}, AREAS, tmp_path / name)
    assert read_passes(tmp_path / "tracked", tmp_path / "local", tmp_path / "absent") == {"drift": later}


def test_record_drops_areas_that_the_table_no_longer_has(tmp_path: Path) -> None:
    one = Pass("aaa", "2026-11-01 10:00+00:00", 60, 5, 0)
    write_passes({"gone": one, "drift": one}, AREAS, tmp_path / "record")
    assert list(read_passes(tmp_path / "record")) == ["drift"]


@pytest.mark.parametrize(
    "text", ["drift: {commit: a\n<<<<<<< HEAD\n", "drift: {commit: a}\n", "- drift\n"], ids=["conflict", "field missing", "a list"]
)
def test_record_that_cannot_be_read_is_named_with_a_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "record").write_text(text)
    with pytest.raises(SystemExit, match=r"record: [\s\S]*Restore the record"):
        read_passes(tmp_path / "record")


def test_files_of_areas_with_one_worker_share_it() -> None:
    areas = list(AREAS.values())
    shared = {worker_of(f"tests/e2e/{file}", areas) for file in ("slurm/test_up.py", "drift/test_drift.py", "hosts/test_hosts.py")}
    machines = {worker_of(f"tests/e2e/vm/{file}", areas) for file in ("test_cluster.py", "test_nfs.py", "test_faults.py")}
    assert (shared, machines) == ({"lab"}, {"machines"})
    assert worker_of("tests/e2e/vm/test_bmc.py", areas) == "tests/e2e/vm/test_bmc.py"
    assert worker_of("tests/unit/model/test_limits.py", areas) == "tests/unit/model/test_limits.py"
