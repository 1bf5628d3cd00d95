"""Roles of the node stack on bare Debian 12 and 13: packages come from the distribution's own archive, and a second run changes nothing.

A system in a folder replaces a machine: it has no services. test_node_stack.py tests services and everything that needs a kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

PROJECT = Path(__file__).parents[3]
SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}
PACKAGES = ("ca-certificates", "openssh-server", "python3-apt", "python3-minimal")
OPTIONS = "-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
STACK: dict[str, Any] = {
    "directory": None, "tuning": None, "scratch": None, "containers": [], "tools": [], "pytorch": None,
    "rdma": {"doca": None, "efa": None, "roce": None, "virtual_functions": 0, "ipoib": False},
}  # fmt: skip
TUNING = {"profile": "hpc-compute", "transparent_hugepages": None, "hugepages": {}, "limits": {}, "sysctl": {}}
SCRATCH = {
    "devices": ["/dev/nvme9n1"],
    "format_empty_disks": False,
    "raid_level": 0,
    "file_system": "xfs",
    "mount": "/scratch",
    "mode": "1777",
}


def missing_requirements() -> str:
    """Return why no bare system can be created here, or an empty text."""
    tools = [tool for tool in ("mmdebstrap", "unshare", "ssh-keygen") if shutil.which(tool) is None]
    if tools:
        return f"not installed: {', '.join(tools)} (apt install mmdebstrap util-linux openssh-client)"
    return "" if os.geteuid() == 0 else "only root can enter another system's tree"


@dataclass
class Node:
    """One system in a folder of its own, and how Ansible reaches it."""

    os: str
    folder: Path
    port: int = 0
    running: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """Return the root of its file system."""
        return self.folder / "root"

    def start(self) -> None:
        """Install the base system, and start an SSH server for the test's key, in namespaces that end with it."""
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "id")], check=True)
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITES[self.os], str(self.root)]
        subprocess.run(command, check=True, timeout=600, capture_output=True)
        (self.root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.folder / "id.pub", self.root / "root/.ssh/authorized_keys")
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        (self.root / "run/sshd").mkdir(exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        serve = (
            f"mount -t proc proc {self.root}/proc && exec chroot {self.root} /usr/sbin/sshd -D -p {self.port} -o ListenAddress=127.0.0.1"
        )
        self.running = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", serve])
        ready = time.monotonic() + 30
        while subprocess.run([*self.ssh(), "true"], capture_output=True, check=False).returncode:
            assert time.monotonic() < ready, "login failed"
            time.sleep(0.2)
        self.sh("apt-get -q update")  # The roles do so for old lists; those of a new folder seem to be young.

    def stop(self) -> None:
        """Kill the server, and with it the namespaces and their mounts."""
        if self.running:
            self.running.kill()  # unshare waits for its child and ignores other signals; --kill-child ends the child with it.
            self.running.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    def ssh(self) -> list[str]:
        """Return the ssh command."""
        return ["ssh", *OPTIONS.format(key=self.folder / "id").split(), "-p", str(self.port), "root@127.0.0.1"]

    def sh(self, script: str) -> str:
        """Run a command on the node and return its output; fail if the command fails."""
        done = subprocess.run([*self.ssh(), script], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def apply(self, role: str, stack: dict[str, Any], *words: str, **more: Any) -> int:
        """Apply the role as a phase does; return the number of changed tasks."""
        record = {"name": "node0", "os": self.os, "roles": ["login"], "features": [], "rails": []}
        host = {"ansible_host": "127.0.0.1", "ansible_port": self.port, "ansible_user": "root", "node": record}
        cluster = {"stack": "rack", "preinstalled_roles": [], "manage_kernel": True}
        shared = {
            "ansible_ssh_use_tty": False,
            "cluster": cluster,
            "node_stack": {**STACK, **stack},
            "ansible_python_interpreter": "/usr/bin/python3",
            **more,
        }
        options = OPTIONS.format(key=self.folder / "id")
        inventory = {"all": {"vars": {**shared, "ansible_ssh_common_args": options}, "hosts": {"node0": host}}}
        play = [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": {"name": f"rackwright.cluster.{role}"}}]}]
        (self.folder / "play.yml").write_text(json.dumps(play))
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        runner = self.folder / uuid.uuid4().hex
        runner.mkdir()
        done = ansible_runner.run(
            private_data_dir=str(runner),
            playbook=str(self.folder / "play.yml"),
            inventory=str(self.folder / "inventory.yml"),
            cmdline=" ".join(words),
            envvars={"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_STRATEGY": "linear", "PATH": os.environ["PATH"]},
            quiet=True,
        )
        assert done.rc == 0, done.stdout.read()[-4000:]
        return int(done.stats["changed"].get("node0", 0))


@pytest.fixture(scope="module", params=SUITES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Yield a bare system."""
    if why := missing_requirements():
        pytest.skip(why)
    made = Node(request.param, tmp_path_factory.mktemp("node"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize(
    ("role", "stack", "tools"),
    [
        ("tuning", {"tuning": TUNING}, ["tuned-adm --version", "test -d /usr/lib/tuned"]),
        ("scratch", {"scratch": SCRATCH}, ["mdadm --version", "mkfs.xfs -V", "wipefs --version"]),
        ("roce", {}, ["test -x /usr/bin/ibv_devinfo"]),
        (
            "containers",
            {"containers": ["podman", "docker"]},
            ["podman --version", "docker --version", "newuidmap --help 2>&1 | grep -q usage"],
        ),
        (
            "tools",
            {"tools": ["nvtop", "perftest", "infiniband-diags"]},
            ["nvtop --version", "test -x /usr/bin/ib_write_bw", "test -x /usr/sbin/ibstat"],
        ),
    ],
)
def test_packages_are_installed_once(node: Node, role: str, stack: dict[str, Any], tools: list[str]) -> None:
    assert node.apply(role, stack, "--tags install") > 0
    assert node.apply(role, stack, "--tags install") == 0
    assert node.apply(role, stack, "--tags install --check") == 0
    for tool in tools:
        node.sh(tool)


def test_unpackaged_tool_is_refused_with_reason(node: Node) -> None:
    if node.os != "debian-13":
        pytest.skip("Debian 12 has it in NVIDIA's repository")
    with pytest.raises(AssertionError, match="nobody packages nsight-systems for debian-13"):
        node.apply("tools", {"tools": ["nvtop", "nsight-systems"]})


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    """Build a package of one module, as small as possible."""
    meta = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": code,
        f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, f"{meta}/RECORD": "".join(f"{path},,\n" for path in [*files, f"{meta}/RECORD"])}.items():
            archive.writestr(path, content)


def test_wheelhouse_serves_offline_node(node: Node, tmp_path: Path) -> None:
    """A tiny package replaces PyTorch: the test covers the path from a folder of wheels to an import."""
    wheel(tmp_path, "tinytorch", "2.8.0", "import tinydep\nname = 'torch'\n")
    wheel(tmp_path, "tinydep", "1.0", "")
    wheel(tmp_path, "broken", "1.0", "import nowhere\n")
    node.sh("mkdir -p /mnt/shared/wheels")
    for path in tmp_path.glob("*.whl"):
        shutil.copy(path, node.root / "mnt/shared/wheels")
    folder, wheels = "/mnt/shared/software/pytorch-2.8.0", "/mnt/shared/wheels"
    wanted = {"source": "wheels", "version": "2.8.0", "folder": folder, "index": None, "wheelhouse": wheels}
    stack = {"pytorch": {**wanted, "packages": ["tinydep==1.0"]}}
    stand_in = {"pytorch_requirement": "tinytorch", "pytorch_modules": ["tinytorch"]}
    assert node.apply("pytorch", stack, **stand_in) > 0
    assert node.apply("pytorch", stack, **stand_in) == 0
    assert node.sh("/mnt/shared/software/pytorch-2.8.0/bin/python -c 'import tinytorch; print(tinytorch.name)'") == "torch"
    broken = {"pytorch": {**wanted, "version": "1.0", "folder": "/mnt/shared/software/broken", "packages": []}}
    with pytest.raises(AssertionError, match="nowhere"):
        node.apply("pytorch", broken, pytorch_requirement="broken", pytorch_modules=["broken"])
    with pytest.raises(AssertionError, match="no such folder on node0"):
        node.apply("pytorch", {"pytorch": {**wanted, "packages": [], "wheelhouse": "/mnt/nowhere"}}, **stand_in)
