"""All checks together, and what `make doctor` and `make up` print of them."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from bootstrap import doctor, engine, environment, front, packages
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.machine_checks import capacity, downloads, every_check, network, text
from bootstrap.machine_checks.finding import Finding, Group, Level, ok

CHECKOUT = Path(__file__).resolve().parents[4]
BROKEN = (
    Group("A", (ok("x", "good"), Finding(Level.WARNING, "linger", "disabled", "why", ("sudo loginctl enable-linger alice",)))),
    Group("B", (Finding(Level.ERROR, "ids", "too few", "why", ("sudo usermod x", "sudo reboot"), "Then log in again."),)),
    Group("D", (Finding(Level.INFO, "cpuset", "not delegated", "why", ("sudo info",)),)),
    Group("C", (Finding(Level.ERROR, "dev", "closed", "why", ("sudo chmod 666 /dev/fuse", "date", "sudo make up STACK=x")),)),
)


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "request_head", lambda address: "")
    monkeypatch.setattr(downloads, "package_index", lambda machine: ("https://index.example.org/simple", ""))
    monkeypatch.setattr(capacity, "bind_error", lambda address, port: 0)


@pytest.fixture(autouse=True)
def _with_large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the tests may be a small tmpfs."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100 * 2**30))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without a virtual environment."""
    made = tmp_path / "checkout"
    for name in ("requirements.lock", "pyproject.toml", "tools/pulumi/go.mod"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, made / name)
    shutil.copytree(CHECKOUT / "stacks", made / "stacks")
    return made


@pytest.fixture
def good(make_machine) -> Machine:
    """A Debian 13 on which an ordinary user can run a lab."""
    every = {name: "" for need in (*packages.LAB, *packages.ROOTLESS) for name in need.commands}
    commands = {**every, "podman": "case $1 in ps) ;; *) echo podman version 5.4.2;; esac", "unshare": "", "sudo": "", "newgidmap": ""}
    files = {path: "" for need in (*packages.LAB, *packages.ROOTLESS, packages.UBUNTU_KEYRING) for path in need.files}
    files |= {
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers": "cpuset cpu io memory pids\n",
        "/etc/subuid": "alice:100000:65536\n",
        "/etc/subgid": "alice:100000:65536\n",
        "/proc/sys/user/max_user_namespaces": "96365\n",
        "/proc/sys/fs/inotify/max_user_instances": "128\n",
        "/proc/sys/kernel/keys/maxkeys": "200\n",
        "/proc/key-users": " 1000:    2 2/2 2/200 40/20000\n",
        "/proc/meminfo": "MemAvailable:    8192000 kB\n",
        "/run/systemd/system/x": "",
        "/var/lib/systemd/linger/alice": "",
        "/dev/fuse": "",
        "/dev/net/tun": "",
    }
    machine: Machine = make_machine(files, commands)
    for name in ("newuidmap", "newgidmap"):
        found = machine.which(name)
        assert found
        Path(found).chmod(0o4755)
    return machine


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's D-Bus that answers."""
    monkeypatch.setattr("bootstrap.machine_checks.session._connect", lambda path: "")


def problems(machine: Machine, checkout: Path, stack: str = "lab") -> list[str]:
    """Return the subjects of what is not ok."""
    groups = every_check.check_machine(machine, checkout, stack)
    return [finding.subject for group in groups for finding in group.findings if finding.level is not Level.OK]


@pytest.mark.usefixtures("bus")
def test_good_machine_has_no_findings(good: Machine, checkout: Path) -> None:
    assert problems(good, checkout) == []


@pytest.mark.usefixtures("bus")
def test_good_machine_takes_no_kubernetes(good: Machine, checkout: Path) -> None:
    assert problems(good, checkout, "lab-k8s") == ["privileges"]


def test_kubernetes_error_stands_alone_when_rootless(make_machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "CHECKOUT", checkout)
    with pytest.raises(Failure) as failure:
        front.set_up(make_machine(), "lab-k8s")
    assert [line for line in str(failure.value).splitlines() if "sudo" in line] == ["             sudo make up STACK=lab-k8s"]
    assert "ask an administrator" not in doctor.report(make_machine(), checkout, "lab-k8s").text.lower()


