"""What a person does with a stack that is up, once: verify, look for drift, converge; and its floor, one script over SSH to each node."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.project import Project  # noqa: E402


def verified(project: Project) -> None:
    """The passive checks, as a person starts them."""
    said = project.run([str(HERE.parent / ".venv/bin/rackwright"), "verify", project.stack])
    assert said.ok, said.output


def drifted(project: Project) -> None:
    """All three layers, as a person looks at them; nothing may differ."""
    said = project.run([str(HERE.parent / ".venv/bin/rackwright"), "drift", project.stack])
    assert said.ok, said.output


def lookups(project: Project) -> None:
    """The look-ups of a converge as one script per node, all nodes at once."""
    script = (HERE / "lookups.sh").read_bytes()
    config = str(project.home / project.stack / "ssh_config")
    children = []
    for node in project.incarnations():
        child = subprocess.Popen(["ssh", "-F", config, node, "sh -s"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert child.stdin is not None
        child.stdin.write(script)
        child.stdin.close()
        children.append(child)
    assert all(child.wait() == 0 for child in children)


_CONVERGE = """
import asyncio, sys
from pathlib import Path
from rackwright.drivers import ansible

async def quiet(text): pass

folder = Path(sys.argv[1])
applied = asyncio.run(ansible.play(Path(sys.argv[2]), sys.argv[3], inventory=folder / "inventory.yml", extra_vars=[folder / "secrets.yml"],
    skip_tags=["install"], on_progress=quiet))
sys.exit(bool(applied.reasons or applied.changed))
"""


def converged(project: Project, playbook: str = "site.yml") -> None:
    """The phases once more, with nothing to change."""
    said = project.run([sys.executable, "-c", _CONVERGE, str(project.home / project.stack), str(project.folder), playbook])
    assert said.ok, f"a no-change converge changed something\n{said.output}"


def timed(call: Callable[[], object]) -> float:
    """Seconds a call takes."""
    started = time.monotonic()
    call()
    return time.monotonic() - started


def say(text: str) -> None:
    """Progress on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
