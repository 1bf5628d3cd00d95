"""Run on the node, as root: whether containerd has an image for pods.

Input: {"image": full name, "seconds": limit}.
Output: {"present": whether the image is there, "images": number of all images, "error": why they could not be listed, or ""}.
Python 3.9, standard library only.
"""

from __future__ import annotations

from typing import Any

from rackwright.remote.programs.commands import slowness
from rackwright.remote.programs.slurm_job import run

LIST = ["ctr", "--namespace", "k8s.io", "images", "list", "--quiet"]
"""Images of the namespace of the CRI plugin, one name a line."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return whether the image is there."""
    text, error = run(LIST, request["seconds"] * slowness())
    names = {line.strip() for line in text.splitlines() if line.strip()}
    return {"present": request["image"] in names, "images": len(names), "error": error}
