"""rackwright.cluster.kubeadm: what it has kubeadm do, against a kubeadm that notes its words and leaves the files the real one leaves."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import static_pods
from ansible_collections.rackwright.cluster.plugins.modules import kubeadm

from .kubeadm_machine import INVITED, KEY, KUBEADM, Machine, machine

__all__ = ["machine"]

CONTROLLERS = {"control0": "10.1.0.16", "control1": "10.1.0.17", "control2": "10.1.0.18"}


@pytest.fixture
def first(run: Any, machine: Machine) -> Any:
    """Runs state=first."""

    def once(check: bool = False, **more: Any) -> dict[str, Any]:
        asked = {"state": "initialized", "config": str(machine.config), "ignore_preflight_errors": ["HTTPProxyCIDR"], "timeout": 1, **more}
        told: dict[str, Any] = run(kubeadm, asked, check=check)
        return told

    return once


class TestFirst:
    def test_makes_the_cluster_once(self, first: Any, machine: Machine) -> None:
        told = first()
        assert told["actions"] == ["create the cluster"] and told["changed"] and told["joined"]
        assert machine.said() == [f"kubeadm init --config {machine.config} --skip-token-print --ignore-preflight-errors=HTTPProxyCIDR"]
        told = first()
        assert not told["changed"] and machine.said() == []

    def test_check_mode_makes_none(self, first: Any, machine: Machine) -> None:
        assert first(check=True)["actions"] == ["create the cluster"] and machine.said() == []

    def test_takes_up_what_etcd_remembers(self, first: Any, machine: Machine) -> None:
        (machine.folder / "etcd" / "member").mkdir(parents=True)
        assert first()["actions"] == ["recreate the cluster from the etcd data"]
        assert machine.said()[0].endswith("--ignore-preflight-errors=HTTPProxyCIDR,DirAvailable--var-lib-etcd")

    def test_finishes_an_init_that_was_cut_off(self, first: Any, machine: Machine) -> None:
        machine.has("admin.conf", "manifests/kube-apiserver.yaml")
        assert first()["actions"] == ["finish creating the cluster"]
        assert "FileAvailable--etc-kubernetes-manifests-etcd.yaml" in (said := machine.said()[0]) and "Port-6443" in said
        assert not first()["changed"]

    def test_an_init_that_fails_is_told_and_tried_again(self, first: Any, machine: Machine) -> None:
        (machine.folder / "refuse").write_text("[preflight] Running\n\t[ERROR Port-6443]: Port 6443 is in use\n")
        told = first()
        assert told["failed"] and told["msg"].startswith("kubeadm init --config: [ERROR Port-6443]: Port 6443 is in use - see")
        (machine.folder / "refuse").unlink()
        assert first()["changed"]

    def test_an_api_that_stays_silent_is_told(self, first: Any, machine: Machine) -> None:
        (machine.folder / "silent").touch()
        told = first(timeout=0)
        assert told["failed"] and "the API did not answer within 0 s: kubectl" in told["msg"]

    @pytest.mark.parametrize("part", kubeadm.PARTS)
    def test_a_manifest_that_somebody_edited_is_written_again(self, first: Any, machine: Machine, part: str) -> None:
        first()
        machine.said()
        path = machine.kubernetes / "manifests" / f"{part}.yaml"
        path.write_text("edited")
        assert first(check=True)["actions"] == [f"rewrite the static pods: {part}"] and machine.said() == []
        assert first()["changed"] and path.read_text() == "as kubeadm makes it\n"
        phases = ("control-plane all", "etcd local", "upload-config all")
        assert machine.said() == [f"kubeadm init phase {phase} --config {machine.config}" for phase in phases]
        assert not first()["changed"]

    def test_a_configuration_that_changed_is_followed(self, first: Any, machine: Machine) -> None:
        first()
        machine.config.write_text("clusterName: lab\nkubernetesVersion: v1.34.2\n")
        assert first()["actions"] == ["rewrite the static pods"] and not first()["changed"]

    def test_upload_is_repeated_while_static_pods_restart(self, first: Any, machine: Machine) -> None:
        first()
        machine.config.write_text("clusterName: other\n")
        (machine.folder / "restarting").write_text("1\n2\n")
        machine.said()
        assert not first().get("failed")
        assert sum("upload-config" in line for line in machine.said()) == 3
        assert not first()["changed"]

    def test_upload_that_fails_until_timeout_reports_error(self, first: Any, machine: Machine) -> None:
        first()
        machine.config.write_text("clusterName: other\n")
        (machine.folder / "restarting").write_text("1\n" * 9)
        told = first(timeout=-1)
        assert told["failed"] and "context deadline exceeded" in told["msg"]
        (machine.folder / "restarting").unlink()
        assert first()["actions"] == ["rewrite the static pods"]


class TestCertificates:
    @pytest.fixture
    def made(self, first: Any, machine: Machine) -> Machine:
        """A cluster with certificates of a year; the authority's last a day, which is not ours to renew."""
        first()
        (machine.kubernetes / "pki" / "etcd").mkdir(parents=True)
        for name, days in (("ca.crt", 1), ("front-proxy-ca.crt", 1), ("apiserver.crt", 365), ("etcd/server.crt", 365), ("etcd/ca.crt", 1)):
            (machine.kubernetes / "pki" / name).write_bytes(self.certificate(machine.folder, days))
        self.give(machine, 365)
        machine.said()
        return machine

    @staticmethod
    def certificate(folder: Path, days: int) -> bytes:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"]
        subprocess.run([*command, "-days", str(days), "-keyout", "/dev/null", "-out", folder / "c"], check=True, capture_output=True)
        return (folder / "c").read_bytes()

    def give(self, machine: Machine, days: int) -> None:
        text = base64.b64encode(self.certificate(machine.folder, days)).decode()
        (machine.kubernetes / "scheduler.conf").write_text(f"    client-certificate-data: {text}\n")

    def test_those_that_last_are_left_alone(self, first: Any, made: Machine) -> None:
        assert not first()["changed"] and made.said() == []

    @pytest.mark.parametrize("name", ["apiserver.crt", "etcd/server.crt"])
    def test_all_are_renewed_where_one_ends_soon(self, first: Any, made: Machine, name: str) -> None:
        (made.kubernetes / "pki" / name).write_bytes(self.certificate(made.folder, 44))
        expected = [f"renew all certificates, because these expire soon: pki/{name}"]
        assert first(check=True)["actions"] == expected and made.said() == []
        assert first()["actions"] == expected
        assert made.said() == [f"kubeadm certs renew all --config {made.config}"]
        assert len(list((made.kubernetes / "manifests").iterdir())) == 4
        assert not first(renew_before=43)["changed"]

    def test_a_kubeconfigs_counts(self, first: Any, made: Machine) -> None:
        self.give(made, 44)
        assert first()["actions"] == ["renew all certificates, because these expire soon: scheduler.conf"]

    def test_what_runs_is_stopped_before_it_starts_with_the_new_ones(
        self, first: Any, made: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[int] = []
        monkeypatch.setattr(static_pods, "is_open", lambda port: bool(seen.append(len(list((made.kubernetes / "manifests").iterdir())))))
        assert first(renew_before=1000)["changed"] and set(seen) == {0}

    def test_pods_come_back_once_the_kubelet_forgot_them(self, made: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        left, looks = made.folder / "pods" / "uid" / "containers" / "kube-scheduler", iter(range(9))
        left.mkdir(parents=True)
        monkeypatch.setattr(static_pods, "ticks", lambda until: (left.rmdir() if look == 5 else None for look in looks))
        static_pods.StaticPods(str(made.kubernetes / "manifests"), str(made.kubernetes / "held")).stop()
        assert next(looks) > 5

    def test_a_restart_that_was_cut_off_is_finished(self, first: Any, made: Machine) -> None:
        pods = static_pods.StaticPods(str(made.kubernetes / "manifests"), str(made.kubernetes / "rackwright" / "held"))
        pods.stop()
        assert first(check=True)["actions"] == ["restart the static pods"] and pods.interrupted()
        assert first()["actions"] == ["restart the static pods"] and not pods.interrupted() and made.said() == []


def joining(**more: Any) -> dict[str, Any]:
    return {"state": "joined", "name": "w1", "address": "10.1.0.25", "endpoint": "10.1.0.16:6443", "join_credentials": INVITED, **more}


class TestJoined:
    def test_joins_once_with_the_authority_pinned(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm, joining(taints=["a/b=c:NoSchedule"]))
        assert told["actions"] == ["join 10.1.0.16:6443"] and told["joined"]
        document = json.loads((machine.folder / "document").read_text())
        token = {"apiServerEndpoint": "10.1.0.16:6443", "token": INVITED["token"], "caCertHashes": [INVITED["authority"]]}
        assert document["discovery"] == {"bootstrapToken": token} and "controlPlane" not in document
        assert document["nodeRegistration"]["taints"] == [{"key": "a/b", "value": "c", "effect": "NoSchedule"}]
        assert document["nodeRegistration"]["kubeletExtraArgs"] == [{"name": "node-ip", "value": "10.1.0.25"}]
        machine.said()
        assert not run(kubeadm, joining())["changed"] and machine.said() == []

    def test_registers_with_the_labels_that_are_its_own_to_set(self, run: Any, machine: Machine) -> None:
        labels = {"nvidia.com/gpu.present": "true", "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "r1", "a": "b"}
        run(kubeadm, joining(labels=labels))
        told = json.loads((machine.folder / "document").read_text())["nodeRegistration"]["kubeletExtraArgs"]
        assert told[1] == {"name": "node-labels", "value": "a=b,nvidia.com/gpu.present=true,topology.kubernetes.io/zone=r1"}

    def test_nobody_else_sees_the_token(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm, joining())
        said = machine.said()
        assert len(said) == 1 and INVITED["token"] not in said[0] + str(told)
        assert (machine.folder / "mode").read_text() == "600\n"
        assert not Path(said[0].split()[3]).exists()

    def test_the_file_goes_where_the_join_fails(self, run: Any, machine: Machine) -> None:
        (machine.folder / "refuse").write_text("error execution phase preflight: couldn't validate the identity of the API Server\n")
        told = run(kubeadm, joining())
        assert told["failed"] and "couldn't validate the identity" in told["msg"] and INVITED["token"] not in str(told)
        assert not Path(machine.said()[0].split()[3]).exists()

    def test_one_that_was_made_anew_forgets_its_earlier_life(self, run: Any, machine: Machine) -> None:
        (machine.folder / "kubelet").mkdir()
        (machine.folder / "kubelet" / "config.yaml").touch()
        assert run(kubeadm, joining())["changed"]
        assert [line.split()[1] for line in machine.said()] == ["reset", "join"]

    def test_one_that_was_cut_off_begins_anew(self, run: Any, machine: Machine) -> None:
        machine.has("kubelet.conf", "bootstrap-kubelet.conf")
        assert run(kubeadm, joining())["joined"]
        assert [line.split()[1] for line in machine.said()] == ["reset", "join"]

    def test_a_controller_brings_the_certificates_key(self, run: Any, machine: Machine) -> None:
        run(kubeadm, joining(control_plane=True, join_credentials={**INVITED, "certificate_key": "k"}))
        control = json.loads((machine.folder / "document").read_text())["controlPlane"]
        assert control == {"localAPIEndpoint": {"advertiseAddress": "10.1.0.25", "bindPort": 6443}, "certificateKey": "k"}

    def test_without_an_invitation_it_does_not_try(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm, joining(join_credentials=None))
        assert (
            told["failed"]
            and "no join token - check that the API of the primary controller answers" in told["msg"]
            and machine.said() == []
        )

    def test_check_mode_only_tells(self, run: Any, machine: Machine) -> None:
        assert run(kubeadm, joining(), check=True)["changed"] and machine.said() == []


def becoming(**more: Any) -> dict[str, Any]:
    """The arguments of a controller that joins."""
    return joining(
        name="control1",
        address="10.1.0.17",
        control_plane=True,
        timeout=1,
        **{"join_credentials": {**INVITED, "certificate_key": KEY}, **more},
    )


class TestFurtherControllers:
    def test_joins_once_and_then_keeps_to_its_configuration(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm, becoming(config=str(machine.config)))
        assert told["actions"] == ["join 10.1.0.16:6443 as a controller"] and told["joined"] and KEY not in str(told)
        machine.said()
        assert not run(kubeadm, becoming(config=str(machine.config), join_credentials=None))["changed"] and machine.said() == []

    def test_a_manifest_that_somebody_edited_is_written_again_and_nothing_is_uploaded(self, run: Any, machine: Machine) -> None:
        run(kubeadm, becoming(config=str(machine.config)))
        assert not run(kubeadm, becoming(config=str(machine.config), join_credentials=None))["changed"]
        machine.said()
        (machine.kubernetes / "manifests" / "etcd.yaml").write_text("edited")
        assert run(kubeadm, becoming(config=str(machine.config), join_credentials=None))["actions"] == ["rewrite the static pods: etcd"]
        assert machine.said() == [f"kubeadm init phase {phase} --config {machine.config}" for phase in ("control-plane all", "etcd local")]

    def test_what_its_disks_kept_of_an_earlier_life_is_thrown_away(self, run: Any, machine: Machine) -> None:
        (machine.folder / "etcd" / "member" / "wal").mkdir(parents=True)
        (machine.kubernetes / "rackwright" / "applied.json").write_text("{}")
        assert run(kubeadm, becoming())["changed"]
        assert [line.split()[1] for line in machine.said()] == ["reset", "join"]
        assert not (machine.folder / "etcd" / "member" / "wal").exists()

    def test_one_that_was_cut_off_before_its_end_begins_anew(self, run: Any, machine: Machine) -> None:
        run(kubeadm, becoming())
        (machine.kubernetes / "rackwright" / "applied.json").unlink()
        assert run(kubeadm, {"state": "queried", "control_plane": True})["joined"] is False
        machine.said()
        assert run(kubeadm, becoming())["changed"] and [line.split()[1] for line in machine.said()] == ["reset", "join"]

    def test_the_first_says_that_the_majority_is_lost(self, first: Any, machine: Machine) -> None:
        first()
        (machine.folder / "silent").touch()
        for address in ("10.1.0.17", "10.1.0.18"):
            (machine.folder / f"dead-{address}").touch()
        told = first(timeout=0, controllers=CONTROLLERS)
        assert told["failed"] and told["msg"].startswith(
            "etcd has lost its majority: of control0, control1, control2 only control0 answers"
        )

    def test_no_second_cluster_is_made_beside_one_that_answers(self, first: Any, machine: Machine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            told = first(endpoint=f"127.0.0.1:{taken.getsockname()[1]}", controllers=CONTROLLERS)
        assert told["failed"] and "an API server answers, but no reachable controller runs one" in told["msg"] and machine.said() == []

    def test_what_etcd_remembers_is_taken_up_without_its_other_members(self, first: Any, machine: Machine) -> None:
        (machine.folder / "etcd" / "member").mkdir(parents=True)
        machine.config.write_text("kind: ClusterConfiguration\nclusterName: lab\n")
        machine.program("kubeadm", KUBEADM.replace("cd {folder}", 'cd {folder}; [ "$2" != --config ] || cp "$3" used'))
        assert first(controllers=CONTROLLERS)["actions"] == ["recreate the cluster from the etcd data"]
        assert "force-new-cluster" in (machine.folder / "used").read_text() and "force-new-cluster" not in machine.config.read_text()
        init, etcd, upload = machine.said()
        assert init.startswith(f"kubeadm init --config {machine.config}.alone ") and not Path(f"{machine.config}.alone").exists()
        assert etcd == f"kubeadm init phase etcd local --config {machine.config}" and "upload-config" in upload


class TestLeftAndLooked:
    def test_leaves_once(self, run: Any, machine: Machine) -> None:
        machine.has("kubelet.conf", "rackwright/applied.json")
        assert run(kubeadm, {"state": "reset"}, check=True)["changed"] and machine.said() == []
        told = run(kubeadm, {"state": "reset"})
        assert told["actions"] == ["leave the cluster"] and not told["joined"]
        assert machine.said()[0].startswith("kubeadm reset --force") and not (machine.kubernetes / "rackwright" / "applied.json").exists()
        assert not run(kubeadm, {"state": "reset"})["changed"] and machine.said() == []

    @pytest.mark.parametrize(
        ("files", "joined"),
        [([], False), (["kubelet.conf"], True), (["kubelet.conf", "bootstrap-kubelet.conf"], False)],
        ids=["new", "joined", "cut off"],
    )
    def test_tells_whether_it_is_one(self, run: Any, machine: Machine, files: list[str], joined: bool) -> None:
        machine.has(*files)
        told = run(kubeadm, {"state": "queried"})
        assert told["joined"] is joined and not told["changed"] and machine.said() == []
