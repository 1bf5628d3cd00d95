"""Where the user's project lies, and names of files that are the same in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright import layout

ROOT = Path(__file__).resolve().parents[2]
OURS = "name: rackwright  # not changed\nruntime: python\n"


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is a folder below an empty one."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.delenv(layout.PROJECT_ENV, raising=False)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of product data of an installed wheel."""
    data = tmp_path / "site-packages" / "rackwright" / "_data"
    data.mkdir(parents=True)
    monkeypatch.setattr(layout, "product_root", lambda: data)
    return data


def test_product_of_checkout_is_checkout() -> None:
    assert layout.product_root() == ROOT
    assert layout.is_checkout()
    assert layout.doctor_command() == "make doctor"


def test_project_is_nearest_folder_of_our_name(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(OURS)
    assert layout.project_root() == tmp_path
    (tmp_path / "a" / "Pulumi.yaml").write_text(OURS)
    assert layout.project_root() == tmp_path / "a"


def test_edited_pulumi_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(OURS)
    assert layout.is_project(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: other\n")
    assert not layout.is_project(tmp_path)
    (tmp_path / "Pulumi.yaml").unlink()
    assert not layout.is_project(tmp_path)


def test_environment_names_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "Pulumi.yaml").write_text(OURS)
    monkeypatch.setenv(layout.PROJECT_ENV, str(tmp_path / "named"))
    assert layout.project_root() == tmp_path / "named"


@pytest.mark.parametrize("text", ["name: other\n", "description: 'name: rackwright'\n", "  name: rackwright\n", "name: rackwright-2\n", ""])
def test_foreign_pulumi_project_is_no_project(tmp_path: Path, text: str) -> None:
    """The engine would work in it, too: a project above it is not taken."""
    (tmp_path / "Pulumi.yaml").write_text(OURS)
    (tmp_path / "a" / "Pulumi.yaml").write_text(text)
    assert layout.project_root() == ROOT


def test_wheel_without_project_uses_working_directory(installed: Path, tmp_path: Path) -> None:
    assert layout.project_root() == tmp_path / "a" / "b"
    assert not layout.is_checkout()
    assert layout.doctor_command() == "rackwright up STACK"


def test_files_of_wheel_have_names_of_checkout(installed: Path) -> None:
    for name in (f"_data/{layout.ROLES}/base/tasks/main.yml", "drivers/ssh_connections.py", "errors.py"):
        (installed.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (installed.parent / name).touch()
    found = layout.named_files(installed, [layout.ROLES, "infra/rackwright/drivers/*.py", "infra/rackwright/errors.py"])
    assert dict(found) == {
        "infra/rackwright/drivers/ssh_connections.py": installed.parent / "drivers/ssh_connections.py",
        "infra/rackwright/errors.py": installed.parent / "errors.py",
        f"{layout.ROLES}/base/tasks/main.yml": installed / layout.ROLES / "base/tasks/main.yml",
    }
    assert list(found) == sorted(found)


def test_names_do_not_depend_on_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    parts = [layout.ANSIBLE_CFG, f"{layout.ROLES}/base/tasks/*.yml"]
    assert list(layout.named_files(Path(), parts)) == list(layout.named_files(ROOT, parts))


@pytest.mark.parametrize("part", ["playbooks", "infra/rackwright/drivers/*.py", "infra/rackwright/errors.py"])
def test_part_without_file_raises_in_wheel(installed: Path, part: str) -> None:
    with pytest.raises(FileNotFoundError, match="no file of the project matches"):
        layout.named_files(installed, [part])
