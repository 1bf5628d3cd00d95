"""Whether a node has an image, from the list of a stand-in for ctr."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.remote.programs import node_images

IMAGE = "registry.invalid/rackwright/training:1f0c"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"echo registry.k8s.io/pause:3.10; echo {IMAGE}", {"present": True, "images": 2, "error": ""}),
        (f"echo registry.k8s.io/pause:3.10; echo {IMAGE}00", {"present": False, "images": 2, "error": ""}),
        ("true", {"present": False, "images": 0, "error": ""}),
        ("echo ctr: no such socket >&2; exit 1", {"present": False, "images": 0, "error": "ctr: no such socket"}),
        ("exec sleep 60", {"present": False, "images": 0, "error": "ctr: no answer within 0 s"}),
    ],
    ids=["there", "other-tag", "none", "containerd-stopped", "hangs"],
)
def test_image_is_found(script: str, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ctr").write_text(f'#!/bin/sh\n[ "$*" = "--namespace k8s.io images list --quiet" ] || exit 9\n{script}\n')
    (tmp_path / "ctr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    assert node_images.main({"image": IMAGE, "seconds": 0.3 if "sleep" in script else 20}) == expected
