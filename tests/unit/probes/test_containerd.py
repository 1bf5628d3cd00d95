"""The configuration of containerd in all its versions, with NVIDIA's runtime as the default or beside runc."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support.monitored import declared_of
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.catalog.checks import Feature
from rackwright.checks.cluster import test_containerd
from rackwright.checks.cluster.probes.kubelet import IMAGES, RUNTIME, parse_runtime
from rackwright.checks.cluster.probes.kubernetes import KUBELETS

V1 = "containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1"
V2 = "containerd github.com/containerd/containerd/v2 v2.1.5 fcd43222d6b07379a4be9786bda52438f0dd16a1"
DOCKERS = "containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da"
PLUGINS = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def dump(version=V2, form=3, default="runc", head="", **runtimes):
    """Return both outputs. `runtimes`: SystemdCgroup by name, None without the option."""
    plugin = f"plugins.'{PLUGINS[form]}'"
    lines = [version, head, f"version = {form}", f"[{plugin}.cni]", "  conf_dir = '/etc/cni/net.d'"]
    lines += [f"[{plugin}.containerd]", f"  default_runtime_name = '{default}'"]
    for name, value in runtimes.items():
        kind = "io.containerd.kata.v2" if name == "kata" else "io.containerd.runc.v2"
        lines += [f"[{plugin}.containerd.runtimes.{name}]", f"  runtime_type = '{kind}'"]
        lines += [f"[{plugin}.containerd.runtimes.{name}.options]"]
        lines += [] if value is None else [f"  SystemdCgroup = {str(value).lower()}"]
    return "\n".join([*lines, "[plugins.'io.containerd.grpc.v1.cri']" if form == 3 else "", ""])


@each_row(
    ("text", "verdict"),
    [
        (dump(V1, 2, runc=True), "passed"),
        (dump(V2, 3, runc=True), "passed"),
        (dump(DOCKERS, 1, runc=True), "passed"),
        (dump(runc=False), "failed"),
        (dump(runc=None), "failed"),
        (dump(default="nvidia", nvidia=False, runc=True), "failed"),
        (dump(default="nvidia", nvidia=None, runc=True), "failed"),
        (dump(default="nvidia", nvidia=True, runc=False), "passed"),
        (dump(default="nvidia", nvidia=True, runc=True), "passed"),
        (dump(nvidia=False, runc=True), "failed"),
        (dump(crun=False, runc=True), "passed"),
        (dump(kata=None, runc=True), "passed"),
        (dump(default="kata", kata=None), "unknown"),
        (dump(default="runc", crun=True), "unknown"),
        (dump(runc=True).replace("\n", "\r\n"), "passed"),
        (dump(head='time="2026-11-27T10:00:00Z" level=warning msg="version is deprecated"', runc=True), "passed"),
        (dump(head='disabled_plugins = ["cri"]', runc=True), "unknown"),
        (dump(runc=True)[:180], "unknown"),
    ],
    ids=[
        *("version-2", "version-3", "version-1", "off", "not-set", "nvidia-default-off", "nvidia-default-not-set", "runc-unused"),
        *("nvidia-default", "nvidia-beside-off", "crun-unused", "kata-beside", "kata-default", "default-missing", "crlf", "warning"),
        *("cri-disabled", "cut"),
    ],
)
def test_cgroup_driver_has_verdict(text, verdict):
    answers = {**answers_of({RUNTIME: text}), **answers_of({KUBELETS: json.dumps({"worker0": {"cgroupDriver": "systemd"}})})}
    given = {"node": SimpleNamespace(name="worker0"), "cluster": SimpleNamespace(scheduler=SimpleNamespace(controllers=["login0"]))}
    assert verdict_of(test_containerd.test_cgroup_driver_is_the_kubelets, answers, **given)[0].value == verdict


@pytest.mark.parametrize(("line", "version"), [(V1, "1.7.24~ds1"), (V2, "2.1.5"), (DOCKERS, "1.7.27")], ids=["debian", "2.x", "docker"])
def test_version_is_read(line, version):
    assert parse_runtime(dump(line, runc=True)).version == version


def test_disabled_plugin_is_named():
    """The packages of Docker disable it."""
    found, reason = verdict_of(test_containerd.test_cni_config_loaded, answers_of({RUNTIME: dump(head='disabled_plugins = ["cri"]')}))
    assert found.value == "failed" and "disabled_plugins lists the CRI plugin" in reason


def test_missing_network_folder_is_unknown_and_rest_is_judged():
    text = dump(runc=True).replace("conf_dir", "other_dir")
    assert parse_runtime(text).systemd_cgroups == {"runc": True}
    found, reason = verdict_of(test_containerd.test_cni_config_loaded, answers_of({RUNTIME: text}))
    assert found.value == "unknown" and "conf_dir of the CRI plugin is missing" in reason


TRAINING = "registry.invalid/rackwright/training:1f0c"
OTHERS = "registry.k8s.io/pause:3.10.1\nsha256:873ed75102791e5b0b8a7fcd41606c92\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"{TRAINING}\n{OTHERS}", "passed"),
        (f"{OTHERS}{TRAINING}\r\n", "passed"),
        (OTHERS, "failed"),
        (OTHERS + TRAINING.replace("1f0c", "0000"), "failed"),
        (f"{OTHERS}{TRAINING}x\n", "failed"),
        ("", "unknown"),
        ("ctr: failed to dial /run/containerd/containerd.sock\n", "unknown"),
    ],
    ids=["there", "crlf", "missing", "of-other-sources", "longer-name", "empty", "message"],
)
def test_image_of_workloads_has_verdict(text: str, verdict: str) -> None:
    cluster = SimpleNamespace(scheduler=SimpleNamespace(training_image=TRAINING))
    found, reason = verdict_of(test_containerd.test_workload_images_present, answers_of({IMAGES: text}), cluster=cluster)
    assert found.value == verdict
    assert verdict != "failed" or TRAINING in reason


def test_image_is_checked_where_the_bundle_brings_it() -> None:
    """A kubelet pulls an image of a registry for the first pod, so that its absence is no fault."""
    base = {"groups": {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1}}, "fabric": None, "storage": {}}
    images = {"bundle": True, "registry.example.org/torch:2.6": False, None: False}
    scheduler = {image: {"kind": "kubernetes", **({"training_image": image} if image else {})} for image in images}
    seen = {
        image: Feature.WORKLOAD_IMAGES in declared_of(**base, scheduler=one, monitoring=None).features for image, one in scheduler.items()
    }
    assert seen == images
