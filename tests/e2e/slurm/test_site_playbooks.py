"""A playbook of the user is applied after its phase, applied again when it changes, and compared by a refresh."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.project import Project

PLAYBOOK = """
- name: Leave a note
  hosts: role_worker
  become: true
  gather_facts: false
  tasks:
    - name: Leave a note
      ansible.builtin.copy:
        content: "{word} {{{{ node.name }}}}\\n"
        dest: /etc/site-note
        mode: "0644"
"""


@pytest.fixture(scope="module")
def own(lab: Project) -> Iterator[Project]:
    """Yield the stack with a playbook of its own after the scheduler; remove it afterwards."""
    (lab.folder / "site").mkdir()
    (lab.folder / "site" / "note.yml").write_text(PLAYBOOK.format(word="first"))
    lab.edit(lambda cluster: cluster.update(hooks={"after_scheduler": ["site/note.yml"]}))
    yield lab
    lab.edit(lambda cluster: cluster.pop("hooks"))
    lab.ssh("worker0", "rm -f /etc/site-note")
    lab.ssh("worker1", "rm -f /etc/site-note")
    lab.run_checked("up")


def test_site_playbook_is_applied_reapplied_and_compared(own: Project) -> None:
    own.run_checked("up")
    assert own.ssh("worker1", "cat /etc/site-note").output.strip() == "first worker1"
    (own.folder / "site" / "note.yml").write_text(PLAYBOOK.format(word="second"))
    own.run_checked("up")
    assert own.ssh("worker1", "cat /etc/site-note").output.strip() == "second worker1"
    own.ssh("worker0", "rm /etc/site-note")
    seen = own.run_checked("refresh")
    assert "worker0: note: Leave a note" in seen.output, seen.output
    own.run_checked("up")
    assert own.ssh("worker0", "cat /etc/site-note").output.strip() == "second worker0"


def test_missing_playbook_stops_preview(own: Project) -> None:
    (own.folder / "site" / "note.yml").rename(own.folder / "site" / "away.yml")
    said = own.pulumi("preview")
    (own.folder / "site" / "away.yml").rename(own.folder / "site" / "note.yml")
    assert not said.ok
    assert "site/note.yml is not a file of the project" in said.output
