"""Import container images of a bundle into containerd, archive by archive.

Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.systemd import suspended_units

DOCUMENTATION = r"""
module: containerd_images
short_description: Import container images of a bundle into containerd
description:
  - An archive is imported if one of its images is missing in containerd's namespace C(k8s.io), which the kubelet uses.
options:
  folder: {type: path, required: true, description: "Folder with C(bundle.json), the list of the bundle's archives."}
  archives: {type: list, elements: str, required: true, description: Names of archives in that list.}
notes:
  - No module of ansible-core or a collection imports archives into containerd's namespace of the kubelet.
"""

EXAMPLES = r"""
- name: Import the images of the control plane
  rackwright.cluster.containerd_images:
    folder: /opt/rackwright/kubernetes
    archives: [control-plane, node]
"""

RETURN = r"""
missing: {description: Images that were not there., returned: always, type: list}
"""

PATIENCE = 300  # seconds, limit of an import


class ImagesError(Exception):
    """An error: place, problem, hint."""


def ctr(*words: str) -> str:
    """Return the output of ctr. Raise ImagesError if it fails."""
    try:
        done = subprocess.run(
            ["ctr", "--namespace", "k8s.io", *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except FileNotFoundError:
        raise ImagesError("ctr: command not found - install containerd on this node") from None
    except subprocess.TimeoutExpired:
        raise ImagesError(f"ctr {' '.join(words[:2])}: not finished after {PATIENCE} s - see `journalctl -u containerd`") from None
    if done.returncode:
        raise ImagesError(f"ctr {' '.join(words[:2])}: {done.stderr.strip() or done.stdout.strip()} - see `journalctl -u containerd`")
    return done.stdout


def read(folder: str, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """Return the requested archives from the bundle list."""
    path = os.path.join(folder, "bundle.json")
    try:
        with open(path, encoding="utf-8") as stream:
            listed: dict[str, dict[str, Any]] = json.load(stream)["archives"]
    except (OSError, ValueError, KeyError) as error:
        raise ImagesError(f"{path}: not a valid bundle list ({error!r}) - run the install step again") from None
    unknown = [name for name in wanted if name not in listed]
    if unknown:
        raise ImagesError(f"{path}: no archive {', '.join(unknown)} in the bundle list - run the install step again")
    return {name: listed[name] for name in wanted}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"folder": {"type": "path", "required": True}, "archives": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    # Check mode does not wait for a suspended containerd: the task that restarts it reports it.
    if module.check_mode and (suspended := suspended_units("containerd.service")):
        module.exit_json(changed=False, missing=[], msg=f"not queried in check mode, because {'; '.join(suspended)}")
    folder = module.params["folder"]
    absent: list[str] = []
    try:
        there = set(ctr("images", "list", "--quiet").split())
        for archive in read(folder, module.params["archives"]).values():
            missing = [image["name"] for image in archive["images"] if image["name"] not in there]
            absent += missing
            if missing and not module.check_mode:
                ctr("images", "import", os.path.join(folder, archive["file"]))
    except ImagesError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(absent), missing=absent)


if __name__ == "__main__":
    main()
