"""The backend that the user chose, if any."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ELSEWHERE = "elsewhere"
"""A backend whose address only the engine can determine."""


def chosen_backend(environ: Mapping[str, str]) -> str | None:
    """Return the backend's address (`file://…`, `s3://…`, `https://…`) or ELSEWHERE; None if neither environment nor login names one."""
    backend = environ.get("PULUMI_BACKEND_URL")
    if backend:
        return backend
    if environ.get("PULUMI_ACCESS_TOKEN"):
        return ELSEWHERE
    return _logged_in(environ)


def pulumi_home(environ: Mapping[str, str]) -> str:
    """Return the engine's own folder: in the home directory of the user database, regardless of HOME."""
    folder = environ.get("PULUMI_HOME")
    if folder:
        return folder
    try:
        import pwd

        home = pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        home = environ.get("HOME", "")
    return os.path.join(home, ".pulumi")


def _logged_in(environ: Mapping[str, str]) -> str | None:
    folder = environ.get("PULUMI_CREDENTIALS_PATH") or pulumi_home(environ)
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
