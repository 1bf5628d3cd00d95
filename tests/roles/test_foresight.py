"""Check mode on a fresh node: what would be fetched, unpacked and built is reported, although nothing of it is there yet."""

from __future__ import annotations

import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

FRESH = {"scontrol": "echo 'there is none' >&2; exit 127"}


class Quiet(SimpleHTTPRequestHandler):
    """It keeps its requests to itself."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[str]:
    """The address of an archive with a Makefile in it."""
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "served").mkdir()
    with tarfile.open(tmp_path / "served" / "source.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "Makefile", "source/Makefile")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/source.tar.gz"
        server.shutdown()


def test_nccl_tests_that_nobody_fetched_yet(steps: Any, archive: str) -> None:
    """Versions that exist nowhere, so that no folder of theirs does."""
    variables = {
        "node": {"name": "worker0", "os": "debian-12", "gpus": {"modules": "open"}},
        "cluster": {"software": {"package_sets": {"debian-12-open": {"driver_vendor": "nvidia"}}, "nccl": {}}},
        "nccl_versions": {"nccl-tests": "0.0.0", "cuda": "0.0", "nccl": "0.0.0"},
        "nccl_tests_source": archive,
    }
    done = steps("nccl", "tests", variables=variables, tools={}, words="--check")
    assert done.good, done.said
    assert [
        done.told[name] for name in ("Create the folder for the nccl-tests source", "Build nccl-tests against the installed CUDA and NCCL")
    ] == ["changed"] * 2
    assert not Path("/opt/nccl-tests/0.0.0-cuda0.0-nccl0.0.0").exists()


def test_pyxis_before_there_is_a_slurm(steps: Any) -> None:
    variables = {
        "node": {"name": "worker0", "os": "debian-12", "roles": ["worker"]},
        "cluster": {"preinstalled_roles": []},
        "node_stack": {"containers": ["enroot"], "scratch": None},
    }
    done = steps("containers", "pyxis", variables=variables, tools=FRESH, words="--check")
    assert done.good, done.said
    assert {"libslurm-dev"} <= {name for step in done.recorded for name in step.get("name", [])}
    assert [done.told[name] for name in ("Create the folder for the pyxis source", "Build and install pyxis")] == ["changed"] * 2
