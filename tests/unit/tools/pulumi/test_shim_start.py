"""The installed starter finds its environment however it is called, and adds little."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A checkout of nothing but the tools, with an engine that prints what it was given."""
    made = tmp_path / "check out" / ".venv"
    (made / "bin").mkdir(parents=True)
    for name in ("tools", "infra"):
        (made.parent / name).symlink_to(CHECKOUT / name)
    shutil.copy(CHECKOUT / "tools" / "pulumi" / "shim.sh", made / "bin" / "pulumi")
    (made / "bin" / "python").symlink_to(sys.executable)
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\necho "$RACKWRIGHT_PYTHON" "$@"\n')
    engine.chmod(0o755)
    (made / "rackwright-engine").write_text(f"{engine}\n")
    return made


@pytest.mark.parametrize("way", ["absolute", "relative", "link", "path", "through sh"])
def test_it_finds_its_environment(venv: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "link").symlink_to(venv / "bin" / "pulumi")
    command, folder = {
        "absolute": ([str(venv / "bin" / "pulumi")], "/"),
        "relative": (["bin/pulumi"], str(venv)),
        "link": ([str(tmp_path / "link")], "/"),
        "path": (["pulumi"], "/"),
        "through sh": (["sh", "bin/pulumi"], str(venv)),
    }[way]
    environ = {"PATH": f"{venv / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "RACKWRIGHT_HOME": str(tmp_path / "home")}
    told = subprocess.run([*command, "up", "-s", "two words"], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    assert told.stdout == f"{venv / 'bin' / 'python'} up -s two words\n"
    assert told.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said", "named"),
    [
        ([], None, "{home}/.engine/config/Pulumi.lab.yaml"),
        ([], "{home}/.engine/config/Pulumi.other.yaml", "{home}/.engine/config/Pulumi.lab.yaml"),
        ([], "/mine.yaml", "/mine.yaml"),
        (["--config-file", "mine.yaml"], None, "none"),
    ],
)
def test_the_engine_reads_the_salted_copy_unless_the_user_names_a_file(
    venv: Path, tmp_path: Path, arguments: list[str], said: str | None, named: str
) -> None:
    home = tmp_path / "home"
    state = home / ".engine" / "state" / ".pulumi" / "stacks" / "rackwright" / "lab.json"
    for folder in (state.parent, tmp_path / "stacks"):
        folder.mkdir(parents=True)
    state.write_text('{"checkpoint":{"latest":{"secrets_providers":{"type":"passphrase","state":{"salt":"v1:x"}}}}}')
    (tmp_path / "Pulumi.yaml").write_text("name: rackwright\nruntime: python\nstackConfigDir: stacks\n")
    (tmp_path / "stacks" / "Pulumi.lab.yaml").write_text("config: {}\n")
    (tmp_path / "engine").write_text('#!/bin/sh\necho "${PULUMI_OPTION_CONFIG_FILE-none}"\n')
    environ = {"PATH": "/usr/bin:/bin", "PULUMI_HOME": str(tmp_path), "RACKWRIGHT_HOME": str(home)}
    environ |= {"PULUMI_OPTION_CONFIG_FILE": said.format(home=home)} if said else {}
    command = [venv / "bin" / "pulumi", "up", "-s", "lab", *arguments]
    told = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == named.format(home=home)
    assert (tmp_path / "stacks" / "Pulumi.lab.yaml").read_text() == "config: {}\n"
    if named.startswith("{home}"):
        assert (home / ".engine" / "config" / "Pulumi.lab.yaml").read_text() == "config: {}\nencryptionsalt: v1:x\n"


def test_a_project_of_another_name_gets_no_home(venv: Path, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: somebody-elses\nruntime: python\n")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RACKWRIGHT_HOME": str(tmp_path / "home")}
    (venv.parent.parent / "engine").write_text('#!/bin/sh\necho "${PULUMI_BACKEND_URL-none}"\n')
    for name, backend in (("somebody-elses", "none"), ("rackwright", f"file://{tmp_path}/home/.engine/state")):
        (tmp_path / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n")
        told = subprocess.run(
            [venv / "bin" / "pulumi", "stack", "ls"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
        )
        assert told.stdout.strip() == backend
        assert (tmp_path / "home").exists() is (backend != "none")
