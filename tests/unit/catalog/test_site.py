"""Rows that a site adds to the catalogue: files in site/catalog, and what is said about wrong ones."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rackwright import catalog, layout, rules
from rackwright.catalog import site
from rackwright.catalog.instances import instance_types
from rackwright.catalog.mig import mig_profiles
from rackwright.catalog.site_findings import site_findings
from rackwright.catalog.switches import switches
from rackwright.inventory import paths
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster

GPU = "{product: NVIDIA RTX A5500, memory_mib: 24564, architecture: ampere, source: nvidia-smi on worker0, date: 2026-11-20}"
SWITCH = (
    "{product: Example 32, link_layer: InfiniBand, ports: 32, rate_gbps: 56, speed: FDR, rack_units: 1, subnet_manager: false,"
    " source: its label, date: 2026-11-20}"
)
INSTANCE = (
    "{architecture: x86_64, cpus: 64, cores: 32, memory_mib: 262144, gpu_model: a5500, gpu_count: 4, gbps: 50, regions: [us-east-1],"
    " price: {usd_per_hour: 3.5, region: us-east-1, source: price list, date: 2026-11-20}, source: aws ec2, date: 2026-11-20}"
)
LAB: dict[str, Any] = yaml_reader.read(Path(__file__).parent.parent / "rules/good.yml")[0][0]["cluster"]


MIG = (
    "{profiles: {1g.24gb: {memory_gib: 23.6, compute_slices: 1, memory_slices: 1, starts: [0, 1, 2, 3]},"
    " 2g.48gb: {memory_gib: 47.4, compute_slices: 2, memory_slices: 2, starts: [0, 2]}},"
    " compute_slices: 4, memory_slices: 4, source: nvidia-smi mig -lgipp, date: 2026-11-20}"
)
GPU_MIG = GPU.replace("24564", "97887").replace("ampere", f"blackwell, mig: {MIG}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the site's catalogue."""
    monkeypatch.setattr(site, "folder", lambda: tmp_path)
    return tmp_path


def said() -> list[str]:
    """Return all findings as text."""
    assert all(finding.is_error and finding.hint for finding in site_findings())
    return [f"{finding.path}: {finding.cause}" for finding in site_findings()]


def test_project_without_a_site_catalog_has_no_findings(folder: Path) -> None:
    assert site_findings() == () and "a5500" not in catalog.gpus()


def test_project_is_looked_for_once_for_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules ask for each node, and a look costs ten system calls. Another folder or variable may lead to another project."""
    looked: list[Path] = []

    def project_root() -> Path:
        looked.append(Path.cwd())
        return Path(os.environ.get(layout.PROJECT_ENV, Path.cwd()))

    monkeypatch.setattr(layout, "project_root", project_root)
    monkeypatch.delenv(layout.PROJECT_ENV, raising=False)
    (tmp_path / "other").mkdir()
    for place in (tmp_path, tmp_path / "other", tmp_path):
        monkeypatch.chdir(place)
        assert [site.folder() for _ in range(3)] == [place / layout.SITE_CATALOG] * 3
    assert looked == [tmp_path, tmp_path / "other"]
    monkeypatch.setenv(layout.PROJECT_ENV, str(tmp_path / "named"))
    assert site.folder() == tmp_path / "named" / layout.SITE_CATALOG


def test_rows_of_a_site_are_beside_those_of_the_product(folder: Path) -> None:
    (folder / "own.yml").write_text(f"gpus: {{a5500: {GPU}}}\nswitches: {{example32: {SWITCH}}}\n")
    (folder / "types.yaml").write_text(f"instances: {{z9.16xlarge: {INSTANCE}}}\n")
    assert said() == []
    gpu, switch, instance = catalog.gpus()["a5500"], switches()["example32"], instance_types()["z9.16xlarge"]
    assert (gpu.product, gpu.memory_mib, gpu.power_watts, gpu.vendor) == ("NVIDIA RTX A5500", 24564, None, "nvidia")
    assert (switch.ports, switch.speed, switch.subnet_manager, switch.subnet_manager_nodes) == (32, "FDR", False, None)
    assert (instance.gpu_model, instance.usd_per_hour, instance.price_date) == ("a5500", 3.5, date(2026, 11, 20))
    assert "h100" in catalog.gpus() and "qm9700" in switches() and "p5.48xlarge" in instance_types()


def test_stack_can_use_a_row_of_its_site(folder: Path) -> None:
    """The plan carries the figures to roles and checks."""
    cluster = load_cluster({**LAB, "groups": {**LAB["groups"], "worker": {"count": 1, "gpus": {"model": "a5500", "count": 2}}}}, "lab")
    before = [finding.rule for finding in rules.check(cluster, date(2026, 12, 1))]
    (folder / "gpus.yml").write_text(f"gpus: {{a5500: {GPU}}}\n")
    site._read.cache_clear()
    assert (before, rules.check(cluster, date(2026, 12, 1))) == (["gpu-model"], ())
    assert cluster.cluster is not None
    gpus = next(node.gpus for node in expand(cluster.cluster, "lab").nodes if node.gpus)
    assert (gpus.product, gpus.memory_mib) == ("NVIDIA RTX A5500", 24564)


@pytest.mark.parametrize(
    ("text", "where", "cause"),
    [
        ("", "site/catalog/gpus.yml", "is empty"),
        ("[]", "site/catalog/gpus.yml", "expected a mapping"),
        ("gpus: [", "gpus.yml:2:1", "while parsing"),
        ("nics: {}", "site/catalog/gpus.yml: nics", "unknown key `nics`"),
        (f"gpus: {{a5500: {GPU.replace(', source: nvidia-smi on worker0', '')}}}", "gpus.a5500.source", "is missing"),
        (f"gpus: {{a5500: {GPU.replace('date: 2026-11-20', 'date: x')}}}", "gpus.a5500.date", "is not a day"),
        (f"gpus: {{a5500: {GPU.replace('24564', '24GiB')}}}", "gpus.a5500.memory_mib", "expected a whole number"),
        (f"gpus: {{a5500: {GPU.replace('ampere', 'cdna3')}}}", "gpus.a5500.architecture", "is not one of kepler, maxwell, pascal"),
        (f"gpus: {{h100: {GPU}}}", "site/catalog: gpus.h100", "the product's catalogue has a row of this name"),
        (f"instances: {{z9.large: {INSTANCE}}}", "instances.z9.large.gpu_model", "`a5500` is not in the catalogue"),
    ],
)
def test_wrong_row_is_a_finding_of_every_stack(folder: Path, text: str, where: str, cause: str) -> None:
    """With the file's place and a hint."""
    (folder / "gpus.yml").write_text(text + "\n")
    (finding,) = said()
    assert where in finding and cause in finding
    loaded = load_cluster(LAB, "lab")
    assert [one.rule for one in rules.check(loaded, date(2026, 12, 1))] in (["site-catalog"], ["yaml-syntax"])


