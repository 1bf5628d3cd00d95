"""The defaults the shim gives the engine, each only where the user's environment says nothing."""

from __future__ import annotations

import os

from shim.file_backend import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_QUIET_AND_OFFLINE = {
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
    "PULUMI_SUPPRESS_NEO_LINK": "true",
    # The language host beside the engine is the one that suits it; one found on PATH is announced by a warning on every run.
    "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
    # A stack file without salt means the salt of the state, never a new one.
    "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    # `pulumi stack rm` removes the stack, not the file that describes it.
    "PULUMI_OPTION_PRESERVE_CONFIG": "true",
}


def for_every_project(environ: Mapping[str, str], venv: str, tools: str) -> dict[str, str]:
    """What the engine needs to run a Python program at all."""
    bin_folder = os.path.join(venv, "bin")
    python = os.path.join(bin_folder, "python")
    path = environ.get("PATH", os.defpath)
    first = path if path.split(os.pathsep)[0] == bin_folder else bin_folder + os.pathsep + path
    return {
        "PATH": first,
        "RACKWRIGHT_PYTHON": environ.get("RACKWRIGHT_PYTHON") or python,
        "RACKWRIGHT_LANGUAGE_HOST": os.path.join(tools, "language_host", "start.py"),
        "PULUMI_PYTHON_CMD": environ.get("PULUMI_PYTHON_CMD") or python,
    }


def for_our_project(environ: Mapping[str, str], home: Any, backend: str | None) -> dict[str, str]:
    """Backend, passphrase and quiet; `backend` is the user's own choice, if any."""
    added = {name: value for name, value in _QUIET_AND_OFFLINE.items() if name not in environ}
    added["RACKWRIGHT_HOME"] = home.root
    if backend is None:
        added["PULUMI_BACKEND_URL"] = PREFIX + home.state
    if (backend is None or backend.startswith(PREFIX)) and not says_passphrase(environ):
        added["PULUMI_CONFIG_PASSPHRASE_FILE"] = home.passphrase
    return added


def says_passphrase(environ: Mapping[str, str]) -> bool:
    """Whether the user brings a passphrase; an empty PULUMI_CONFIG_PASSPHRASE is one."""
    return "PULUMI_CONFIG_PASSPHRASE" in environ or bool(environ.get("PULUMI_CONFIG_PASSPHRASE_FILE"))
