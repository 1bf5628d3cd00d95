"""Rows that a site adds to the catalogue: files in site/catalog, and what is said about wrong ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rackwright import catalog, rules
from rackwright.catalog import site
from rackwright.catalog.compatibility import architectures
from rackwright.catalog.instances import instance_types
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
        (f"gpus: {{a5500: {GPU.replace('ampere', 'cdna3')}}}", "gpus.a5500.architecture", "is not one of pascal"),
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


def test_architectures_of_a_site_are_those_of_the_product() -> None:
    """A row of an architecture that the compatibility catalogue lacks could not be judged."""
    known = site.SiteGpu.model_json_schema()["properties"]["architecture"]["enum"]
    assert set(known) == set(architectures())


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
