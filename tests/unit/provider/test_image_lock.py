"""Stacks of one user share their images: of two runs that need the same one, one builds it, and the other waits."""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rackwright.inventory import paths
from rackwright.provider import image_lock
from rackwright.provider.lab import image as lab_image
from rackwright.provider.protocol.resource import RequestContext
from rackwright.provider.vm import image as vm_image

NODE_IMAGE = {"os": "debian-13", "source": "bootstrap", "digest": "0123456789abcdef", "scheduler": "slurm"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the images of the test apart."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(image_lock, "_INTERVAL", 0.01)


class Builds:
    """Records builds, each of which takes some turns of the event loop, and messages."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.complete: set[str] = set()
        self.messages: list[str] = []

    async def build(self, name: str) -> None:
        self.begun.append(name)
        self.running += 1
        assert self.running == 1, "two builds at once"
        await asyncio.sleep(0.05)
        self.running -= 1
        self.complete.add(name)

    def context(self, stack: str) -> RequestContext:
        async def say(message: str) -> None:
            self.messages.append(f"{stack}: {message}")

        return RequestContext(urn="", stack=stack, name="image", preview=False, status=say, info=say, warn=say)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Replace Podman's part of both kinds of images."""
    record = Builds()

    async def exists(name: str) -> bool:
        return name in record.complete

    async def ensure(*_: Any) -> str:
        return "base"

    async def bake(baking: Any, *_: Any) -> None:
        await record.build(baking.name)

    async def build(_: str, folder: Path, __: Any) -> None:
        await record.build(str(folder))

    monkeypatch.setattr(lab_image, "image_exists", exists)
    monkeypatch.setattr(lab_image.base_image, "ensure", ensure)
    monkeypatch.setattr(lab_image.image_build, "bake", bake)
    monkeypatch.setattr(vm_image.image_build, "build", build)
    monkeypatch.setattr(vm_image.image_build, "is_complete", lambda folder: str(folder) in record.complete)
    return record


@pytest.mark.parametrize(
    ("resource", "inputs"), [(lab_image.Image(), NODE_IMAGE), (vm_image.Image(), {"node_image": "localhost/rackwright/node-debian-13:1"})]
)
def test_two_stacks_build_their_image_once(builds: Builds, resource: Any, inputs: dict[str, Any]) -> None:
    async def both() -> None:
        await asyncio.gather(*(resource.create(builds.context(stack), inputs) for stack in ("a", "b")))

    asyncio.run(both())
    assert len(builds.begun) == 1
    assert builds.messages == ["b: waiting for the image build of another run"]


def test_another_image_is_built_afterwards(builds: Builds) -> None:
    async def both() -> None:
        resource = lab_image.Image()
        await asyncio.gather(*(resource.create(builds.context(one), NODE_IMAGE | {"digest": one * 12}) for one in ("a", "b")))

    asyncio.run(both())
    assert [name[-12:] for name in builds.begun] == ["a" * 12, "b" * 12]


def test_failed_build_releases_the_lock(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(lab_image.image_build, "bake", fail)
        with pytest.raises(OSError, match="no space"):
            asyncio.run(lab_image.Image().create(builds.context("a"), NODE_IMAGE))
    asyncio.run(lab_image.Image().create(builds.context("b"), NODE_IMAGE))
    assert len(builds.begun) == 1 and builds.messages == []


def test_lock_of_a_killed_run_is_free(builds: Builds) -> None:
    lock = paths.image_lock()
    lock.parent.mkdir(parents=True)
    program = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with lock.open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.kill()
    asyncio.run(lab_image.Image().create(builds.context("a"), NODE_IMAGE))
    assert len(builds.begun) == 1 and builds.messages == []
