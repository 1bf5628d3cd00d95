"""What a bundle is made of: the Go modules, the programs built from them, the images they go into."""

from __future__ import annotations

from typing import NamedTuple

_MAIN = "k8s.io/kubernetes/cmd/"
_PATH = "/usr/local/bin/"
_VERSION = "k8s.io/component-base/version."


class Module(NamedTuple):
    """A wrapper module beside this package, named by its folder."""

    folder: str
    title: str
    main: str
    """The module whose version in go.mod is the version of the programs."""
    programs: dict[str, str]
    """Name in the bundle: Go package."""
    tags: str
    variables: tuple[str, ...]
    """What the linker sets; {version}, {major} and {minor} are filled in."""
    packages: int
    """About how many are compiled; counted at 1.34.1."""


class Image(NamedTuple):
    """An image of one layer."""

    name: str
    """Its last part, as kubeadm names it."""
    archive: str
    programs: tuple[str, ...]
    """The first is its entry point."""
    module: str = ""
    """The folder of the module whose version its tag must tell."""
    folder: str = _PATH
    user: str = ""
    binds_low_ports: bool = False
    filters_packets: bool = False
    """It needs the tools of the kernel's packet filter."""
    own: bool = False
    """Ours: kubeadm does not know it."""


KUBERNETES = Module(
    folder="kubernetes",
    title="Kubernetes",
    main="k8s.io/kubernetes",
    programs={
        name: _MAIN + name
        for name in (
            "kubeadm",
            "kubelet",
            "kubectl",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-proxy",
        )
    },
    tags="selinux,notest,grpcnotrace",
    variables=(
        _VERSION + "gitVersion={version}",
        _VERSION + "gitMajor={major}",
        _VERSION + "gitMinor={minor}",
        _VERSION + "gitTreeState=clean",
        "k8s.io/client-go/pkg/version.gitVersion={version}",
    ),
    packages=2700,
)
ETCD = Module(
    folder="etcd",
    title="etcd",
    main="go.etcd.io/etcd/server/v3",
    programs={
        "etcd": "go.etcd.io/etcd/server/v3",
        "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
        "etcdutl": "go.etcd.io/etcd/etcdutl/v3",
    },
    tags="grpcnotrace",
    variables=(),
    packages=590,
)
COREDNS = Module(
    folder="coredns",
    title="CoreDNS",
    main="github.com/coredns/coredns",
    programs={"coredns": "github.com/coredns/coredns"},
    tags="grpcnotrace",
    variables=(),
    packages=1280,
)
MODULES = (KUBERNETES, ETCD, COREDNS)

OWN_PROGRAMS = ("pause", "gpu-device-plugin", "probe")
"""Folders of the Kubernetes module; their version is the digest of their sources."""

BINARIES = ("kubeadm", "kubelet", "kubectl", "etcdctl", "etcdutl")
"""What nodes have outside of images."""

OWN_REPOSITORY = "rackwright.local"

# Users as in the images that upstream publishes: nobody in particular for what needs no privilege.
IMAGES = (
    Image("kube-apiserver", "control-plane", ("kube-apiserver",), "kubernetes"),
    Image("kube-controller-manager", "control-plane", ("kube-controller-manager",), "kubernetes"),
    Image("kube-scheduler", "control-plane", ("kube-scheduler",), "kubernetes"),
    Image("etcd", "control-plane", ("etcd", "etcdctl", "etcdutl"), "etcd"),
    Image("kube-proxy", "node", ("kube-proxy",), "kubernetes", filters_packets=True),
    Image("coredns", "node", ("coredns",), "coredns", folder="/", user="65532:65532", binds_low_ports=True),
    Image("pause", "node", ("pause",), folder="/", user="65535:65535"),
    Image("gpu-device-plugin", "node", ("gpu-device-plugin",), own=True),
    Image("probe", "node", ("probe",), user="65532:65532", own=True),
)
ARCHIVES = ("control-plane", "node")

STAGES = len(MODULES) + 2 + len(ARCHIVES)
"""Of a build: besides these the packet filter's tools and the names of the images."""
