"""The configuration of containerd 1.7 and 2.x, in config versions 2 and 3, with several runtimes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_containerd
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.kubelet import RUNTIME, parse_runtime
from rackwright.errors import UndeterminedError

PLUGINS = {3: "io.containerd.cri.v1.runtime", 2: "io.containerd.grpc.v1.cri"}


def dump(version=3, default="runc", folder="/etc/cni/net.d", **groups):
    """Return the dump of a configuration. `groups`: SystemdCgroup of each runtime, in the order in which containerd prints them."""
    plugin = f"plugins.'{PLUGINS[version]}'"
    lines = ["containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7", f"version = {version}", "[plugins.'io.containerd.gc.v1']"]
    lines += ["conf_dir = '/elsewhere'", f"[{plugin}.containerd]", f"default_runtime_name = '{default}'"]
    for name, value in sorted(groups.items()):
        lines += [f"[{plugin}.containerd.runtimes.{name}]", "cni_conf_dir = ''"]
        lines += [f"[{plugin}.containerd.runtimes.{name}.options]", *([] if value is None else [f"SystemdCgroup = {value}"])]
    return "\n".join([*lines, f"[{plugin}.cni]", *([f"conf_dir = '{folder}'"] if folder else [])]) + "\n"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("default", "groups", "expected"),
    [
        ("runc", {"runc": "true"}, True),
        ("runc", {"nvidia": "true", "runc": "false"}, False),
        ("runc", {"nvidia": "false", "runc": "true"}, True),
        ("nvidia", {"crun": "true", "nvidia": "false", "runc": "true"}, False),
        ("nvidia", {"nvidia": "true", "runc": "false"}, True),
    ],
)
def test_cgroup_driver_is_that_of_the_default_runtime(version, default, groups, expected):
    found = parse_runtime(dump(version, default, **groups))
    assert (found.version, found.systemd_cgroup, found.network_folder) == ("2.1.4", expected, "/etc/cni/net.d")


def test_line_ends_and_warnings_are_read():
    text = "WARN deprecated config\n" + dump(runc="true").replace("\n", "\r\n")
    assert parse_runtime(text).systemd_cgroup is True


@pytest.mark.parametrize("groups", [{"nvidia": "true"}, {"runc": None}, {"runc": '"yes"'}])
def test_unread_driver_is_unknown_and_the_rest_is_read(groups):
    found = parse_runtime(dump(**groups))
    assert isinstance(found.systemd_cgroup, UnreadableValue) and found.network_folder == "/etc/cni/net.d"
    answers = SimpleNamespace(name="w0"), SimpleNamespace(scheduler=SimpleNamespace(controllers=["c0"]))
    with pytest.raises(UndeterminedError, match="SystemdCgroup"):
        test_containerd.test_cgroup_driver_is_the_kubelets(
            lambda probe, of=None: found if probe is RUNTIME else {"w0": {"cgroupDriver": "systemd"}}, *answers, Expect()
        )


def test_missing_folder_is_unknown():
    found = parse_runtime(dump(folder="", runc="true"))
    with pytest.raises(UndeterminedError, match="conf_dir"):
        test_containerd.test_cni_config_loaded(lambda probe: found, Expect())


@pytest.mark.parametrize("text", ["", "containerd: command not found\n", dump(runc="true")[:-40], "version = 2\n"])
def test_other_output_is_unknown(text):
    with pytest.raises(UndeterminedError):
        RUNTIME.read(CommandOutput(out=text))
