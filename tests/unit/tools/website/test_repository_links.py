"""Links of the documentation site to files of the repository outside docs/."""

from __future__ import annotations

from pathlib import Path

import pytest

from website.repository_links import outside, rewrite


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout: two pages, a role and a folder with a list."""
    texts = {
        "docs/lab.md": "[fabric](../roles/fabric/README.md#limits), [gone](../roles/gone.md)\n```\n[code](../LICENSE)\n```\n",
        "docs/targets/hosts.md": "[lab](../lab.md)",
        "docs/adr/README.md": "",
        "roles/fabric/README.md": "[defaults](defaults/main.yml) and [lab](../../docs/lab.md)",
        "roles/fabric/defaults/main.yml": "",
        "LICENSE": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_linked_files_are_found_through_each_other(root: Path) -> None:
    assert outside(root, ["docs/lab.md", "docs/targets/hosts.md"]) == {"roles/fabric/README.md", "roles/fabric/defaults/main.yml"}


@pytest.mark.parametrize(
    ("uri", "link", "rewritten"),
    [
        ("lab.md", "../roles/fabric/README.md#limits", "source/roles/fabric/README.md#limits"),
        ("targets/hosts.md", "../../roles/fabric", "../source/roles/fabric/README.md"),
        ("targets/hosts.md", "../lab.md#stacks", "../lab.md#stacks"),
        ("lab.md", "adr", "adr/README.md"),
        ("source/roles/fabric/README.md", "../../docs/lab.md", "../../../lab.md"),
        ("source/roles/fabric/README.md", "defaults/main.yml", "defaults/main.yml"),
    ],
)
def test_link_leads_to_its_place_in_the_site(root: Path, uri: str, link: str, rewritten: str) -> None:
    assert rewrite(f"See [x]({link}).", uri, root) == f"See [x]({rewritten})."


@pytest.mark.parametrize("link", ["../roles/gone.md", "../../elsewhere.md", "https://example.org/a.md", "#stacks", "mailto:a@example.org"])
def test_other_links_stay(root: Path, link: str) -> None:
    """MkDocs reports a missing target; its strict build then fails."""
    assert rewrite(f"[x]({link})", "lab.md", root) == f"[x]({link})"


def test_code_stays(root: Path) -> None:
    text = "```md\n[x](../roles/fabric/README.md)\n```"
    assert rewrite(text, "lab.md", root) == text
