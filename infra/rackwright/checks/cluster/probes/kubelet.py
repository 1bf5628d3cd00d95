"""Probes of a Kubernetes node: kubelet, containerd, endpoints that the node reaches, files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, answer_of, lines_of
from rackwright.checks.cluster.probes.units import CONTAINERD
from rackwright.remote.command import python_command


def _answers(context: ProbeContext) -> str:
    cluster = context.declared.cluster["scheduler"]
    arguments = (cluster["endpoint"], service_address(cluster["services"]), cluster["dns_address"], context.node["address"])
    return python_command("kubelet", {"topic": "answers", "arguments": arguments})


def service_address(services: str) -> str:
    """Return the address of the API for pods: the first address of the service range.

    >>> service_address("10.245.0.0/16")
    '10.245.0.1'
    """
    return str(ip_network(services)[1])


def parse_answers(text: str) -> dict[str, str | UnreadableValue]:
    """Return the response of each endpoint; UnreadableValue for a time-out."""
    found: dict[str, str] = json.loads(text)
    if "kubelet" not in found or "endpoint" not in found:
        raise ValueError("not every query has a result")
    return {endpoint: answer_of(endpoint, response) for endpoint, response in found.items()}


def not_refused(
    answers: Mapping[str, str | UnreadableValue], refusals: Collection[str] = ("status 401", "status 403")
) -> dict[str, str | UnreadableValue]:
    """Return the responses that are not refusals. A time-out stays UnreadableValue: such a server neither refused nor admitted a client."""
    return {request: answer for request, answer in answers.items() if isinstance(answer, UnreadableValue) or answer not in refusals}


ANSWERS = Probe("kubelet-answers", on="kubernetes", command=_answers, parse=parse_answers)


@dataclass(frozen=True)
class Files:
    """Files of Kubernetes on a node."""

    certificates: Mapping[str, float | None]
    """Remaining validity of each certificate in seconds, by path; None for a certificate that cannot be read."""
    private: Mapping[str, tuple[int, int]]
    """Owner and mode of files that only root may read, by path."""
    networks: Mapping[str, str]
    """Configurations of the pod network by file name, as the runtime reads them: the first in order applies."""
    static_pods: tuple[str, ...]
    """Files of static pods. The kubelet runs them with all rights and without the API."""
    joined: bool
    """Whether the kubelet has a certificate of its own."""


def parse_files(text: str) -> Files:
    """Return the files from one line of JSON."""
    found = json.loads(text)
    private = {path: (owner, mode) for path, (owner, mode) in found["private"].items()}
    return Files(found["certificates"], private, found["networks"], tuple(found["static_pods"]), found["joined"])


FILES = Probe("kubelet-files", on="kubernetes", command=python_command("kubelet", {"topic": "files"}), parse=parse_files)

_SAYS = "journalctl -u kubelet --no-pager -n 40 -o cat --since -2min"


def parse_complaints(text: str) -> tuple[str, ...]:
    """Return recent errors of a kubelet in their shortest form, the latest first.

    >>> parse_complaints('I1 fine\\nE1122 13:18:45.5 1611 run.go:72] "command failed" err="failed to run Kubelet: Unauthorized"\\n== end')
    ('command failed: failed to run Kubelet: Unauthorized',)
    """
    if not text.rstrip().endswith("== end"):
        raise ValueError("the journal is incomplete")
    found = re.findall(r'^[EF]\d{4} .*?\] (?:"((?:[^"\\]|\\.)*)"(?:.* err="((?:[^"\\]|\\.)*)")?|([^"\s].*))', text, re.MULTILINE)
    return tuple(f"{what}: {why}" if why else what or plain for what, why, plain in reversed(found))


COMPLAINTS = Probe("kubelet-complaints", on="kubernetes", command=f"{_SAYS} && echo == end", parse=parse_complaints)


def parse_routes(text: str) -> str:
    """Return the error of `pod-routes look`; empty if all routes exist."""
    *lines, last = text.strip().splitlines() or [""]
    if not re.fullmatch(r"== \d+", last):
        raise ValueError("no exit status")
    if last in ("== 126", "== 127", "== 137"):
        raise ValueError(f"it did not run: {'; '.join(lines)}")
    if last == "== 0":
        return ""
    return "; ".join(line.strip() for line in lines if line.strip()) or f"it ended with status {last[3:]}"


POD_ROUTES = Probe("pod-routes", on="kubernetes", command="/etc/rackwright/pod-routes check 2>&1; echo == $?", parse=parse_routes)


@dataclass(frozen=True)
class Runtime:
    """The running containerd."""

    version: str
    systemd_cgroups: Mapping[str, bool]
    """Whether a runtime of pods uses systemd for control groups: the default one and NVIDIA's, by name."""
    network_folder: str | UnreadableValue


