"""An archive of images: an OCI layout with a Docker manifest beside it, so that containerd and podman both take it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple

from bundle import layer
from bundle.layer import Entry

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Content(NamedTuple):
    """One image: its full name, what its layer holds, how it starts."""

    name: str
    entries: tuple[Entry, ...]
    entry_point: str
    user: str = ""


class Blob(NamedTuple):
    """Content named by its digest; made anew whenever it is read, since a layer may be larger than memory should hold."""

    kind: str
    digest: str
    size: int
    pieces: Callable[[], Iterator[bytes]]

    @property
    def descriptor(self) -> dict[str, Any]:
        """As manifests refer to it."""
        return {"mediaType": self.kind, "digest": self.digest, "size": self.size}

    @property
    def path(self) -> str:
        """In the archive."""
        return "blobs/" + self.digest.replace(":", "/")


class Built(NamedTuple):
    """An image as it lies in the archive."""

    name: str
    manifest: Blob
    config: Blob
    layer: Blob


def write(target: Path, contents: Iterable[Content], processor: str, on_image: Callable[[str], None]) -> tuple[str, list[tuple[str, str]]]:
    """Writes the archive; answers its SHA-256, and each image's name and digest."""
    images = []
    for content in contents:
        on_image(content.name)
        images.append(_image(content, processor))
    on_image(target.name)
    whole = hashlib.sha256()
    with target.open("wb") as file:
        for piece in _outer(images, processor):
            whole.update(piece)
            file.write(piece)
    return whole.hexdigest(), [(image.name, image.manifest.digest) for image in images]


def _image(content: Content, processor: str) -> Built:
    only = _blob(_LAYER, lambda: layer.stream(content.entries))
    settings: dict[str, Any] = {"Entrypoint": [content.entry_point], "Env": [f"PATH={_SEARCHED}"], "WorkingDir": "/"}
    if content.user:
        settings["User"] = content.user
    config = _json_blob(
        _CONFIG,
        {
            "created": "1970-01-01T00:00:00Z",
            "architecture": processor,
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [only.digest]},
        },
    )
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config.descriptor, "layers": [only.descriptor]}
    return Built(content.name, _json_blob(_MANIFEST, manifest), config, only)


def _outer(images: list[Built], processor: str) -> Iterator[bytes]:
    blobs = {blob.path: blob for image in images for blob in (image.manifest, image.config, image.layer)}
    for path in sorted(blobs):
        yield layer.header(Entry(path, b"", 0o644), blobs[path].size)
        yield from blobs[path].pieces()
        yield layer.padding(blobs[path].size)
    yield from layer.stream(Entry(name, _json(value), 0o644) for name, value in _tables(images, processor).items())


def _tables(images: list[Built], processor: str) -> dict[str, Any]:
    """What tells a reader where to begin: containerd takes names from the index, podman from the manifest."""
    platform = {"architecture": processor, "os": "linux"}
    index = [
        {
            **image.manifest.descriptor,
            "platform": platform,
            "annotations": {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name.rpartition(":")[2]},
        }
        for image in images
    ]
    docker = [{"Config": image.config.path, "RepoTags": [image.name], "Layers": [image.layer.path]} for image in images]
    return {
        "index.json": {"schemaVersion": 2, "mediaType": _INDEX, "manifests": index},
        "manifest.json": docker,
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
    }


def _blob(kind: str, pieces: Callable[[], Iterator[bytes]]) -> Blob:
    found, size = hashlib.sha256(), 0
    for piece in pieces():
        found.update(piece)
        size += len(piece)
    return Blob(kind, f"sha256:{found.hexdigest()}", size, pieces)


def _json_blob(kind: str, value: Any) -> Blob:
    return _blob(kind, lambda: iter((_json(value),)))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
