"""Which images kubeadm will ask for, in its own words: a bundle holds exactly these."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bootstrap.failure import Failure
from bundle import recipe


def listed(kubeadm: Path, version: str) -> list[str]:
    """What the built kubeadm prints."""
    command = [str(kubeadm), "config", "images", "list", "--kubernetes-version", version]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"`{' '.join(command)}`: {error}; remove {kubeadm} and run this again") from None
    if told.returncode:
        raise Failure(f"`{' '.join(command)}` failed with exit code {told.returncode}\n{told.stderr.strip()}")
    return told.stdout.split()


def matched(names: Sequence[str], versions: Mapping[str, str], where: str = "tools/kubernetes") -> dict[str, str]:
    """The full name of each image that the recipe has under its last part. `versions`: of the modules in `where`, by folder."""
    found = {name.rpartition("/")[2].partition(":")[0]: name for name in names}
    built = {image.name: image for image in recipe.IMAGES if not image.own}
    reasons = [f"{found[name]}: kubeadm asks for it, the recipe has no image {name}" for name in sorted(set(found) - set(built))]
    reasons += [f"{name}: the recipe has it, kubeadm does not ask for it" for name in sorted(set(built) - set(found))]
    for name in sorted(set(built) & set(found)):
        folder = built[name].module
        if folder and _numbers(found[name].rpartition(":")[2]) != _numbers(versions[folder]):
            reasons.append(f"{found[name]}: kubeadm asks for it, {where}/{folder}/go.mod builds {versions[folder]}")
    if reasons:
        told = "\n".join("  " + reason for reason in reasons)
        raise Failure(
            f"kubeadm and tools/kubernetes/bundle/recipe.py disagree about the images of Kubernetes {versions['kubernetes']}:\n{told}\n"
            "Change recipe.py or the go.mod that is named (tools/README.md, raising the version of Kubernetes)."
        )
    return found


def _numbers(version: str) -> str:
    """`3.6.4` of v3.6.4 and of 3.6.4-0."""
    digits = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return digits[1] if digits else version