def parse_runtime(text: str) -> Runtime:
    """Return the runtime from `containerd --version` and `containerd config dump`, in version 1, 2 or 3 of the configuration."""
    plain = "\n".join(line for line in lines_of(text) if not line.startswith("time="))  # a log line is a warning
    version = re.search(r"^containerd \S+ v?(\d\S*).*$", plain, re.MULTILINE)
    if not version:
        raise ValueError("no version")
    settings = tomllib.loads(plain[version.end() :])
    if {"cri", *_CRI} & set(settings.get("disabled_plugins", ())):
        return Runtime(version[1], {}, "none, because disabled_plugins lists the CRI plugin")
    plugins = settings.get("plugins", {})
    interface = next((plugins[name] for name in _CRI if "containerd" in plugins.get(name, {})), None)
    if interface is None:
        raise ValueError("no settings of the CRI plugin")
    folder = interface.get("cni", {}).get("conf_dir") or UnreadableValue("conf_dir of the CRI plugin", None, "")
    return Runtime(version[1], _systemd_cgroups(interface["containerd"]), folder)


_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
"""Names of the plugin in version 3, 2 and 1 of the configuration (containerd, docs/cri/config.md)."""


def _systemd_cgroups(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Return SystemdCgroup of runc's default runtime and of NVIDIA's. An option that is not set is off (containerd, runc options)."""
    default, known = settings.get("default_runtime_name") or "runc", settings["runtimes"]
    if default not in known:
        raise ValueError(f"the default runtime {default} is not configured")
    names = [default, *(name for name, one in known.items() if name != default and _is_nvidias(name, one))]
    runc = [name for name in names if known[name].get("runtime_type", "").startswith("io.containerd.runc.")]
    return {name: known[name].get("options", {}).get("SystemdCgroup", False) for name in runc}


def _is_nvidias(name: str, runtime: Mapping[str, Any]) -> bool:
    return "nvidia" in name or "nvidia" in runtime.get("options", {}).get("BinaryName", "")


RUNTIME = Probe("containerd", on="kubernetes", command="containerd --version && containerd config dump", parse=parse_runtime)


def parse_images(text: str) -> frozenset[str]:
    """Return the names of images, from lines of `ctr images list --quiet`. One without a tag is listed by its digest.

    >>> sorted(parse_images("registry.k8s.io/pause:3.10\\nsha256:873ed75102791e5b0b8a7fcd41606c92fcec98d56d05ead4ac5131650004c136"))
    ['registry.k8s.io/pause:3.10', 'sha256:873ed75102791e5b0b8a7fcd41606c92fcec98d56d05ead4ac5131650004c136']
    """
    names = [line.strip() for line in lines_of(text) if line.strip()]
    if strange := next((name for name in names if not re.fullmatch(r"[\w.:/@+-]+", name)), None):
        raise ValueError(f"not the name of an image: {strange}")
    if not names:
        raise ValueError("no image is listed, not even the one that holds the namespaces of pods")
    return frozenset(names)


IMAGES = Probe(
    "containerd-images",
    on="kubernetes",
    command="ctr --namespace k8s.io images list --quiet",
    parse=parse_images,
    needs=(CONTAINERD,),
)
"""Images that pods find on the node, those of the namespace of the CRI plugin."""


_FOLDERS = "/var/lib/containerd /var/lib/kubelet"


def parse_free(text: str) -> dict[str, int | UnreadableValue]:
    """Return the free space in percent by folder, from lines of `df --output=target,pcent`, each after the requested folder.

    >>> parse_free("/var/lib/kubelet  67%")
    {'/var/lib/kubelet': 33}
    """
    cells = {line.split()[0]: line.split()[1:] for line in lines_of(text) if line.startswith("/")}
    found = {folder: _unused(folder, used) for folder, used in cells.items()}
    if all(isinstance(one, UnreadableValue) for one in found.values()):
        raise ValueError(f"no folder is listed: {text.strip()}")
    return found


def _unused(folder: str, cells: list[str]) -> int | UnreadableValue:
    used = re.fullmatch(r"(\d{1,3})%", cells[0]) if len(cells) == 1 else None
    if not used or int(used[1]) > 100:
        return UnreadableValue(f"space of {folder}", " ".join(cells), f"{folder} {' '.join(cells)}")
    return 100 - int(used[1])


def _free(context: ProbeContext) -> str:
    etcd = " /var/lib/etcd" if context.node["name"] in context.declared.groups["kube_control_plane"] else ""
    return f'for d in {_FOLDERS}{etcd}; do echo "$d $(df --output=pcent $d | tail -n 1)"; done'


FREE = Probe("kubelet-space", on="kubernetes", command=_free, parse=parse_free)


def parse_drop_ins(text: str) -> dict[str, Any]:
    """Return the settings of drop-ins over kubeadm's, in their order. A nested key is replaced as a whole."""
    import yaml

    from rackwright.yaml_loader import load_yaml_documents

    found: dict[str, Any] = {}
    try:
        documents = load_yaml_documents(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    for document in documents:
        found |= {key: value for key, value in (document or {}).items() if key not in ("apiVersion", "kind")}
    if not found:
        raise ValueError("no settings")
    return found


DROP_INS = Probe(
    "kubelet-drop-ins",
    on="kubernetes",
    command='for f in /etc/kubernetes/kubelet.conf.d/*.conf; do echo "---"; cat "$f"; done',
    parse=parse_drop_ins,
)
