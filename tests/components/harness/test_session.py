"""A complete run without a cluster, or one that cannot start: every check is unknown, and none has passed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.hang import HANG_SECONDS, wait_until

from rackwright.yaml_loader import load_yaml

from . import standin

PROJECT = Path(__file__).parents[3]
GOLDEN = PROJECT / "tests" / "golden" / "inventory" / "inventory.yml"


@pytest.fixture
def home(tmp_path):
    """Return a stack's folder with an inventory and a passed report, at addresses for documentation, so that no running lab responds."""
    folder = tmp_path / "home" / "lab"
    folder.mkdir(parents=True)
    handed_over = GOLDEN.read_text(encoding="utf-8")
    (folder / "inventory.yml").write_text(handed_over.replace("10.77.0.", "192.0.2.").replace("127.0.0.1", "192.0.2.1"))
    (folder / "ssh_config").write_text("")
    (folder / "report.json").write_text('{"verdict": "passed"}')
    return folder


def command(home, *more):
    """Return the command line of a run."""
    where = ("--inventory", home / "inventory.yml", "--ssh-config", home / "ssh_config", "--results", home / "results")
    return [sys.executable, "-P", "-m", "rackwright.checks.cluster", *map(str, where), *more]


def run(home, script=standin.UNREACHABLE, *more, env=None, root=PROJECT / "infra"):
    """Run the checks over an ssh with a given behaviour; return its result, and the report."""
    tools = home.parent / "tools"
    tools.mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": standin.install(tools, script), "PYTHONPATH": str(root), **(env or {})}
    ended = subprocess.run(command(home, *more), capture_output=True, text=True, timeout=HANG_SECONDS, check=False, env=environment)
    return ended, json.loads((home / "report.json").read_text(encoding="utf-8"))


def reasons(report):
    """Return why checks are unknown."""
    return {check["reason"] for check in report["checks"] if check["verdict"] == "unknown"}


def test_unreachable_nodes_are_unknown(home):
    ended, report = run(home)
    assert (ended.returncode, report["verdict"]) == (3, "unknown")
    assert report["totals"]["passed"] == report["totals"]["skipped"] == 0
    assert {check["id"] for check in report["checks"] if check["verdict"] == "failed"} <= {"access.published_port_answers[login0]"}
    assert any("worker0 is unreachable" in reason for reason in reasons(report))
    assert len((home / "results" / "checks.jsonl").read_text().splitlines()) == len(report["checks"])


def test_pytest_addopts_are_ignored(home):
    _, report = run(home, standin.UNREACHABLE, "--level", "checks", env={"PYTEST_ADDOPTS": "-k nothing_at_all"})
    assert any("unreachable" in reason for reason in reasons(report))
    assert not any("did not run" in reason for reason in reasons(report))


def test_checks_that_do_not_run_are_unknown(home):
    ended, report = run(home, standin.UNREACHABLE, "--level", "checks", "--", "-k", "nothing_at_all")
    assert (ended.returncode, report["verdict"]) == (3, "unknown")
    assert reasons(report) == {"did not run: the run of the checks ended with NO_TESTS_COLLECTED"}


