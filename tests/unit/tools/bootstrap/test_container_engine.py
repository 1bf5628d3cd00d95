"""Podman, the OCI runtime, and what needs root."""

from __future__ import annotations

import pytest

from bootstrap.machine_checks.container_engine import check_engine, judge_podman, judge_privileges, judge_runtime
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.lab_stack import LabStack
from bootstrap.machine_checks.observation import Output

STACK = LabStack("lab", 4, False, (2222,), "127.0.0.1")


@pytest.mark.parametrize(
    ("printed", "level"),
    [
        ("podman version 4.3.1\n", Level.OK),
        ("podman version 5.4.2\n", Level.OK),
        ("podman version 4.9.4-rhel\n", Level.OK),
        ("podman version 5.0.0-dev\n", Level.OK),
        ("podman version 3.4.4\n", Level.WARNING),
        ("podman version 4.2.0\n", Level.WARNING),
        ("something else\n", Level.UNKNOWN),
    ],
)
def test_podman_version_is_judged(printed: str, level: Level) -> None:
    assert judge_podman(Output(0, printed, "")).level is level


def test_podman_is_error_when_not_starting() -> None:
    output = Output(127, "", "podman: error while loading shared libraries: libgpgme.so.11\n")
    finding = judge_podman(output)
    assert finding.level is Level.ERROR
    assert "libgpgme.so.11" in finding.found
    assert finding.commands == ("podman info",)


def test_podman_is_unknown_when_it_does_not_answer_in_time() -> None:
    finding = judge_podman(Output(124, "", "no answer within 60 s"))
    assert (finding.level, finding.commands) == (Level.UNKNOWN, ())
    assert "no answer within 60 s" in finding.found


@pytest.mark.parametrize(
    ("runc", "crun", "unified", "level"),
    [
        ("/usr/sbin/runc", None, False, Level.OK),
        ("/usr/sbin/runc", "/usr/bin/crun", False, Level.OK),
        (None, "/usr/bin/crun", False, Level.ERROR),
        (None, "/usr/bin/crun", True, Level.OK),
        ("/usr/sbin/runc", None, True, Level.OK),
        (None, None, True, Level.ERROR),
        (None, None, None, Level.UNKNOWN),
    ],
)
def test_runtime_is_judged_by_cgroup_version(runc: str | None, crun: str | None, unified: bool | None, level: Level) -> None:
    assert judge_runtime(runc, crun, unified, "apt").level is level


def test_runtime_error_names_package_command() -> None:
    assert judge_runtime(None, "/usr/bin/crun", False, "dnf").commands == ("sudo dnf install -y runc",)
    assert judge_runtime(None, None, False, "").commands == ()
    assert "expected runc, found crun" in judge_runtime(None, "/usr/bin/crun", False, "dnf").found


def test_kubernetes_is_error_when_rootless() -> None:
    finding = judge_privileges(STACK._replace(name="lab-k8s", is_kubernetes=True), is_root=False)
    assert finding.level is Level.ERROR
    assert finding.commands == ("sudo make up STACK=lab-k8s",)
    assert "make up STACK=lab" in finding.then


@pytest.mark.parametrize(("nodes", "level"), [(12, Level.OK), (13, Level.ERROR), (None, Level.OK)])
def test_large_lab_is_error_when_rootless(nodes: int | None, level: Level) -> None:
    assert judge_privileges(STACK._replace(counted_nodes=nodes), is_root=False).level is level


def test_root_may_run_every_lab() -> None:
    assert judge_privileges(STACK._replace(counted_nodes=40, is_kubernetes=True), is_root=True).level is Level.OK


def test_missing_podman_has_no_follow_ups(make_machine) -> None:
    assert [finding.level for finding in check_engine(make_machine(), True)] == [Level.UNKNOWN]


def test_installed_podman_is_asked(make_machine) -> None:
    machine = make_machine(commands={"podman": "echo podman version 4.3.1", "crun": ""})
    assert {finding.subject: finding.found for finding in check_engine(machine, True)} == {"Podman": "4.3", "OCI runtime": "crun"}


def test_hybrid_machine_uses_runc(make_machine) -> None:
    machine = make_machine(commands={"podman": "echo podman version 4.3.1", "crun": "", "runc": ""})
    assert check_engine(machine, False)[1].found == "runc"