NEW_GENERATION = """
gpus: {x100: {product: NVIDIA X100, memory_mib: 294912, architecture: example, nvswitch: true, nvlink: true, nvlink_domain: 8,
  compute_capability: "14.0", source: nvidia-smi on worker0, date: 2026-11-20}}
architectures: {example: {kernel_modules: [open], driver_first: 640, cuda_first: "14.0", source: release notes, date: 2026-11-20}}
driver_branches: {640: {kind: production, ends: 2028-03-31, cuda: 14, source: supported drivers, date: 2026-11-20}}
cuda: {14: {driver_minimum: 640, source: release notes, date: 2026-11-20}}
"""


@pytest.mark.parametrize(
    ("versions", "causes"),
    [
        ({"driver": "640.10.01", "cuda": "14.0"}, []),
        ({}, ["driver 580.173.02 does not support x100, whose first driver is 640", "CUDA 13.0 does not support x100 (Example 14.0)"]),
        ({"driver": "640.10.01", "cuda": "13.3"}, ["CUDA 13.3 does not support x100 (Example 14.0), whose first release is 14.0"]),
        ({"driver": "620.10.01", "cuda": "14.0"}, ["driver 620.10.01 does not support x100", "CUDA 14.0 needs a driver of branch 640"]),
    ],
)
def test_generation_of_a_site_decides_drivers_and_cuda(folder: Path, versions: dict[str, str], causes: list[str]) -> None:
    """A new generation, its driver branch and its CUDA release need rows, and no release of rackwright."""
    (folder / "x100.yml").write_text(NEW_GENERATION)
    assert said() == []
    loaded = machines(model="x100", count=8, software={"versions": versions})
    found = [one.cause for one in rules.check(loaded, date(2026, 12, 1)) if one.is_error]
    assert len(found) == len(causes) and all(cause in one for cause, one in zip(causes, found, strict=True)), found


def test_rows_of_the_product_are_not_replaced(folder: Path) -> None:
    (folder / "own.yml").write_text(NEW_GENERATION.replace("640: {kind", "620: {kind").replace("14: {driver", "13: {driver"))
    assert [finding.partition(":")[2] for finding in said()] == [
        " driver_branches.620: the product's catalogue has a row of this name",
        " cuda.13: the product's catalogue has a row of this name",
    ]


GOOD: list[dict[str, Any]] = yaml_reader.read(Path(__file__).parent.parent / "rules/good.yml")[0]


def machines(software: Any = None, **gpus: Any) -> Any:
    """Return a cluster of existing machines whose workers have these GPUs."""
    (own,) = [row["change"] for row in GOOD if row["name"] == "machines that exist"]
    groups = {name: {**LAB["groups"].get(name, {}), **group} for name, group in own["groups"].items()}
    declared = {"software": software} if software is not None else {}
    shared = LAB["storage"]["sharedfs"] | {"kind": "nfs"}  # One machine has no packages of MooseFS.
    declared["storage"] = {**LAB["storage"], "sharedfs": shared}
    return load_cluster(
        {**LAB, **own, **declared, "groups": {**LAB["groups"], **groups, "worker": {**groups["worker"], "gpus": gpus}}}, "rack"
    )


