"""The wheel holds every file that the product reads, and none of the project's own tests."""

from __future__ import annotations

import re
import stat
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from support.imports import foreign_imports

from rackwright import layout

ROOT = Path(__file__).resolve().parents[2]
_OF_USERS = {layout.STACKS, layout.SITE_CATALOG}
_NO_PATHS = {layout.PROJECT_ENV, layout.PROJECT_NAME, layout.COLLECTION_NAME, layout.PULUMI_FILE, layout._DATA}
_NAMED = {value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)} - _OF_USERS - _NO_PATHS
PARTS = sorted(part for part in _NAMED if not part.startswith(layout.PACKAGE))
"""The product's files outside the package."""


@pytest.fixture(scope="module")
def contents() -> dict[str, Path]:
    """The files of the wheel: path in it -> source."""
    builder = WheelBuilder(str(ROOT))
    found = [*builder.recurse_included_files(), *builder.recurse_forced_files(builder.config.get_force_include())]
    return {file.distribution_path: Path(file.path) for file in found}


@pytest.mark.parametrize("part", [*PARTS, "tools/pulumi"])
def test_wheel_holds_every_file_of_product(contents: dict[str, Path], part: str) -> None:
    wanted = {f"rackwright/_data/{file.relative_to(ROOT)}": file for file in layout.files(ROOT, [part])}
    assert wanted.items() <= contents.items()


def test_wheel_holds_package_with_its_data(contents: dict[str, Path]) -> None:
    package = {str(file.relative_to(ROOT / "infra")): file for file in layout.files(ROOT, [layout.PACKAGE])}
    assert package.items() <= contents.items()
    assert f"rackwright/_data/{layout.STACKS}/Pulumi.lab.yaml" in contents


def test_wheel_holds_nothing_else(contents: dict[str, Path]) -> None:
    assert {path.split("/")[0] for path in contents} == {"rackwright"}
    data = {path.split("/")[2] for path in contents if path.startswith("rackwright/_data/")}
    assert data == {"ansible.cfg", "ansible_collections", "infra", "playbooks", "stacks", "tools"}
    assert not [path for path in contents if "__pycache__" in path]


def test_programs_of_wheel_are_executable(contents: dict[str, Path]) -> None:
    programs = [
        file for path, file in contents.items() if path.endswith(("tools/kubernetes/build", "tools/bootstrap/run", "pulumi/shim.sh"))
    ]
    assert len(programs) == 3
    assert all(stat.S_IMODE(file.stat().st_mode) & 0o111 for file in programs if file.name != "shim.sh")


def _normalized(name: str) -> str:
    """Return the name of a distribution as it is compared (packaging.python.org, Names and normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_with(names: set[str]) -> set[str]:
    """Return these distributions and those that pip installs with them."""
    found: set[str] = set()
    while names:
        name = names.pop()
        found.add(name)
        try:
            needed = [Requirement(text) for text in requires(name) or []]
        except PackageNotFoundError:
            continue
        names |= {_normalized(one.name) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})} - found
    return found


def test_wheel_requires_each_package_that_it_imports() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    installed = _installed_with({_normalized(Requirement(text).name) for text in declared})
    files = [*(ROOT / "infra").rglob("*.py"), *(ROOT / "ansible_collections").rglob("*.py")]
    on_nodes = {"kubernetes", "torch"}
    own = {"rackwright", "ansible_collections"}
    provided = {name for name, by in packages_distributions().items() if installed & {_normalized(one) for one in by}}
    known = provided | sys.stdlib_module_names | on_nodes | own
    missing = set().union(*(foreign_imports(file, known) for file in files))
    assert not missing, f"imported, but not among the dependencies of pyproject.toml: {sorted(missing)}"
