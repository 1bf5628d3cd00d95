"""rackwright.cluster.kubeadm_token: what a controller does for others, against stand-ins for kubeadm, kubectl and etcdctl."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import kubeadm, kubeadm_token

from .kubeadm_machine import INVITED, KEY, Machine, machine

__all__ = ["machine"]

CONTROLLERS = {"control0": "10.1.0.16", "control1": "10.1.0.17", "control2": "10.1.0.18"}


class TestInviting:
    def test_forgets_earlier_lives_and_draws_a_short_one(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm_token, {"state": "created", "returning": ["w0", "w1"]})
        assert told["join_credentials"] == INVITED and not told["changed"]
        forget, create = machine.said()
        assert forget.endswith("delete node --ignore-not-found w0 w1")
        assert create.startswith("kubeadm token create --ttl 15m ")

    def test_nobody_is_about_to_join(self, run: Any, machine: Machine) -> None:
        assert run(kubeadm_token, {"state": "created"})["join_credentials"] is None and machine.said() == []

    def test_check_mode_draws_none(self, run: Any, machine: Machine) -> None:
        assert (
            run(kubeadm_token, {"state": "created", "returning": ["w0"]}, check=True)["join_credentials"] is None and machine.said() == []
        )

    def test_a_failure_is_told_where_the_answer_is_kept_out_of_logs(self, run: Any, machine: Machine) -> None:
        (machine.folder / "silent").touch()
        told = run(kubeadm_token, {"state": "created", "returning": ["w0"]})
        assert not told["failed"] and told["join_credentials"] is None and "refused" in told["error"]

    def test_other_output_is_an_error_without_the_token(self, run: Any, machine: Machine) -> None:
        (machine.folder / "join").write_text(f"--token {INVITED['token']}\n")
        told = run(kubeadm_token, {"state": "created", "returning": ["w0"]})
        assert "no join command in its output - check the kubeadm version" in told["error"] and INVITED["token"] not in str(told)

    def test_ansible_is_told_to_keep_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def seen(argument_spec: dict[str, Any], **_: Any) -> None:
            assert argument_spec["join_credentials"]["no_log"] is True
            raise InterruptedError

        monkeypatch.setattr(kubeadm, "AnsibleModule", seen)
        with pytest.raises(InterruptedError):
            kubeadm.main()

    def test_controllers_are_given_the_key_to_the_certificates(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm_token, {"state": "created", "returning": ["w0", "control1"], "controllers": CONTROLLERS})
        assert told["join_credentials"] == INVITED and told["certificate_key"] == KEY
        *_, laid_down = machine.said()
        assert laid_down.startswith("kubeadm init phase upload-certs --upload-certs --config ") and KEY not in laid_down

    def test_a_worker_alone_gets_no_key(self, run: Any, machine: Machine) -> None:
        told = run(kubeadm_token, {"state": "created", "returning": ["w0"], "controllers": CONTROLLERS})
        assert told["certificate_key"] is None and not [line for line in machine.said() if "upload-certs" in line or "etcdctl" in line]

    def test_what_etcd_knows_of_an_earlier_life_is_taken_out_first(self, run: Any, machine: Machine) -> None:
        machine.etcd_has(control0="10.1.0.16", control2="10.1.0.18", **{"": "10.1.0.17"})  # one that was added and never started
        run(kubeadm_token, {"state": "created", "returning": ["control1", "w0"], "controllers": CONTROLLERS})
        said = machine.said()
        assert said.index("etcdctl member remove c") < next(at for at, line in enumerate(said) if "token create" in line)
        assert len([line for line in said if "member remove" in line]) == 1

    def test_a_key_that_is_not_printed_is_an_error(self, run: Any, machine: Machine) -> None:
        (machine.folder / "key").write_text("none")
        told = run(kubeadm_token, {"state": "created", "returning": ["control1"], "controllers": CONTROLLERS})
        assert told["join_credentials"] is None and "no certificate key in its output - check the kubeadm version" in told["error"]

    def test_a_lost_majority_is_said_with_the_way_out(self, run: Any, machine: Machine) -> None:
        (machine.folder / "silent").touch()
        for address in ("10.1.0.16", "10.1.0.17"):
            (machine.folder / f"dead-{address}").touch()
        told = run(kubeadm_token, {"state": "created", "returning": ["control0", "control1"], "controllers": CONTROLLERS})
        assert told["error"].startswith("etcd has lost its majority: of control0, control1, control2 only control2 answers")
        assert "`rackwright etcd backup`" in told["error"] and "`rackwright etcd restore --force`" in told["error"]


class TestForgotten:
    def test_members_go_and_who_is_dead_goes_first(self, run: Any, machine: Machine) -> None:
        machine.etcd_has(**CONTROLLERS)
        (machine.folder / "dead-10.1.0.18").touch()
        leaving = {name: CONTROLLERS[name] for name in ("control1", "control2")}
        assert run(kubeadm_token, {"state": "member_removed", "controllers": leaving}, check=True)["actions"] == [
            "remove control2 from etcd", "remove control1 from etcd"
        ]  # fmt: skip
        assert [line for line in machine.said() if "remove" in line] == []
        assert run(kubeadm_token, {"state": "member_removed", "controllers": leaving})["changed"]
        assert [line for line in machine.said() if "remove" in line] == ["etcdctl member remove c", "etcdctl member remove b"]

    @pytest.mark.parametrize(("leader", "moves"), [(11, ["etcdctl move-leader a --command-timeout=30s"]), (10, []), (0, [])])
    def test_member_that_stays_leads_before_others_are_removed(self, run: Any, machine: Machine, leader: int, moves: list[str]) -> None:
        """A cluster of two whose leader is removed has no majority until its last member is restarted."""
        machine.etcd_has(**CONTROLLERS)
        machine.etcd_is_led_by(leader)
        assert run(kubeadm_token, {"state": "member_removed", "controllers": {"control1": "10.1.0.17"}})["changed"]
        said = [line for line in machine.said() if "remove" in line or "move-leader" in line]
        assert said == [*moves, "etcdctl member remove b"]

    def test_the_others_are_given_time_to_settle(self, run: Any, machine: Machine) -> None:
        machine.etcd_has(**CONTROLLERS)
        (machine.folder / "unhealthy").touch()
        assert not run(kubeadm_token, {"state": "member_removed", "controllers": {"control1": "10.1.0.17"}})["failed"]
        assert [line for line in machine.said() if "remove" in line] == ["etcdctl member remove b"] * 2

    def test_who_is_none_is_not_taken_out(self, run: Any, machine: Machine) -> None:
        assert not run(kubeadm_token, {"state": "member_removed", "controllers": {"control1": "10.1.0.17"}})["changed"]


class TestWithdrawn:
    def test_the_certificates_are_taken_away(self, run: Any, machine: Machine) -> None:
        assert not run(kubeadm_token, {"state": "revoked"})["changed"]
        assert machine.said()[0].endswith("delete secret kubeadm-certs --ignore-not-found")
