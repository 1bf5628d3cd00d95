"""Numbers that other programs cannot store are refused, with the limit and its source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.edited_stack import committed_stack, edited
from support.rows import each_row

from rackwright.model.finding import Severity
from rackwright.operations.stack import validate
from rackwright.stackfile.schema import schema

ACCOUNTS = {"scheduler__accounts": {"a": {"users": ["alice"]}}, "scheduler__qos": {"q": {}}}
SAVING = {"scheduler__power_saving": {"suspend_time": "3d"}}
JOBS = "slurmdbd stores 31 bits"
GPUS = "Slurm takes the largest numbers of 64 bits for no limit"
QUOTA = "Kubernetes is designed for 5,000 nodes"
SLURM = [
    ("accounts.a.fairshare", 2**31 - 2, "2147483647 means `parent`"),
    ("accounts.a.grp_gpus", 2**31 - 1, GPUS),
    ("accounts.a.grp_jobs", 2**31 - 1, JOBS),
    ("qos.q.priority", 2**31 - 1, JOBS),
    ("qos.q.grp_gpus", 2**31 - 1, GPUS),
    ("qos.q.grp_jobs", 2**31 - 1, JOBS),
    ("qos.q.max_gpus_per_job", 2**31 - 1, GPUS),
    ("qos.q.max_gpus_per_user", 2**31 - 1, GPUS),
    ("qos.q.max_jobs_per_user", 2**31 - 1, JOBS),
]
BOUNDED_BY_RULES = {
    "Bond.min_links": "bond-min-links",
    "FsxLustre.metadata_iops": "fsx-metadata",
    "FsxLustre.throughput": "fsx-throughput",
    "Gpus.count": "gpu-count",
    "MigDevices.devices": "mig-devices",
    "OtherGpus.devices": "gpu-others-devices",
    "NodeGpus.count": "gpu-count",
    "RootVolume.iops": "root-iops",
    "RootVolume.throughput": "root-throughput",
    "Tuning.hugepages": "tuning-hugepages-room",
    "User.uid": "uid-range",
    "UserGroup.gid": "user-group-gid",
}
"""The limit depends on other fields, or has a rule of its own."""
UNBOUNDED = {
    "Rolling.max_unavailable": "a batch of more workers than there are is all workers; nothing stores the number",
    "Tuning.sysctl": "each setting has a range of its own, which the kernel checks",
}


def errors_of(folder: Path, stack: str, **fields: Any) -> list[str]:
    """Return the errors of a committed stack after an edit."""
    declared = committed_stack(stack)
    for path, value in fields.items():
        declared = edited(declared, **{path: value})
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump({"config": {"rackwright:cluster": declared}}))
    return [str(one) for one in validate(file).findings if one.level is Severity.ERROR]


@pytest.mark.parametrize(("path", "limit", "source"), SLURM)
def test_slurm_number_beyond_its_storage_is_refused(tmp_path: Path, path: str, limit: int, source: str) -> None:
    field = f"scheduler__{path.replace('.', '__')}"
    assert errors_of(tmp_path, "lab", **ACCOUNTS, **{field: limit}) == []
    (error,) = errors_of(tmp_path, "lab", **ACCOUNTS, **{field: limit + 1})
    assert f"scheduler.{path} " in error and f"`{limit + 1}` is too large\n  use at most {limit}: " in error and source in error


def test_partition_beyond_slurms_nodes_is_refused(tmp_path: Path) -> None:
    assert errors_of(tmp_path, "lab", scheduler__partitions={"gpu": {"groups": ["worker"], "max_nodes": 65536}}) == []
    (error,) = errors_of(tmp_path, "lab", scheduler__partitions={"gpu": {"groups": ["worker"], "max_nodes": 65537}})
    assert "`65537` is too large\n  use at most 65536: Slurm manages no more nodes" in error


@each_row("key", ["suspend_timeout", "resume_timeout"])
def test_timeout_beyond_sixteen_bits_is_refused(key: str, tmp_path: Path) -> None:
    field = f"scheduler__power_saving__{key}"
    assert errors_of(tmp_path, "lab", **SAVING, **{field: "65533s"}) == []
    (error,) = errors_of(tmp_path, "lab", **SAVING, **{field: "65534s"})
    assert "`65534s` is too large\n  use at most 65533s: Slurm stores 16 bits" in error


@each_row("key", ["gpus", "cpus", "pods"])
def test_quota_beyond_any_cluster_is_refused(key: str, tmp_path: Path) -> None:
    assert errors_of(tmp_path, "lab-k8s", scheduler__namespaces={"team": {key: 2**31 - 1}}) == []
    (error,) = errors_of(tmp_path, "lab-k8s", scheduler__namespaces={"team": {key: 2**31}})
    assert "`2147483648` is too large\n  use at most 2147483647: " in error and QUOTA in error


@each_row("text", ["8388608TiB", "9" * 400 + "TiB", "9" * 5000 + "GiB"])
def test_size_beyond_sixty_three_bits_is_refused(text: str, tmp_path: Path) -> None:
    assert errors_of(tmp_path, "lab-k8s", scheduler__namespaces={"team": {"shared_volume": "8388607TiB"}}) == []
    (error,) = errors_of(tmp_path, "lab-k8s", scheduler__namespaces={"team": {"shared_volume": text}})
    assert "is too large\n  use at most 8388607TiB: a size has 63 bits" in error and len(error) < 250


@each_row("text", ["24856d", "9" * 400 + "s", "9" * 5000 + "d"])
def test_duration_beyond_slurms_clock_is_refused(text: str, tmp_path: Path) -> None:
    assert errors_of(tmp_path, "lab", **ACCOUNTS, scheduler__qos__q__max_wall="24855d") == []
    (error,) = errors_of(tmp_path, "lab", **ACCOUNTS, scheduler__qos__q__max_wall=text)
    assert "is too long\n  use at most 24855d: Slurm counts seconds in 31 bits" in error and len(error) < 250


@each_row("key", ["memlock", "stack", "nproc"])
def test_resource_limit_beyond_the_kernels_is_refused(key: str, tmp_path: Path) -> None:
    assert errors_of(tmp_path, "rack-h100", tuning={"limits": {key: 2**53 - 1}}) == []
    assert "use at most 9007199254740991: " in errors_of(tmp_path, "rack-h100", tuning={"limits": {key: 2**53}})[0]


@each_row("text", ["9" * 5000, "0x" + "f" * 5000])
def test_number_that_python_does_not_print_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(f"config:\n  rackwright:cluster:\n    rolling: {{max_unavailable: {text}}}\n")
    (error,) = [str(one) for one in validate(file).findings]
    assert "cannot be read as int" in error and len(error) < 250


def unbounded_integers(part: Any, place: str) -> Iterator[str]:
    """Yield the places of a JSON schema whose integers have neither a maximum nor a list of values."""
    if not isinstance(part, dict):
        return
    if part.get("type") == "integer" and not {"maximum", "exclusiveMaximum", "enum", "const"} & part.keys():
        yield place
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in part.get(key, ()):
            yield from unbounded_integers(choice, place)
    for key in ("items", "additionalProperties"):
        yield from unbounded_integers(part.get(key), place)
    for pattern in part.get("patternProperties", {}).values():
        yield from unbounded_integers(pattern, place)
    for name, inner in part.get("properties", {}).items():
        yield from unbounded_integers(inner, f"{place}.{name}")


def test_every_integer_of_the_model_has_a_limit_or_a_reason_for_none() -> None:
    found = {place for name, part in schema()["$defs"].items() for place in unbounded_integers(part, name)}
    assert found == BOUNDED_BY_RULES.keys() | UNBOUNDED.keys()


def test_rules_that_bound_a_number_exist() -> None:
    from rackwright.rules import RULES

    assert set(BOUNDED_BY_RULES.values()) <= RULES.keys()
