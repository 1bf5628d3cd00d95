"""Every role: its shape, and that what it documents is what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from support.rows import each_row

from rackwright import layout
from rackwright.plan import storage as planned
from rackwright.yaml_loader import load_yaml

ROLES = sorted(path for path in (Path(__file__).parents[2] / "roles").iterdir() if path.is_dir())
by_name = each_row("role", ROLES, ids=lambda role: role.name)


@cache
def read(path: Path) -> Any:
    """Return the data of a YAML file, read once for all tests."""
    return load_yaml(path.read_text(encoding="utf-8"))


def options(role: Path) -> dict[str, Any]:
    """The documented variables of all the role's entry points."""
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}


def test_there_are_roles() -> None:
    assert len(ROLES) >= 11


@by_name
def test_defaults_are_exactly_the_documented_optional_variables(role: Path) -> None:
    defaults = read(role / "defaults" / "main.yml") or {}
    documented = {name: option.get("default") for name, option in options(role).items() if not option.get("required")}
    assert defaults == documented


@by_name
def test_variables_carry_the_role_as_prefix_and_a_description(role: Path) -> None:
    for name, option in options(role).items():
        assert name.startswith(f"{role.name}_"), name
        assert option["description"], name


@by_name
def test_the_readme_names_every_variable(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    assert [name for name in options(role) if f"`{name}`" not in readme] == []


@by_name
def test_installing_is_a_step_of_its_own(role: Path) -> None:
    """The image bake runs it alone, in a container without a running systemd, on a host without a plan."""
    imported = [
        task["ansible.builtin.import_tasks"] for task in read(role / "tasks" / "main.yml") if "ansible.builtin.import_tasks" in task
    ]
    assert imported[0] == "install.yml"
    text = (role / "tasks" / "install.yml").read_text(encoding="utf-8").replace(f"{layout.COLLECTION_NAME}.", "")
    for word in ("systemd_units", "ansible.builtin.systemd", "ansible.builtin.service", "cluster.", "secrets"):
        assert word not in text, word


@by_name
def test_every_step_can_be_chosen_by_tag(role: Path) -> None:
    for task in read(role / "tasks" / "main.yml"):
        steps = {"install", "configure", "service"} & set(task["tags"])
        assert steps, task["name"]
        assert {f"{role.name}_{step}" for step in steps} <= set(task["tags"]), task["name"]


@by_name
def test_files_stay_short(role: Path) -> None:
    for path in (role / "tasks").glob("*.yml"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 80, path


@by_name
def test_downloads_are_retried(role: Path) -> None:
    """apt retries by itself (Acquire::Retries is 3 from apt 2.3.2 on, apt.conf(5)); a module that fetches a file does not."""
    for path in (role / "tasks").glob("*.yml"):
        for task in _all_tasks(read(path) or []):
            if "ansible.builtin.get_url" in task:
                assert (task["retries"], task["until"]) == (3, f"{task['register']} is succeeded"), f"{path}: {task['name']}"


def _all_tasks(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from _all_tasks(task.get(part, []))


def test_every_planned_disk_has_an_owner_and_units_that_wait_for_it() -> None:
    """A daemon that starts before its disk is mounted creates its data on the node's own disk."""
    users = read(Path(__file__).parents[2] / "roles" / "volumes" / "defaults" / "main.yml")["volumes_users"]
    paths = {value for name, value in vars(planned).items() if name.endswith("_PATH")}
    assert set(users) == paths
    assert all(user["owner"] and user["units"] for user in users.values())


def test_a_kubelet_that_protects_the_kernel_finds_the_settings_that_it_demands() -> None:
    """It ends at its start where one is missing: the lab lays files over the same six."""
    roles = Path(__file__).parents[2] / "roles" / "kubernetes"
    set_by_the_role = (roles / "templates" / "etc" / "sysctl.d" / "90-rackwright-kubernetes.conf.j2").read_text(encoding="utf-8")
    demanded = re.findall(r"(?:vm|kernel)/[a-z_/]+=\d+", (roles / "files" / "own-sysctls").read_text(encoding="utf-8"))
    assert len(demanded) == 6
    for name, value in (one.split("=") for one in demanded):
        assert f"{name.replace('/', '.')} = {value}\n" in set_by_the_role, name
