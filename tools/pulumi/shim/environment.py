"""Defaults of the shim for the engine; each applies only if the user's environment does not set it."""

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
    # The language host next to the engine matches it; for one found on PATH, the engine prints a warning on every run.
    "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
    # For a stack file without a salt, the engine uses the salt of the state and creates no new one.
    "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    # `pulumi stack rm` removes the stack, not the file that declares it.
    "PULUMI_OPTION_PRESERVE_CONFIG": "true",
}


def for_every_project(environ: Mapping[str, str], venv: str, tools: str) -> dict[str, str]:
    """Return the variables that the engine needs to run any Python program."""
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
    """Return backend, passphrase and quiet mode; `backend` is the one that the user chose, if any."""
    added = {name: value for name, value in _QUIET_AND_OFFLINE.items() if name not in environ}
    added["RACKWRIGHT_HOME"] = home.root
    if backend is None:
        added["PULUMI_BACKEND_URL"] = PREFIX + home.state
    if (backend is None or backend.startswith(PREFIX)) and not says_passphrase(environ):
        added["PULUMI_CONFIG_PASSPHRASE_FILE"] = home.passphrase
    return added


def says_passphrase(environ: Mapping[str, str]) -> bool:
    """Return whether the user sets a passphrase; an empty PULUMI_CONFIG_PASSPHRASE counts as one."""
    return "PULUMI_CONFIG_PASSPHRASE" in environ or bool(environ.get("PULUMI_CONFIG_PASSPHRASE_FILE"))
