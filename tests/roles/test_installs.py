"""Roles of the node stack on bare Debian 12 and 13: packages come from the distribution's own archive, and a second run changes nothing.

Containers that run systemd stand in for machines. What needs a kernel of its own is in tests/e2e/test_node_stack.py.
"""

from __future__ import annotations

import asyncio
import json
import os
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

from rackwright.errors import RackwrightError
from rackwright.provider.drivers.base_image import provide
from rackwright.provider.drivers.podman import limits

pytestmark = [pytest.mark.soak, pytest.mark.podman]
PROJECT = Path(__file__).parents[2]
LABEL = "rackwright.test.installs"
LDAP = Path(__file__).with_name("directory.sh")
STACK: dict[str, Any] = {
    "directory": None, "tuning": None, "scratch": None, "containers": [], "tools": [], "pytorch": None,
    "rdma": {"doca": None, "efa": None, "roce": None, "virtual_functions": 0, "ipoib": False},
}  # fmt: skip
TUNING = {"profile": "hpc-compute", "transparent_hugepages": None, "hugepages": {}, "limits": {}, "sysctl": {}}
SCRATCH = {"devices": ["/dev/nvme9n1"], "use_empty_disks": False, "level": 0, "file_system": "xfs", "mount": "/scratch", "mode": "1777"}


def podman(*words: str, stdin: str = "") -> str:
    """Run podman; what it printed."""
    runtime = () if Path("/sys/fs/cgroup/cgroup.controllers").exists() else ("--runtime", "runc")
    done = subprocess.run(["podman", *runtime, *words], capture_output=True, text=True, check=False, timeout=180, input=stdin)
    assert done.returncode == 0, f"podman {' '.join(words[:3])}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass
