"""Which backend the user has chosen, if any."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ELSEWHERE = "elsewhere"
"""A backend whose address is the engine's business."""


def chosen_backend(environ: Mapping[str, str]) -> str | None:
    """The backend's address (`file://…`, `s3://…`, `https://…`) or ELSEWHERE; None where neither environment nor login names one."""
    said = environ.get("PULUMI_BACKEND_URL")
    if said:
        return said
    if environ.get("PULUMI_ACCESS_TOKEN"):
        return ELSEWHERE
    return _logged_in(environ)


def _logged_in(environ: Mapping[str, str]) -> str | None:
    folder = environ.get("PULUMI_CREDENTIALS_PATH") or environ.get("PULUMI_HOME") or os.path.join(environ.get("HOME", ""), ".pulumi")
    try:
        with open(os.path.join(folder, "credentials.json"), encoding="utf-8") as file:
            content = file.read()
    except OSError:
        return None
    if not content.strip():
        return None
    import json

    try:
        credentials = json.loads(content)
    except ValueError:
        return ELSEWHERE
    if not isinstance(credentials, dict) or set(credentials) - {"current", "accessTokens", "accounts"}:
        return ELSEWHERE  # encrypted by the engine's credential store
    return credentials.get("current") or None
