"""Files of this machine that roles copy to nodes: a changed one is a change of the stack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.monitored import monitored

from rackwright.inventory import control_files
from rackwright.targets import secrets


def _plan(folder: Path) -> Any:
    receivers = {"ops": {"kind": "webhook", "url_file": str(folder / "ops")}}
    return monitored(monitoring={"kind": "builtin", "receivers": receivers, "deadman": {"url_file": str(folder / "deadman")}})


def test_changed_secret_changes_the_digest(tmp_path: Path) -> None:
    def digest() -> str:
        return control_files.digest(_plan(tmp_path).to_data())

    assert digest() == "", "neither file exists"
    found = [digest()]
    for name, content in (("ops", "https://a"), ("ops", "https://b"), ("deadman", "https://b")):
        (tmp_path / name).write_text(content)
        found.append(digest())
    assert len(set(found)) == 4
    assert digest() == digest()


def test_digest_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    found = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ops").write_text("https://a")
        found.add(control_files.digest(_plan(tmp_path / name).to_data()))
    assert len(found) == 1


def test_converge_gets_a_digest_only_where_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "ops").write_text("https://a")

    async def named(plan: Any) -> set[str]:
        return set(secrets.secret_files(plan))

    assert asyncio.run(named(_plan(tmp_path))) == {"files"}
    assert asyncio.run(named(monitored(monitoring={"kind": "builtin"}))) == set()
