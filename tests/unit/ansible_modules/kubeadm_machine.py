"""A node in a folder, with a kubeadm that notes its words and leaves the files that the real one leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import etcd_members, kubeadm_commands, static_pods
from ansible_collections.rackwright.cluster.plugins.modules import kubeadm, kubeadm_token

INVITED = {"token": "abcdef.0123456789abcdef", "authority": "sha256:12"}
KEY = "0a" * 32
JOIN = f"kubeadm join 10.1.0.16:6443 --token {INVITED['token']} --discovery-token-ca-cert-hash {INVITED['authority']} \n"
KUBEADM = """#!/bin/sh
cd {folder}
echo "kubeadm $*" >> said
[ ! -e refuse ] || { cat refuse >&2; exit 1; }
write() {
  for part in etcd kube-apiserver kube-controller-manager kube-scheduler; do echo "as kubeadm makes it" > k/manifests/$part.yaml; done
}
case "$*" in
  "init --config"*) write; touch k/admin.conf k/kubelet.conf; mkdir -p etcd/member ;;
  "init phase control-plane"*) write ;;
  "init phase etcd"*) write ;;
  "init phase upload-config"*) [ ! -s restarting ] || { sed -i 1d restarting; echo "error: context deadline exceeded" >&2; exit 1; } ;;
  "token create"*) cat join ;;
  "init phase upload-certs"*) printf '[upload-certs] Using certificate key:\n%s\n' "$(cat key)" ;;
  "join --config"*)
    cp "$3" document; stat -c %a "$3" > mode; touch k/kubelet.conf; rm -f k/bootstrap-kubelet.conf
    ! grep -q controlPlane document || { write; touch k/admin.conf; mkdir -p etcd/member; } ;;
  "reset"*) rm -f k/*.conf k/manifests/*.yaml ;;
esac
"""
KUBECTL = '#!/bin/sh\necho "kubectl $*" >> {folder}/said\n[ ! -e {folder}/silent ] || {{ echo refused >&2; exit 1; }}\n'


ETCDCTL = """#!/bin/sh
echo "etcdctl $1 $2 $3" >> {folder}/said
case "$2" in
  status) cat {folder}/status ;;
  list) cat {folder}/members ;;
  remove) [ ! -e {folder}/unhealthy ] || { rm {folder}/unhealthy; echo 'Error: etcdserver: unhealthy cluster' >&2; exit 1; } ;;
esac
"""


class Machine:
    """A node in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kubernetes = folder, folder / "k"
        (self.kubernetes / "manifests").mkdir(parents=True)
        (self.kubernetes / "rackwright").mkdir()
        self.config = self.kubernetes / "rackwright" / "kubeadm.yaml"
        self.config.write_text("clusterName: lab\n")
        (folder / "join").write_text(JOIN)
        self.program("kubeadm", KUBEADM)
        self.program("kubectl", KUBECTL.replace("{{", "{").replace("}}", "}"))
        self.program("ip", "#!/bin/sh\n")
        self.program("etcdctl", ETCDCTL)
        (folder / "key").write_text(KEY)
        self.etcd_has(control0="10.1.0.16")
        self.etcd_is_led_by(10)

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text.replace("{folder}", str(self.folder)))
        (self.folder / name).chmod(0o755)

    def has(self, *names: str) -> None:
        for name in names:
            (self.kubernetes / name).write_text("")

    def etcd_has(self, **members: str) -> None:
        """Members of etcd, name to address, numbered from 10 on."""
        listed = [{"ID": 10 + index, "name": name, "peerURLs": [f"https://{address}:2380"]}
                  for index, (name, address) in enumerate(members.items())]  # fmt: skip
        (self.folder / "members").write_text(json.dumps({"members": listed}))

    def etcd_is_led_by(self, number: int) -> None:
        """The member of this node is number 10."""
        (self.folder / "status").write_text(json.dumps([{"Status": {"header": {"member_id": 10}, "leader": number}}]))

    def said(self) -> list[str]:
        """What was said to kubeadm and kubectl since the last look, without looks whether the API answers."""
        path = self.folder / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if "/readyz" not in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A node whose kubeadm, kubectl and etcdctl are stand-ins."""
    made = Machine(tmp_path)
    for module in (kubeadm, kubeadm_commands, kubeadm_token):
        monkeypatch.setattr(module, "FOLDER", str(made.kubernetes))
    monkeypatch.setattr(kubeadm, "KUBELET", str(made.folder / "kubelet"))
    monkeypatch.setattr(kubeadm, "MANIFESTS", str(made.kubernetes / "manifests"))
    monkeypatch.setattr(kubeadm, "STAMP", str(made.kubernetes / "rackwright" / "applied.json"))
    monkeypatch.setattr(kubeadm, "ETCD", str(tmp_path / "etcd"))
    monkeypatch.setattr(static_pods, "is_open", lambda port: False)
    monkeypatch.setattr(static_pods, "PODS", str(tmp_path / "pods"))
    monkeypatch.setattr(etcd_members, "answers", lambda address: not (tmp_path / f"dead-{address}").exists())
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return made