def test_gpu_of_a_site_can_be_divided(folder: Path) -> None:
    """The plan has the places of the instances, and Slurm the types."""
    (folder / "gpus.yml").write_text(f"gpus: {{a5500: {GPU_MIG}}}\n")
    assert said() == []
    loaded = machines(model="a5500", count=1, mig={"2g.48gb": 1, "1g.24gb": 2})
    assert [(one.rule, one.cause) for one in rules.check(loaded, date(2026, 12, 1)) if one.rule.startswith("mig")] == []
    assert loaded.cluster is not None
    plan = expand(loaded.cluster, "rack")
    node = next(node for node in plan.nodes if node.gpus and node.gpus.mig)
    assert node.gpus is not None
    assert [[(one.profile, one.start) for one in gpu] for gpu in node.gpus.mig] == [[("2g.48gb", 0), ("1g.24gb", 2), ("1g.24gb", 3)]]
    types = {gres.type for row in plan.scheduler.nodes for gres in row.gres if row.name == node.name}
    assert types == {"a5500_2g.48gb", "a5500_1g.24gb"}
    assert mig_profiles("a5500")["2g.48gb"].kubernetes_resource == "nvidia.com/mig-2g.48gb"


def test_unknown_profile_says_how_to_add_it(folder: Path) -> None:
    (folder / "gpus.yml").write_text(f"gpus: {{a5500: {GPU_MIG}, a6500: {GPU}}}\n")
    for model, profile, rule, says in (
        ("a5500", "4g.96gb", "mig-profile", "to the row `gpus: a5500` in site/catalog/gpus.yml"),
        ("a6500", "4g.96gb", "mig-model", "to the row `gpus: a6500` in site/catalog/gpus.yml"),
        ("rtxpro5000", "2g.48gb", "mig-model", "to a GPU row of another name than rtxpro5000 in site/catalog/gpus.yml"),
    ):
        found = [one for one in rules.check(machines(model=model, count=1, mig=profile), date(2026, 12, 1)) if one.rule == rule]
        assert [says in one.hint for one in found] == [True], (model, found)


@pytest.mark.parametrize(
    ("old", "new", "where", "cause"),
    [
        ("blackwell", "ada", "gpus.a5500.mig", "GPUs of architecture ada have no MIG"),
        ("compute_slices: 2, m", "compute_slices: 3, m", "profiles.2g.48gb.compute_slices", "contradicts the name, which begins with 2g"),
        ("}}, compute_slices: 4", "}}, compute_slices: 1", "profiles.2g.48gb.compute_slices", "2 are more than the 1 of the GPU"),
        ("47.4", "23.6", "profiles.2g.48gb.memory_gib", "23.6 GiB contradict the name, which ends with 48gb"),
        ("97887", "40960", "profiles.2g.48gb.memory_gib", "47.4 GiB are more than the 40.0 GiB of the GPU"),
        ("starts: [0, 2]", "starts: [0, 3]", "profiles.2g.48gb.starts", "at 3 ends beyond the 4 of the GPU"),
        ("starts: [0, 2]", "starts: [0, 1]", "profiles.2g.48gb.starts", "instances of 2 memory slices overlap"),
        ("starts: [0, 2]", "starts: [2, 0]", "profiles.2g.48gb.starts", "the starts are not ascending"),
        ("starts: [0, 2]", "starts: []", "profiles.2g.48gb.starts", ""),
        (", source: nvidia-smi mig -lgipp", "", "gpus.a5500.mig.source", "is missing"),
        ("2g.48gb", "2g48", "gpus.a5500.mig.profiles", ""),
    ],
)
def test_wrong_mig_profile_is_a_finding(folder: Path, old: str, new: str, where: str, cause: str) -> None:
    assert old in GPU_MIG
    (folder / "gpus.yml").write_text(f"gpus: {{a5500: {GPU_MIG.replace(old, new)}}}\n")
    (finding,) = said()
    assert where in finding and cause in finding


def test_example_of_the_documentation_is_valid(folder: Path) -> None:
    """People copy it."""
    page = (paths.project_root() / "docs/catalog.md").read_text(encoding="utf-8")
    (folder / "example.yml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    assert said() == []
    rows = site.catalog().rows
    assert rows.gpus and rows.switches and rows.instances


def test_row_in_two_files_is_a_finding(folder: Path) -> None:
    for name in ("a.yml", "b.yml"):
        (folder / name).write_text(f"gpus: {{a5500: {GPU}}}\n")
    assert said() == ["site/catalog/b.yml: gpus.a5500: another file has a row of this name"]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("h100-pcie", "h100-pcie"),
        ("h100pcie", "h100-pcie"),
        ("H100-PCIe", "h100-pcie"),
        ("h100-sxm4", None),
        ("h1000", None),
        ("msb7800", None),
    ],
)
def test_hint_never_proposes_a_model_of_another_class(word: str, near: str | None) -> None:
    from rackwright.model.finding import nearest_of_class

    assert nearest_of_class(word, ["h100", "h200", "h100-pcie", "qm9700", "qm8700"]) == near
