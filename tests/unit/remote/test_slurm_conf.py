"""Configuration files of Slurm with the files that they include: slurm.conf(5), Include and INCLUDE MODIFIERS."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rackwright.checks.cluster import test_slurm
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.slurm import parse_digests
from rackwright.checks.cluster.probes.slurm_options import parse_file
from rackwright.errors import UndeterminedError
from rackwright.remote.command import python_arguments
from rackwright.remote.programs import log_files
from rackwright.remote.programs.slurm_conf import Configuration

HEAD = "ClusterName=Lab\n"
NODES = "NodeName=worker[0-1] Weight=5\n"


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files, and return the first."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return folder / next(iter(files))


def lines(file: Path) -> list[str]:
    """Return the lines that are neither blank nor comments."""
    return [line.strip() for line in Configuration().lines(str(file)) if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    "files",
    [
        {"slurm.conf": HEAD + "Include nodes.conf\n", "nodes.conf": NODES},
        {"slurm.conf": HEAD + "Include FOLDER/nodes.conf\n", "nodes.conf": NODES},
        {"slurm.conf": HEAD + "INCLUDE\t nodes.conf  # all of them\n", "nodes.conf": NODES},
        {"slurm.conf": HEAD + "include ./nodes.conf\r\n", "nodes.conf": NODES.replace("\n", "\r\n")},
        {"slurm.conf": HEAD + "Include nodes-%c.conf\n", "nodes-lab.conf": NODES},
        {"slurm.conf": HEAD + "Include %c/%c.conf\n", "lab/lab.conf": NODES},
        {"slurm.conf": HEAD + "Include more/all.conf\n", "more/all.conf": "Include nodes.conf\n", "more/nodes.conf": NODES},
        {"slurm.conf": HEAD + "Include a.conf\nInclude a.conf.d/b\n", "a.conf": "# nothing\n", "a.conf.d/b": NODES},
        {"slurm.conf": "Include name.conf\nInclude nodes-%c.conf\n", "name.conf": HEAD, "nodes-lab.conf": NODES},
        {"slurm.conf": HEAD + "Include nodes.conf", "nodes.conf": NODES.rstrip("\n")},
        {"slurm.conf": HEAD + "Include nodes.conf\n", "nodes.conf": "NodeName=worker[0-1] \\\nWeight=5"},
    ],
    ids=[
        *("relative", "absolute", "upper-case", "crlf", "cluster-name", "folder-of-cluster", "nested", "several", "name-in-include"),
        *("no-line-end", "continued"),
    ],
)
def test_included_file_is_read_in_place(tmp_path: Path, files: Mapping[str, str]) -> None:
    found = parse_file("\n".join(Configuration().lines(str(written(tmp_path, files)))))
    assert {name: options["weight"] for name, options in found.nodes.items()} == {"worker0": "5", "worker1": "5"}
    assert found.settings["clustername"] == "Lab" and found.nodes.unread == ()


def test_later_line_replaces_an_included_setting(tmp_path: Path) -> None:
    text = HEAD + "MaxJobCount=1\nInclude jobs.conf\nSlurmctldDebug=info\n"
    file = written(tmp_path, {"slurm.conf": text, "jobs.conf": "MaxJobCount=2\nSlurmctldDebug=debug\n"})
    assert lines(file) == ["ClusterName=Lab", "MaxJobCount=1", "MaxJobCount=2", "SlurmctldDebug=debug", "SlurmctldDebug=info"]


def test_open_line_of_an_included_file_ends_with_it(tmp_path: Path) -> None:
    file = written(tmp_path, {"slurm.conf": HEAD + "Include a.conf\nMaxJobCount=9\n", "a.conf": "SlurmctldPort=6817 \\"})
    assert parse_file("\n".join(Configuration().lines(str(file)))).settings == {
        "clustername": "Lab",
        "slurmctldport": "6817",
        "maxjobcount": "9",
    }


@pytest.mark.parametrize(
    "text", ["# Include nodes.conf\n", "SlurmctldHost=a \\\nInclude nodes.conf\n", "IncludeX nodes.conf\n", "X=Include nodes.conf\n"]
)
def test_other_lines_include_nothing(tmp_path: Path, text: str) -> None:
    configuration = Configuration()
    list(configuration.lines(str(written(tmp_path, {"slurm.conf": HEAD + text, "nodes.conf": NODES}))))
    assert (len(configuration.digests), configuration.unread) == (1, [])


@pytest.mark.parametrize(
    ("include", "reason"),
    [
        ("missing.conf", "No such file or directory"),
        ("FOLDER", "is not a regular file"),
        ("slurm.conf", "includes itself"),
        ("./slurm.conf", "includes itself"),
        ("loop.conf", "includes itself"),
        ('"nodes.conf"', "No such file or directory"),
        ("nodes*.conf", "No such file or directory"),
    ],
    ids=["missing", "folder", "itself", "itself-by-another-name", "cycle", "quoted", "pattern"],
)
def test_file_that_cannot_be_read_stays_a_line_with_the_reason(tmp_path: Path, include: str, reason: str) -> None:
    files = {"slurm.conf": f"{HEAD}Include {include}\nMaxJobCount=9\n", "nodes.conf": NODES, "loop.conf": "Include slurm.conf\n"}
    configuration = Configuration()
    found = list(configuration.lines(str(written(tmp_path, files))))
    (unread,) = configuration.unread
    assert unread.startswith("Include ") and reason in unread and unread in found and "MaxJobCount=9" in found


def test_name_of_the_cluster_must_come_first(tmp_path: Path) -> None:
    file = written(tmp_path, {"slurm.conf": "Include nodes-%c.conf\n" + HEAD, "nodes-lab.conf": NODES})
    assert lines(file) == ["Include nodes-%c.conf (ClusterName is not set above)", "ClusterName=Lab"]


def run(request: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *python_arguments("slurm_conf", request)[1:]], capture_output=True, text=True, check=False)


def test_program_prints_the_whole_configuration(tmp_path: Path) -> None:
    file = written(tmp_path, {"slurm.conf": HEAD + "Include nodes.conf\n", "nodes.conf": NODES})
    assert parse_file(run({"file": str(file)}).stdout).nodes["worker1"] == {"weight": "5"}
    missing = run({"file": f"{tmp_path}/other.conf"})
    assert missing.returncode == 1 and missing.stderr == f"{tmp_path}/other.conf: No such file or directory\n"


def test_program_prints_the_digest_of_each_file(tmp_path: Path) -> None:
    file = written(tmp_path, {"slurm.conf": HEAD + "Include nodes.conf\nInclude gone.conf\n", "nodes.conf": NODES})
    text = run({"digests": [[f"{tmp_path}/conf/slurm.conf", str(file)], [f"{tmp_path}/gres.conf"]]}).stdout
    found = parse_digests(text)
    assert found == {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("slurm.conf", "nodes.conf")}
    assert found.unread == ("Include gone.conf (No such file or directory)",)
    assert run({"digests": [[f"{tmp_path}/other.conf"]]}).stdout == ""


@pytest.fixture
def daemons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A node whose daemons' files are in a folder of its own."""
    monkeypatch.setattr(log_files, "SLURM_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(log_files, "MARIADB", ())
    (tmp_path / "ctl.log").touch()
    return tmp_path


def test_log_file_is_found_in_an_included_file(daemons: Path) -> None:
    written(
        daemons, {"slurm.conf": f"{HEAD}SlurmctldLogFile=/x\nInclude logs.conf\n", "logs.conf": f"SlurmctldLogFile={daemons}/ctl.log\n"}
    )
    assert log_files.of_daemons() == ([("slurmctld", f"{daemons}/ctl.log", "named")], [])


def test_log_file_may_be_named_in_a_file_that_was_not_read(daemons: Path) -> None:
    written(daemons, {"slurm.conf": f"{HEAD}SlurmctldLogFile={daemons}/ctl.log\nInclude logs.conf\n"})
    files, notes = log_files.of_daemons()
    assert files == [("slurmctld", f"{daemons}/ctl.log", "named")]
    assert [unit for unit, _ in notes] == ["slurmctld", "slurmd"] and "Include logs.conf (No such" in notes[0][1]


DIGEST = f"{'a' * 64}  /etc/slurm/slurm.conf\n"


@pytest.mark.parametrize(
    ("own", "error"),
    [
        (DIGEST + "Include nodes.conf (Permission denied)\n", UndeterminedError),
        (DIGEST.replace("a" * 64, "b" * 64) + "Include nodes.conf (Permission denied)\n", Mismatch),
    ],
    ids=["unread", "differs-beside-unread"],
)
def test_configuration_with_an_unread_file_never_passes(own: str, error: type[Exception]) -> None:
    texts = {"worker0": own, "worker1": DIGEST, "login0": DIGEST}
    with pytest.raises(error):
        test_slurm.test_configuration_is_the_same_everywhere(
            lambda probe, of="worker0": parse_digests(texts[of]), lambda group: tuple(texts), Expect()
        )


def test_differing_included_file_is_named() -> None:
    included = "{}  /etc/slurm/nodes.conf\n"
    texts = {"worker0": DIGEST + included.format("c" * 64), **{name: DIGEST + included.format("d" * 64) for name in ("worker1", "login0")}}
    with pytest.raises(Mismatch, match=r"found nodes\.conf"):
        test_slurm.test_configuration_is_the_same_everywhere(
            lambda probe, of="worker0": parse_digests(texts[of]), lambda group: tuple(texts), Expect()
        )
