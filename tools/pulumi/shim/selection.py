"""The stack that `pulumi stack select` chose."""

from __future__ import annotations

import os

from shim.login import pulumi_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def selected_stack(environ: Mapping[str, str], project_name: str, project_root: str, backend: str) -> str | None:
    """Return the selection for this backend from the engine's workspace file (pkg/workspace of the engine)."""
    import hashlib
    import json

    home = pulumi_home(environ)
    digest = hashlib.sha1(os.path.join(project_root, "Pulumi.yaml").encode(), usedforsecurity=False).hexdigest()
    try:
        with open(os.path.join(home, "workspaces", f"{project_name}-{digest}-workspace.json"), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return None
    chosen = (settings.get("stacks") or {}).get(backend) or settings.get("stack")
    return chosen if isinstance(chosen, str) else None
