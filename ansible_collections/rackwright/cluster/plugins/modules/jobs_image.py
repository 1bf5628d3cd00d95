"""Build the image of the acceptance jobs from the node's own python3 and a few tools, and import it into containerd.

No registry is needed: every node that Ansible manages has what the programs of the acceptance need. The image's tag is the
digest of this file (catalog/kubernetes.yml), so that a node never keeps an image of another version.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.systemd import suspended_units

DOCUMENTATION = r"""
module: jobs_image
short_description: The image of the acceptance's jobs in containerd
description:
  - Where containerd's namespace C(k8s.io) has no image of this name, one is made of this node's python3, its library and a few tools.
options:
  name: {type: str, required: true, description: Full name of the image.}
notes:
  - An image build with a container engine needs that engine on the node. This module needs containerd only.
"""

EXAMPLES = r"""
- name: Build the image of the acceptance jobs
  rackwright.cluster.jobs_image:
    name: registry.invalid/rackwright/jobs:1
"""

RETURN = r"""
made: {description: Whether it was not there., returned: always, type: bool}
"""

TOOLS = ("sh", "cat", "stat", "ls", "df", "id", "sleep", "env")
LEFT_OUT = {
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "dist-packages",
    "site-packages",
    "pydoc_data",
}
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
PATIENCE = 300  # seconds an import may take


class ImageError(Exception):
    """An error: place, problem, hint."""


def said(*words: str) -> str:
    """Return the output of a command. Raise ImageError if it fails."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except FileNotFoundError:
        raise ImageError(f"{words[0]}: command not found - install containerd on this node") from None
    except subprocess.TimeoutExpired:
        raise ImageError(f"{' '.join(words[:4])}: not finished after {PATIENCE} s - see `journalctl -u containerd`") from None
    if done.returncode:
        raise ImageError(f"{' '.join(words[:4])}: {done.stderr.strip() or done.stdout.strip()} - see `journalctl -u containerd`")
    return done.stdout


def libraries(paths: list[str]) -> set[str]:
    """Return the shared libraries that programs and extensions are linked to, with the loader."""
    found = set()
    for start in range(0, len(paths), 50):
        done = subprocess.run(["ldd", *paths[start : start + 50]], capture_output=True, text=True, check=False)
        found |= set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE))
    return found


def files() -> dict[str, str]:
    """Return the files of the image: path in the image, and the file of this node that is copied to it."""
    python = os.path.realpath(sys.executable)
    found = {path: os.path.realpath(path) for path in (shutil.which(tool) for tool in TOOLS) if path}
    found.update({"/usr/bin/python3": python, python: python})
    folder = sysconfig.get_paths()["stdlib"]
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in names:
            path = os.path.join(here, name)
            if os.path.isfile(path):
                found[path] = os.path.realpath(path)
    linked = [path for path in found.values() if path.endswith(".so") or os.access(path, os.X_OK)]
    for path in libraries(sorted(set(linked))):
        found[path] = os.path.realpath(path)
    # Programs look for the loader, and libraries for each other, in /lib and /lib64, which are links to those in /usr.
    return {re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path): source for path, source in found.items()}


def layer(target: str) -> str:
    """Write the layer. Return its digest."""
    users = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "usr/" + name
            tar.addfile(entry)
        for name, mode in (
            ("tmp", 0o1777),
            ("usr/bin", 0o755),
            ("usr/sbin", 0o755),
            ("usr/lib", 0o755),
            ("usr/lib64", 0o755),
            ("etc", 0o755),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        add(tar, "etc/passwd", users, 0o644)
        add(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
        add(tar, "etc/nsswitch.conf", b"hosts: files dns\n", 0o644)
        for path, source in sorted(files().items()):
            with open(source, "rb") as stream:
                add(tar, path.lstrip("/"), stream.read(), 0o755 if os.access(source, os.X_OK) else 0o644)
    return digest(target)


def add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Add a file without time and owner."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def digest(path: str) -> str:
    """Return a file's SHA-256."""
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def archive(folder: str, name: str) -> str:
    """Write an archive in Docker's format, which containerd imports. Return its path."""
    content = os.path.join(folder, "layer.tar")
    config = {
        "architecture": PROCESSORS.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin"], "Cmd": ["python3"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + layer(content)]},
    }
    target = os.path.join(folder, "image.tar")
    with tarfile.open(target, "w") as tar:
        tar.add(content, "layer.tar")
        add(tar, "config.json", json.dumps(config).encode(), 0o644)
        add(tar, "manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode(), 0o644)
    os.unlink(content)
    return target


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"name": {"type": "str", "required": True}}, supports_check_mode=True)
    # Check mode does not wait for a suspended containerd: the task that restarts it reports it.
    if module.check_mode and (suspended := suspended_units("containerd.service")):
        module.exit_json(changed=False, made=False, msg=f"not queried in check mode, because {'; '.join(suspended)}")
    name = module.params["name"]
    try:
        missing = name not in said("ctr", "--namespace", "k8s.io", "images", "list", "--quiet").split()
        if missing and not module.check_mode:
            with tempfile.TemporaryDirectory(prefix="rackwright-") as folder:
                said("ctr", "--namespace", "k8s.io", "images", "import", archive(folder, name))
    except (ImageError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=missing, made=missing)


if __name__ == "__main__":
    main()