@pytest.mark.parametrize(
    ("path", "content", "subject"),
    [
        ("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers", "memory pids", "delegated controllers"),
        ("/etc/subuid", "", "subordinate user ids"),
        ("/etc/subgid", "bob:100000:65536", "subordinate group ids"),
        ("/proc/sys/user/max_user_namespaces", "0", "user namespaces"),
        ("/proc/sys/fs/inotify/max_user_instances", "8", "fs.inotify.max_user_instances"),
        ("/proc/key-users", " 1000:    2 2/2 199/200 40/20000\n", "kernel.keys.maxkeys"),
        ("/proc/meminfo", "MemAvailable:    81920 kB\n", "memory"),
        ("/var/lib/systemd/linger/alice", None, "linger"),
        ("/dev/fuse", None, "/dev/fuse"),
        ("/dev/net/tun", None, "/dev/net/tun"),
    ],
)
@pytest.mark.usefixtures("bus")
def test_one_fault_is_one_finding(good: Machine, checkout: Path, path: str, content: str | None, subject: str) -> None:
    file = good.root / path.lstrip("/")
    file.unlink() if content is None else file.write_text(content)
    assert problems(good, checkout) == [subject]


@pytest.mark.usefixtures("bus")
def test_port_in_use_is_error_for_up_only(good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "bind_error", lambda address, port: errno.EADDRINUSE)
    assert problems(good, checkout) == ["published port"]
    assert not text.has_errors(every_check.check_machine(good, checkout, "lab", with_ports=False))


@pytest.mark.parametrize(("arguments", "with_ports"), [([], True), (["--without-ports"], False)])
def test_ports_are_left_out_for_tests(monkeypatch: pytest.MonkeyPatch, arguments: list[str], with_ports: bool) -> None:
    asked: list[object] = []
    monkeypatch.setattr(front, "set_up", lambda machine, stack, dev, **options: asked.append((stack, dev, options)))
    assert front.main(["setup", *arguments]) == 0
    assert asked == [("lab", False, {"with_ports": with_ports})]


def test_silent_bus_is_the_only_finding(good: Machine, checkout: Path) -> None:
    assert problems(good, checkout) == ["user session"]


@pytest.mark.usefixtures("bus")
def test_missing_podman_is_unknown_not_error(good: Machine, checkout: Path) -> None:
    (good.root / "bin/podman").unlink()
    groups = every_check.check_machine(good, checkout, "lab")
    assert not text.has_errors(groups)
    assert problems(good, checkout) == ["Podman"]


def test_hosts_stack_is_not_checked_for_containers(good: Machine, checkout: Path) -> None:
    (good.root / "etc/subuid").write_text("")
    assert problems(good, checkout, "onprem-gpu") == []
    assert every_check.check_containers(good, checkout, "onprem-gpu") == ()


def test_network_is_left_alone_when_complete(good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "needs_python_packages", lambda machine, checkout: False)
    monkeypatch.setattr(downloads, "needs_engine", lambda machine, checkout: False)
    monkeypatch.setattr(downloads, "missing_packages", lambda machine, checkout, stack: ())
    findings = every_check._check_downloads(good, checkout, "lab")
    assert [each.subject for each in findings] == ["clock"]


def test_closed_checkout_is_found(good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != checkout)
    assert "checkout" in problems(good, checkout, "onprem-gpu")


@pytest.mark.parametrize(("absent", "asked"), [((packages.LAB[0],), ["system packages"]), ((), [])])
def test_mirrors_are_asked_when_packages_lack(
    good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch, absent: tuple[packages.Need, ...], asked: list[str]
) -> None:
    (good.root / "etc/apt").mkdir()
    (good.root / "etc/apt/sources.list").write_text("deb http://mirror.example.org/debian trixie main\n")
    monkeypatch.setattr(downloads, "missing_packages", lambda machine, checkout, stack: absent)
    subjects = [each.subject for each in every_check._check_downloads(good, checkout, "lab")]
    assert subjects == ["clock", "proxy", *asked, "Python packages"]


def test_needs_follow_environment_and_engine(good: Machine, checkout: Path) -> None:
    assert downloads.needs_python_packages(good, checkout)
    assert downloads.needs_engine(good, checkout)
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    (checkout / ".venv/rackwright-installed").write_text(f"runtime {environment.fingerprint(checkout)}\n")
    cached = engine.cache_folder(good) / "pulumi"
    cached.parent.mkdir(parents=True)
    cached.touch()
    cached.chmod(0o755)
    assert not downloads.needs_python_packages(good, checkout)
    assert not downloads.needs_engine(good, checkout)
    assert downloads.needed_space(good, checkout) == 0.0


