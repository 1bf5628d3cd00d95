"""The built wheel in an environment of its own: a project folder is created, validated, planned and deployed without the checkout.

Every file that its Python opens is recorded, so that a path of the checkout is detected.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from rackwright import layout
from rackwright.targets import digests

ROOT = Path(__file__).resolve().parents[2]
OWN = [f"{layout.COLLECTION_NAME}.{file.stem}" for file in sorted((ROOT / layout.MODULES).glob("*.py"))]
_SHARED = sysconfig.get_path("purelib")
_RECORDER = """
import os, sys
def record(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        with_log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if arguments[0] != os.environ["OPENED"] else None
        if with_log is not None:
            os.write(with_log, (os.path.abspath(arguments[0]) + "\\n").encode())
            os.close(with_log)
if "OPENED" in os.environ:
    sys.addaudithook(record)
"""
_DIGESTS = """
import json
from rackwright import layout
from rackwright.targets import digests
root = layout.product_root()
found = digests.converge(root) | digests.verification(root)
print(json.dumps(found | {"bake": digests.bake(root, "kubernetes"), "power": digests.power_agent(root)}))
"""
_PROGRAM = """
import json, runpy, sys, pulumi, yaml
from rackwright.targets.lab import host_requirements
host_requirements.rootless = lambda: False
class Mocks(pulumi.runtime.Mocks):
    def new_resource(self, args):
        print(args.typ, args.name)
        return args.name, dict(args.inputs)
    def call(self, args):
        return {}
pulumi.runtime.set_mocks(Mocks(), project="rackwright", stack="lab")
cluster = yaml.safe_load(open("stacks/Pulumi.lab.yaml"))["config"]["rackwright:cluster"]
pulumi.runtime.set_all_config({"rackwright:cluster": json.dumps(cluster)})
@pulumi.runtime.test
def run():
    runpy.run_path("program", run_name="__main__")
run()
"""
_ENGINE = """#!/bin/sh
if [ "$1" = version ]; then echo v3.259.0; exit; fi
if [ "$1 $2" = "stack init" ]; then exit 1; fi
echo "engine $* in $PWD"
echo "project $RACKWRIGHT_PROJECT"
echo "program $("$RACKWRIGHT_PYTHON" "$RACKWRIGHT_LANGUAGE_HOST" 127.0.0.1:1 </dev/null | head -n 1)"
mkfifo said
plugin/pulumi-resource-rackwright 127.0.0.1:1 > said &
read -r port < said
echo "provider $port"
kill $!
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel, and an empty folder to work in."""

    venv: Path
    work: Path

    @property
    def opened(self) -> Path:
        """Return the record of the files that Python opened."""
        return self.work / "opened"

    def run(self, *command: str | Path, folder: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        given = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.work),
            "LANG": "C.UTF-8",
            "RACKWRIGHT_HOME": str(self.work / "home"),
            "XDG_CACHE_HOME": str(self.work / "cache"),
            "PULUMI_HOME": str(self.work / "pulumi"),
            "OPENED": str(self.opened),
            **environ,
        }
        program = self.venv / "bin" / command[0]
        return subprocess.run([program, *command[1:]], cwd=folder or self.work, env=given, capture_output=True, text=True, check=False)

    def of_checkout(self) -> list[str]:
        """Return opened paths of the checkout; its virtual environment provides the packages that the wheel needs."""
        lent = (str(Path(_SHARED).parents[2]), str(Path(_SHARED).resolve().parents[2]))
        return sorted({line for line in self.opened.read_text().splitlines() if line.startswith(f"{ROOT}/") and not line.startswith(lent)})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel and the packages of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", str(built)]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True, capture_output=True)
    packages = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    (packages / "record_opened.py").write_text(_RECORDER)
    (packages / "shared.pth").write_text(f"{_SHARED}\nimport record_opened\n")
    return folder / "venv"


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Installation:
    """Return the environment, and an empty folder."""
    return Installation(wheel, tmp_path)


@pytest.fixture
def project(installed: Installation) -> Path:
    """Return a new project folder."""
    made = installed.run("rackwright", "new", "mycluster")
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith("next:\n  cd mycluster\n  rackwright up lab\n")
    return installed.work / "mycluster"


def test_new_project_is_valid_and_planned_without_checkout(installed: Installation, project: Path) -> None:
    valid = installed.run("rackwright", "validate", "lab", folder=project)
    assert (valid.returncode, valid.stdout) == (0, "stack lab: valid, 4 nodes\n"), valid.stderr
    whole = installed.run("rackwright", "validate", folder=project)
    assert (whole.returncode, whole.stdout.splitlines()[-1]) == (0, "project mycluster: valid"), whole.stdout + whole.stderr
    plan = installed.run("rackwright", "plan", "lab", "--json", folder=project / "stacks")
    assert [node["name"] for node in json.loads(plan.stdout)["nodes"]] == ["login0", "worker0", "worker1", "storage0"]
    assert str(installed.venv) in installed.opened.read_text()
    assert installed.of_checkout() == []


def test_digests_of_wheel_are_those_of_checkout(installed: Installation) -> None:
    found = installed.run("python", "-c", _DIGESTS)
    here = digests.converge(ROOT) | digests.verification(ROOT)
    here |= {"bake": digests.bake(ROOT, "kubernetes"), "power": digests.power_agent(ROOT)}
    assert json.loads(found.stdout) == here, found.stderr
    assert installed.of_checkout() == []


def test_phases_of_wheel_find_roles_and_modules_of_collection(installed: Installation) -> None:
    data = installed.run("python", "-c", "from rackwright import layout; print(layout.product_root())").stdout.strip()
    playbook = ("-m", "ansible.cli.playbook", "--syntax-check", "-i", "node0,", f"{data}/playbooks/site.yml")
    checked = installed.run("python", *playbook, ANSIBLE_CONFIG=f"{data}/ansible.cfg")
    assert checked.returncode == 0, checked.stderr
    documented = installed.run("python", "-m", "ansible.cli.doc", "--json", *OWN, ANSIBLE_CONFIG=f"{data}/ansible.cfg")
    assert documented.returncode == 0, documented.stderr
    assert {Path(found["doc"]["filename"]).parent for found in json.loads(documented.stdout).values()} == {Path(data) / layout.MODULES}
    assert installed.of_checkout() == []


def test_health_check_finds_package_in_wheel(installed: Installation) -> None:
    """The role reads the checks by a path from its own folder, which Ansible gives without links."""
    code = "from rackwright import layout; print((layout.product_root() / layout.ROLES / 'slurm_worker').resolve())"
    role = installed.run("python", "-c", code).stdout.strip()
    parts = re.findall(r"_role ~ '([^']+)'", (ROOT / "roles/slurm_worker/tasks/health.yml").read_text(encoding="utf-8"))
    of_wheel, of_checkout = ([Path(f"{folder}{part}") for part in parts] for folder in (role, ROOT / "roles/slurm_worker"))
    assert [place.resolve() for place in of_wheel if place.is_file()] == [Path(role).parents[5] / "errors.py"]
    assert [place.resolve() for place in of_checkout if place.is_file()] == [ROOT / layout.PACKAGE / "errors.py"]


def test_program_of_new_project_registers_resources(installed: Installation, project: Path) -> None:
    ran = installed.run("python", "-c", _PROGRAM, folder=project)
    assert ran.returncode == 0, ran.stderr
    made = ran.stdout.splitlines()
    assert "rackwright:ansible:Converge converge" in made and "rackwright:test:Verification verification" in made
    assert installed.of_checkout() == []


def test_up_starts_engine_from_wheel(installed: Installation, project: Path) -> None:
    engine = installed.work / "cache" / "rackwright" / "pulumi-3.259.0" / "pulumi"
    engine.parent.mkdir(parents=True)
    engine.write_text(_ENGINE)
    engine.chmod(0o755)
    stack = project / "stacks" / "Pulumi.lab.yaml"
    stack.write_text(stack.read_text().replace("{kind: lab, os: debian-13}", "{kind: hosts}"))  # No system packages.
    up = installed.run("rackwright", "up", "lab", folder=project, PULUMI_BACKEND_URL="s3://elsewhere")
    said = dict(line.split(" ", 1) for line in up.stdout.splitlines() if line.split(" ")[0] in ("engine", "project", "program", "provider"))
    assert up.returncode == 0, up.stdout + up.stderr
    assert said["engine"] == f"up --stack lab --yes --skip-preview in {project}"
    assert said["project"] == str(project)
    assert said["program"].isdecimal() and said["provider"].isdecimal(), up.stderr
    assert (installed.venv / "rackwright-engine").read_text().startswith(f"{engine}\n")
    assert installed.of_checkout() == []


def test_up_keeps_existing_pulumi(installed: Installation, project: Path) -> None:
    (installed.venv / "bin" / "pulumi").unlink(missing_ok=True)
    (installed.venv / "bin" / "pulumi").write_text("#!/bin/sh\necho theirs\n")
    engine = installed.work / "cache" / "rackwright" / "pulumi-3.259.0" / "pulumi"
    engine.parent.mkdir(parents=True)
    engine.write_text(_ENGINE)
    engine.chmod(0o755)
    stack = project / "stacks" / "Pulumi.lab.yaml"
    stack.write_text(stack.read_text().replace("{kind: lab, os: debian-13}", "{kind: hosts}"))
    up = installed.run("rackwright", "up", "lab", folder=project)
    assert up.returncode == 1
    assert "bin/pulumi belongs to another package" in up.stderr
    assert "theirs" in (installed.venv / "bin" / "pulumi").read_text()
    (installed.venv / "bin" / "pulumi").unlink()


def test_up_outside_project_gives_hint(installed: Installation) -> None:
    up = installed.run("rackwright", "up", "lab")
    assert up.returncode == 2
    assert "run the command in a folder that `rackwright new` made, or set RACKWRIGHT_PROJECT to one" in up.stderr
    there = installed.run("rackwright", "new", "x")
    assert there.returncode == 0
    found = installed.run("rackwright", "validate", "lab", RACKWRIGHT_PROJECT=str(installed.work / "x"))
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("a/b", "not a name"), ("..", "not a name"), ("-x", "No such option"), ("full", "not empty"), ("file", "not a folder")],
)
def test_new_refuses(installed: Installation, name: str, complaint: str) -> None:
    (installed.work / "full").mkdir()
    (installed.work / "full" / "notes").write_text("mine")
    (installed.work / "file").write_text("mine")
    refused = installed.run("rackwright", "new", name)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert (installed.work / "full" / "notes").read_text() == (installed.work / "file").read_text() == "mine"
