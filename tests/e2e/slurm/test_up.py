"""`pulumi up` ends with a verified cluster; a second one changes nothing and reports that."""

from __future__ import annotations

import subprocess

import pytest
from support.project import Project

pytestmark = pytest.mark.essential


def test_up_passes_every_check(lab: Project) -> None:
    report = lab.report()
    assert (report["verdict"], report["level"]) == ("passed", "smoke")
    assert len(report["checks"]) >= 100
    assert {check["verdict"] for check in report["checks"]} <= {"passed", "skipped"}


def test_ordinary_user_runs_job_on_all_gpus(lab: Project) -> None:
    said = lab.as_user("srun -N2 --gres=gpu:8 hostname")
    assert said.ok and sorted(said.output.split()) == ["worker0", "worker1"], said.output


def test_batch_job_writes_output_and_accounting_record(lab: Project) -> None:
    said = lab.as_user("mkdir -p /mnt/sharedfs/alice && cd /mnt/sharedfs/alice && sbatch --wait --parsable --output=out --wrap=hostname")
    assert said.ok, said.end
    job = said.output.split()[-1]
    assert lab.ssh("storage0", "cat /mnt/sharedfs/alice/out").output.strip() in {"worker0", "worker1"}
    assert "COMPLETED" in lab.as_user(f"sacct -n -X -j {job} -o state").output


def test_second_up_reports_age_of_verification(lab: Project) -> None:
    before = (lab.home / lab.stack / "report.json").stat().st_mtime_ns
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output
    assert "no changes. " in said.output and "ago at level smoke" in said.output, said.output
    assert (lab.home / lab.stack / "report.json").stat().st_mtime_ns == before


def test_preview_of_running_stack_announces_nothing(lab: Project) -> None:
    said = lab.run_checked("preview")
    assert " create" not in said.output and " update" not in said.output.replace("previewing update", "").replace("Previewing update", "")


def test_up_refuses_impossible_edit_before_any_change(lab: Project) -> None:
    before = lab.stack_file.read_text()
    lab.edit(lambda cluster: cluster["groups"]["worker"].update(reserved_addresses=65))
    try:
        for verb in ("preview", "up"):
            said = lab.pulumi(verb)
            assert not said.ok and "renumbers group storage: refused (groups.worker.reserved_addresses)" in said.output, said.output
            assert "Traceback" not in said.output
    finally:
        lab.stack_file.write_text(before)


def test_refresh_of_healthy_lab_finds_nothing(lab: Project) -> None:
    said = lab.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output


def test_only_login_node_is_published(lab: Project) -> None:
    listing = subprocess.run(
        ["podman", "ps", "--filter", f"label=rackwright.stack={lab.stack}", "--format", "{{.Names}} {{.Ports}}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    published = [line.split()[0] for line in listing.splitlines() if "->" in line]
    assert published == [f"{lab.stack}-login0"]


def test_up_keeps_stack_file_unchanged(lab: Project) -> None:
    assert "encryptionsalt" not in lab.stack_file.read_text()


def test_changed_install_step_replaces_no_node(lab: Project) -> None:
    """An image input that replaces nodes would delete all workers in parallel."""
    install = lab.folder / "roles/base/tasks/install.yml"
    written = install.read_text()
    install.write_text(written + "\n# another image\n")
    try:
        said = lab.run_checked("preview", "--diff")
        assert "rackwright:lab:Node" not in said.output or "replace" not in said.output, said.output
        assert "+-" not in said.output and "- rackwright:lab:Node" not in said.output, said.output
        assert "rackwright:lab:Image" in said.output, said.output
    finally:
        install.write_text(written)