def test_root_gets_commands_without_sudo(make_machine, checkout: Path) -> None:
    groups = every_check.check_machine(make_machine(user_id=0), checkout, "lab")
    commands = [command for group in groups for finding in group.findings for command in finding.commands]
    assert "modprobe fuse" in commands
    assert not any("sudo" in command for command in commands)


def test_problems_are_printed_errors_first() -> None:
    lines = text.format_problems(BROKEN)
    assert [line for line in lines if line.startswith("  error")] == ["  error    ids: too few", "  error    dev: closed"]
    assert lines.index("  warning  linger: disabled") > lines.index("  error    dev: closed")
    assert not any("good" in line for line in lines)


def test_commands_for_root_are_one_block() -> None:
    assert text.commands_for_root(BROKEN, ["sudo apt-get install -y podman"]) == [
        "sudo apt-get install -y podman",
        "sudo usermod x",
        "sudo chmod 666 /dev/fuse",
        "sudo loginctl enable-linger alice",
        "sudo reboot",
    ]


def test_block_names_administrator_when_sudo_lacks() -> None:
    assert text.format_block(["sudo x"], "alice", may_sudo=False)[0].startswith("alice cannot use sudo here. Ask an administrator")
    assert text.format_block(["sudo x"], "alice", may_sudo=True)[0] == "Run these commands, then run make again:"
    assert text.format_block([], "alice", may_sudo=True) == []


def test_ready_stops_at_errors(good: Machine) -> None:
    with pytest.raises(Failure, match=r"nothing was installed or created\.(.|\n)*ids: too few(.|\n)*sudo usermod x"):
        front.require_machine(good, BROKEN, [])


def test_ready_goes_on_after_warnings(good: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    front.require_machine(good, BROKEN[:1], [])
    assert "warning  linger: disabled" in capsys.readouterr().out


def test_ready_is_silent_when_all_is_ok(good: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    front.require_machine(good, (Group("A", (ok("x", "good"),)),), [])
    assert capsys.readouterr().out == ""


def test_ready_collects_packages_when_sudo_lacks(good: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "may_sudo", lambda machine: False)
    with pytest.raises(Failure, match=r"alice cannot use sudo here(.|\n)*sudo apt-get install(.|\n)*enable-linger alice"):
        front.require_machine(good, BROKEN[:1], [["sudo", "apt-get", "install", "podman"]])


def test_ready_installs_nothing_after_errors(good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "CHECKOUT", checkout)
    monkeypatch.setattr(packages, "install", lambda *_: pytest.fail("packages were installed"))
    (good.root / "bin/podman").unlink()
    (good.root / "etc/subuid").unlink()
    with pytest.raises(Failure, match="subordinate user ids"):
        front.set_up(good, "lab")


def test_ready_checks_again_after_packages(good: Machine, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "CHECKOUT", checkout)
    monkeypatch.setattr(packages, "may_sudo", lambda machine: True)
    unit = good.root / "usr/lib/systemd/user/dbus.socket"
    other = good.root / "lib/systemd/user/dbus.socket"
    unit.unlink()
    other.unlink()
    monkeypatch.setattr(packages, "install", lambda *_: unit.touch())
    with pytest.raises(Failure, match="D-Bus does not answer"):
        front.set_up(good, "lab")


@pytest.mark.usefixtures("bus")
def test_doctor_has_errors_when_ready_would_stop(good: Machine, checkout: Path) -> None:
    assert not doctor.report(good, checkout, "lab").has_errors
    (good.root / "etc/subuid").unlink()
    report = doctor.report(good, checkout, "lab")
    assert report.has_errors
    assert report.text.rstrip().endswith("sudo usermod --add-subuids 165536-231071 alice")


def test_doctor_exit_code_is_two_with_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for has_errors, code in ((True, 2), (False, 0)):
        monkeypatch.setattr(doctor, "report", lambda *_, result=has_errors: doctor.Report("text\n", result))
        assert front.main(["doctor"]) == code
    assert capsys.readouterr().out == "text\ntext\n"
