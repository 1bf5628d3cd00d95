"""Which engine the bootstrap settles on, and that a download is never taken unchecked."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from bootstrap import engine, environment, go_build, official
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage, Stages
from shim import engine as shim_engine

CHECKOUT = Path(__file__).resolve().parents[4]


def machine(tmp_path: Path, path: str = "") -> Machine:
    """This processor, a PATH and a cache of the test's own."""
    return Machine("Linux", "x86_64", tmp_path, {"PATH": path, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}, 1000)


def put_engine(folder: Path, version: str, language_host: bool = True) -> Path:
    """A `pulumi` that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pulumi", *(["pulumi-language-python"] if language_host else [])):
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
        (folder / name).chmod(0o755)
    return folder / "pulumi"


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("v3.259.0", True),
        ("v3.272.1", True),
        ("3.300.0-dev.1", True),
        ("v3.258.9", False),
        ("v3.99.0", False),
        ("v4.0.0", False),
        ("v2.300.0", False),
        ("", False),
    ],
)
def test_suits(version: str, good: bool) -> None:
    assert engine.suits(version) is good


def test_nothing_is_found_on_a_bare_machine(tmp_path: Path) -> None:
    assert engine.look(machine(tmp_path), tmp_path / ".venv") is None


def test_the_first_suitable_one_on_path_wins_over_the_cache(tmp_path: Path) -> None:
    put_engine(tmp_path / "old", "v3.100.0")
    put_engine(tmp_path / "alone", "v3.270.0", language_host=False)
    good = put_engine(tmp_path / "good", "v3.270.0")
    put_engine(tmp_path / "cache" / "rackwright" / "pulumi-3.259.0", "v3.259.0")
    path = f"{tmp_path / 'old'}:{tmp_path / 'alone'}:{tmp_path / 'good'}"
    assert engine.look(machine(tmp_path, path), tmp_path / ".venv") == (good, "on PATH")
    found = engine.look(machine(tmp_path, str(tmp_path / "old")), tmp_path / ".venv")
    assert found is not None
    assert found.origin == "cached"


def test_the_shim_is_never_taken_for_the_engine(tmp_path: Path) -> None:
    put_engine(tmp_path / ".venv" / "bin", "v3.259.0")
    assert engine.look(machine(tmp_path, str(tmp_path / ".venv" / "bin")), tmp_path / ".venv") is None


def test_a_record_holds_until_the_engine_changes(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / "tools" / "pulumi").mkdir(parents=True)
    good = put_engine(tmp_path / "good", "v3.270.0")
    engine.provide(machine(tmp_path, str(tmp_path / "good")), Stages(), tmp_path, tmp_path / ".venv")
    assert engine.look(machine(tmp_path), tmp_path / ".venv") == (good, "recorded")
    assert shim_engine.find({"HOME": str(tmp_path)}, str(tmp_path / ".venv")) == str(good)
    put_engine(tmp_path / "good", "v4.0.0-and-longer")
    assert engine.look(machine(tmp_path), tmp_path / ".venv") is None


def test_the_shim_says_what_to_run_where_there_is_no_engine(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make venv"):
        shim_engine.find({"HOME": str(tmp_path)}, str(tmp_path / ".venv"))


def test_shim_and_bootstrap_agree(tmp_path: Path) -> None:
    assert shim_engine.VERSION == engine.VERSION
    assert shim_engine.RECORD == engine.RECORD
    made = machine(tmp_path)
    assert shim_engine.cache_folder(made.environ) == str(engine.cache_folder(made))


def test_sdk_and_wrapper_module_are_of_the_engines_version() -> None:
    assert f"\npulumi=={engine.VERSION}\n" in (CHECKOUT / "requirements.in").read_text()
    module = (CHECKOUT / "tools" / "pulumi" / "go.mod").read_text()
    for part in ("pkg", "sdk"):
        assert f"github.com/pulumi/pulumi/{part}/v3 v{engine.VERSION}" in module


def archive_of(files: dict[str, str]) -> bytes:
    """A release archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The release server: what it answers, by the end of the address."""
    served: dict[str, bytes] = {}

    def fetch(address: str) -> bytes:
        return next(content for end, content in served.items() if address.endswith(end))

    monkeypatch.setattr(official, "_fetch", fetch)
    served["linux-x64.tar.gz"] = archive_of({"pulumi/pulumi": "engine", "pulumi/pulumi-language-python": "host", "../evil": "no"})
    served["checksums.txt"] = f"{hashlib.sha256(served['linux-x64.tar.gz']).hexdigest()}  pulumi-v3.259.0-linux-x64.tar.gz\n".encode()
    return served


def test_a_download_with_its_published_checksum_is_taken(release: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    official.download(machine(tmp_path), "3.259.0", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["official", "pulumi", "pulumi-language-python"]
    assert (folder / "pulumi").read_text() == "engine"
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("published", [b"0" * 64 + b"  pulumi-v3.259.0-linux-x64.tar.gz\n", b"", b"<html>not found</html>"])
def test_a_download_that_does_not_match_is_refused(release: dict[str, bytes], tmp_path: Path, published: bytes) -> None:
    release["checksums.txt"] = published
    with pytest.raises(Failure, match=r"SHA-256|do not name"):
        official.download(machine(tmp_path), "3.259.0", tmp_path)
    assert not (tmp_path / "pulumi").exists()


def test_an_unreachable_server_is_one_sentence() -> None:
    with pytest.raises(Failure, match=r"^host\.invalid cannot be reached"):
        official._fetch("https://host.invalid/x")


def test_go_must_be_as_new_as_the_module_asks(tmp_path: Path) -> None:
    for version, good in (("1.26.4", True), ("1.25.11", True), ("1.25.9", False), ("1.19", False)):
        put_engine(tmp_path / version, "x")
        (tmp_path / version / "pulumi").rename(tmp_path / version / "go")
        (tmp_path / version / "go").write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
        found = go_build.suitable_go(machine(tmp_path, str(tmp_path / version)), CHECKOUT / "tools" / "pulumi")
        assert (found is not None) is good, version


def test_a_command_ends_with_whoever_waits_for_it() -> None:
    told: list[int] = []

    def stop(line: str) -> None:
        told.append(int(line))
        raise KeyboardInterrupt

    with Stage("waiting") as stage, pytest.raises(KeyboardInterrupt):
        stage.run(["sh", "-c", "echo $$; exec sleep 60"], on_line=stop)
    with pytest.raises(ProcessLookupError):
        os.kill(told[0], 0)


def test_the_environment_is_made_again_when_its_inputs_or_its_place_change(tmp_path: Path) -> None:
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text(name)
    first = environment.fingerprint(tmp_path)
    assert environment.fingerprint(tmp_path) == first
    (tmp_path / "requirements.lock").write_text("other")
    second = environment.fingerprint(tmp_path)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    assert len({first, second, environment.fingerprint(moved)}) == 3