@pytest.fixture
def spoilt(tmp_path):
    """Append text to a file of the checks in a copy of the package; return the folder that holds the copy."""

    def _spoil(name, text):
        shutil.copytree(PROJECT / "infra", tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
        file = tmp_path / "copy" / "rackwright" / "checks" / "cluster" / name
        file.write_text(file.read_text(encoding="utf-8") + text)
        return tmp_path / "copy"

    return _spoil


def test_broken_check_file_affects_only_its_checks(home, spoilt):
    root = spoilt("test_gpu.py", "\nimport no_such_module_anywhere\n")
    ended, report = run(home, standin.UNREACHABLE, "--level", "checks", root=root)
    assert (ended.returncode, report["verdict"]) == (3, "unknown")
    gpu = {check["reason"] for check in report["checks"] if check["subject"] == "gpu"}
    assert all("test_gpu.py could not be collected" in reason for reason in gpu)
    assert not any("could not be collected" in check["reason"] for check in report["checks"] if check["subject"] == "munge")


def test_check_outside_catalogue_is_reported(home, spoilt):
    root = spoilt("test_munge.py", "\n\ndef test_is_new(expect):\n    expect(1, 1)\n")
    _, report = run(home, standin.UNREACHABLE, "--level", "checks", root=root)
    assert report["verdict"] == "unknown"


def test_failed_pytest_start_leaves_everything_unknown(home, spoilt):
    root = spoilt("pytest.ini", "no_such_option = 1\n")
    ended, report = run(home, standin.UNREACHABLE, "--level", "checks", root=root)
    assert (ended.returncode, report["verdict"], report["totals"]["passed"]) == (3, "unknown", 0)


def test_empty_group_is_reported(home):
    inventory = load_yaml((home / "inventory.yml").read_text())
    inventory["all"]["children"]["gpu"]["hosts"] = {}
    (home / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
    ended, report = run(home, standin.UNREACHABLE, "--level", "checks")
    assert ended.returncode == 3
    assert {item["id"] for item in report["not_run"] if item["reason"] == "empty-group"} >= {"gpu.count_matches_plan"}


def test_misspelt_group_is_error_without_verdict(home, spoilt):
    root = spoilt("pytest.ini", "")
    rows = root / "rackwright" / "catalog" / "checks.yml"
    rows.write_text(rows.read_text(encoding="utf-8").replace("group: gpu\n", "group: gpus\n"))
    ended, _ = run(home, standin.UNREACHABLE, root=root)
    assert ended.returncode == 2
    assert "gpus: unknown group" in ended.stderr


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_killed_run_leaves_no_passed_report(home, ending):
    tools = home.parent / "tools"
    tools.mkdir()
    environment = {**os.environ, "PATH": standin.install(tools, standin.SILENT), "RACKWRIGHT_SLOWNESS": "1"}
    with subprocess.Popen(
        command(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    ) as child:
        wait_until((home / "results" / "checks.jsonl").exists, pause=0.01)
        child.send_signal(ending)
        child.wait(timeout=HANG_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # Its ssh clients send nothing, and keep running.
    report = json.loads((home / "report.json").read_text())
    assert (report["verdict"], report["totals"]["passed"]) == ("unknown", 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--nodes", "worker9"), "is not a node of lab"),
        (("--level", "bogus"), "invalid choice"),
        (("--inventory", "/none"), "no inventory found"),
    ],
)
def test_bad_input_is_reported_and_changes_nothing(home, more, words):
    ended, report = run(home, standin.UNREACHABLE, *more)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert report == {"verdict": "passed"}


SLOW = """import json, shlex, sys
words = shlex.split(sys.argv[-1])
if "worker1" not in sys.argv:
    sys.exit("ssh: connect to host 192.0.2.1 port 22: Connection timed out")
speed = {"seconds": 2.5, "cpu_seconds": 0.02, "load": 81.5, "processors": 4}
print(json.dumps({"begun": True, "slowness": 15, "speed": speed}))
for name, _, seconds in json.loads(words[-1])["questions"]:
    error = f"{name}: the node had no time left for it"
    print(json.dumps({"name": name, "rc": 0, "out": "", "err": "", "error": error, "starved_seconds": seconds, "seconds": 0.0}))
"""


def test_slow_node_is_one_finding(home, tmp_path):
    """It had no time left for any probe; all other nodes are unreachable."""
    (tmp_path / "slow.py").write_text(SLOW)
    ended, report = run(home, f'exec {sys.executable} {tmp_path}/slow.py "$@"', "--level", "checks")
    found = {check["id"].partition("[")[0]: check for check in report["checks"] if check["node"] == "worker1"}
    assert [key for key, check in found.items() if check["verdict"] == "failed"] == ["node.responds_in_time"]
    slow = found["node.responds_in_time"]["reason"]
    assert "found Python starts in 2.50 s" in slow and "(load 81.5 on 4 processors)" in slow and "probes had no time left" in slow
    skipped = [check for check in found.values() if check["reason"] == "node-slow"]
    assert len(skipped) > 40 and {check["found"] for check in skipped} == {"worker1 is slow: node.responds_in_time[worker1]"}
    unknown = [check["reason"] for check in found.values() if check["verdict"] == "unknown"]
    assert unknown and not any("no time left" in reason or "internal error" in reason for reason in unknown)
    assert (ended.returncode, report["verdict"]) == (3, "unknown"), "the other nodes are unreachable"
