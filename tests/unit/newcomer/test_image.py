"""The recipe decides which image is used, and the build command names no mirror."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from newcomer import image
from newcomer.errors import MachineError
from newcomer.image import PACKAGES, Recipe, bootstrap_command, cache_folder, read_recipe

RECIPE = Recipe("debian-13", ("git", "make"), ("true\n",), (("own.crt", "text"),))


@pytest.mark.parametrize(
    "change",
    [
        {"os": "debian-12"},
        {"packages": ("git", "make", "python3")},
        {"scripts": ("false\n",)},
        {"certificates": ()},
        {"certificates": (("own.crt", "other"),)},
        {"disk": "10G"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_changes_with_each_part(change: dict[str, object]) -> None:
    assert dataclasses.replace(RECIPE, **change).digest != RECIPE.digest  # type: ignore[arg-type]


def test_digest_ignores_order_of_packages() -> None:
    assert dataclasses.replace(RECIPE, packages=("make", "git")).digest == RECIPE.digest


def test_recipe_holds_machine_certificates(tmp_path: Path) -> None:
    (tmp_path / "own.crt").write_text("text")
    (tmp_path / "README").write_text("not a certificate")
    assert read_recipe("debian-12", tmp_path).certificates == (("own.crt", "text"),)


def test_bootstrap_names_release_without_mirror(tmp_path: Path) -> None:
    command = bootstrap_command(RECIPE, tmp_path / "root.tar", tmp_path / "with space")
    assert command[-2:] == ["trixie", str(tmp_path / "root.tar")]
    assert not [word for word in command if "://" in word]
    assert next(word for word in command if word.startswith("--customize-hook=")).endswith(f"\"$1\" '{tmp_path}/with space'")


def test_image_holds_nothing_of_lab() -> None:
    assert not {"podman", "mmdebstrap", "python3-venv", "uidmap", "nftables"} & set(PACKAGES)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/a"}, "/x/rackwright/newcomer"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/a"}, "/home/a/.cache/rackwright/newcomer"),
    ],
)
def test_cache_folder_follows_environment(environ: dict[str, str], folder: str) -> None:
    assert str(cache_folder(environ)) == folder


def test_missing_qemu_fails_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image.shutil, "which", lambda command, path: None if command.startswith("qemu") else f"/usr/bin/{command}")
    with pytest.raises(MachineError) as raised:
        image.require_tools()
    assert str(raised.value).endswith("apt-get install -y --no-install-recommends qemu-system-x86 qemu-utils")