class Node:
    """One container, and how Ansible reaches it."""

    os: str
    name: str
    folder: Path

    def start(self, image: str) -> None:
        """Switch it on, with nothing but the base system, a server for logins and the test's key."""
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "id")], check=True)
        capabilities = ("--cap-add", "SYS_ADMIN,NET_ADMIN,MKNOD")
        podman(
            *("run", "--detach", "--name", self.name, "--hostname", "node0", "--label", f"{LABEL}={self.name}", "--systemd=always"),
            *(*limits(), *capabilities, "--http-proxy=false", "--publish", "127.0.0.1::22", image, "/sbin/init"),
        )
        ready = time.monotonic() + 60
        while subprocess.run(["podman", "exec", self.name, "systemctl", "list-units"], capture_output=True, check=False).returncode:
            assert time.monotonic() < ready, "systemd does not answer"
            time.sleep(0.2)
        key = (self.folder / "id.pub").read_text()
        self.sh("mkdir -p -m 0700 /root/.ssh && cat > /root/.ssh/authorized_keys && ssh-keygen -A > /dev/null && systemctl start ssh", key)

    def sh(self, script: str, stdin: str = "") -> str:
        """A command on its console."""
        return podman("exec", "--interactive", self.name, "sh", "-ec", script, stdin=stdin).strip()

    def apply(self, role: str, stack: dict[str, Any], *words: str, **more: Any) -> int:
        """The role, as a phase applies it; how much it changed."""
        port = podman("port", self.name, "22/tcp").strip().rsplit(":", 1)[1]
        record = {"name": "node0", "os": self.os, "roles": ["login"], "carries": [], "rails": []}
        host = {"ansible_host": "127.0.0.1", "ansible_port": int(port), "ansible_user": "root", "node": record}
        cluster = {"stack": "rack", "baked_roles": [], "owns_kernel": True}
        shared = {"cluster": cluster, "node_stack": {**STACK, **stack}, "ansible_python_interpreter": "/usr/bin/python3", **more}
        options = f"-i {self.folder}/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        inventory = {"all": {"vars": {**shared, "ansible_ssh_common_args": options}, "hosts": {"node0": host}}}
        play = [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": {"name": role}}]}]
        (self.folder / "play.yml").write_text(json.dumps(play))
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        done = ansible_runner.run(
            private_data_dir=str(self.folder / uuid.uuid4().hex),
            playbook=str(self.folder / "play.yml"),
            inventory=str(self.folder / "inventory.yml"),
            cmdline=" ".join(words),
            envvars={"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_STRATEGY": "linear", "PATH": os.environ["PATH"]},
            quiet=True,
        )
        assert done.rc == 0, done.stdout.read()[-4000:]
        return int(done.stats["changed"].get("node0", 0))


async def _quietly(_: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module", params=["debian-12", "debian-13"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A bare machine."""
    try:
        image = asyncio.run(provide(request.param, "auto", None, _quietly))
    except RackwrightError as error:
        pytest.skip(f"there is no base system here: {error}")
    made = Node(request.param, f"rw-installs-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("node"))
    try:
        made.start(image)
        yield made
    finally:
        podman("rm", "--force", "--ignore", "--time", "0", "--volumes", made.name)


@pytest.mark.parametrize(
    ("role", "stack", "tools"),
    [
        ("tuning", {"tuning": TUNING}, ["tuned-adm --version", "test -d /usr/lib/tuned"]),
        ("scratch", {"scratch": SCRATCH}, ["mdadm --version", "mkfs.xfs -V", "wipefs --version"]),
        ("roce", {}, ["ibv_devinfo --help"]),
        (
            "containers",
            {"containers": ["podman", "docker"]},
            ["podman --version", "docker --version", "newuidmap --help 2>&1 | grep -q usage"],
        ),
        (
            "tools",
            {"tools": ["nvtop", "perftest", "infiniband-diags"]},
            ["nvtop --version", "ib_write_bw --version", "test -x /usr/sbin/ibstat"],
        ),
    ],
)
def test_packages_are_there_and_a_second_run_changes_nothing(node: Node, role: str, stack: dict[str, Any], tools: list[str]) -> None:
    assert node.apply(role, stack, "--tags install") > 0
    assert node.apply(role, stack, "--tags install") == 0
    assert node.apply(role, stack, "--tags install --check") == 0
    for tool in tools:
        node.sh(tool)


def test_a_tool_that_nobody_packages_is_refused_in_words(node: Node) -> None:
    if node.os != "debian-13":
        pytest.skip("Debian 12 has it in NVIDIA's repository")
    with pytest.raises(AssertionError, match="nobody packages nsight-systems for debian-13"):
        node.apply("tools", {"tools": ["nvtop", "nsight-systems"]})


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    """A package of one module, as small as one can be."""
    meta = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": code,
        f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, f"{meta}/RECORD": "".join(f"{path},,\n" for path in [*files, f"{meta}/RECORD"])}.items():
            archive.writestr(path, content)


def test_a_wheelhouse_serves_a_node_without_a_way_out(node: Node, tmp_path: Path) -> None:
    """A tiny package stands in for PyTorch: what is seen is the way from a folder of wheels to an import."""
    wheel(tmp_path, "tinytorch", "2.8.0", "import tinydep\nname = 'torch'\n")
    wheel(tmp_path, "tinydep", "1.0", "")
    wheel(tmp_path, "broken", "1.0", "import nowhere\n")
    node.sh("mkdir -p /mnt/shared/wheels")
    for path in tmp_path.glob("*.whl"):
        podman("cp", str(path), f"{node.name}:/mnt/shared/wheels/")
    wanted = {"version": "2.8.0", "folder": "/mnt/shared/software/pytorch-2.8.0", "index": None, "wheelhouse": "/mnt/shared/wheels"}
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


SECRET = "a-password-that-nobody-else-may-read"


@pytest.fixture(scope="module")
def directory(node: Node) -> Node:
    """The node with a directory of its own: a real slapd over TLS, with one user who has a key and one who may not log in."""
    node.sh(LDAP.read_text().replace("@PASSWORD@", SECRET))
    return node


def test_users_of_a_directory_are_users_of_the_node(directory: Node, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    ldap = {
        "uri": ["ldaps://localhost"], "base": "dc=example,dc=org", "start_tls": False, "ca": "/etc/ldap/ca.pem",
        "bind": {"dn": "cn=reader,dc=example,dc=org", "password_file": str(tmp_path / "password")},
        "group_schema": "rfc2307", "allow": "(description=cluster)", "make_homes": True,
    }  # fmt: skip
    stack = {"directory": {"ldap": ldap}}
    assert directory.apply("sssd", stack) > 0
    assert directory.apply("sssd", stack) == 0
    assert directory.apply("sssd", stack, "--check") == 0
    assert directory.sh("getent passwd carol").startswith("carol:*:5001:5001:")
    assert directory.sh("id -nG carol").split() == ["carol", "physics"]
    assert directory.sh("sss_ssh_authorizedkeys carol").startswith("ssh-ed25519 AAAA")
    assert "mkhomedir" in directory.sh("cat /etc/pam.d/common-session")
    may = "sssctl user-checks -a acct -s login {} 2>&1 || true"
    assert "pam_acct_mgmt: Success" in directory.sh(may.format("carol"))
    assert "Permission denied" in directory.sh(may.format("dave"))


def test_the_password_is_nobody_elses_to_read(directory: Node) -> None:
    mode, owner = directory.sh("stat -c '%a %U' /etc/sssd/sssd.conf").split()
    assert (mode, owner) == ("600", "root")
    assert directory.sh(f"grep -c {SECRET} /etc/sssd/sssd.conf") == "1"
    assert directory.sh(f"journalctl --no-pager | grep -c {SECRET} || true") == "0"
    kept = [path for path in directory.folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]
    assert kept == [], "neither Ansible's results nor its output hold it"
