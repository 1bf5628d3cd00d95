"""Write the configuration of the site's Prometheus for a running stack into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rackwright.errors import InputError
from rackwright.files import write_atomic
from rackwright.inventory import paths, site_prometheus
from rackwright.inventory.running_stack import RunningStack
from rackwright.yaml_loader import load_yaml


def export_monitoring(stack: str, folder: Path, *, http_sd_url: str | None = None, with_client_key: bool = False) -> tuple[Path, ...]:
    """Write the files of a stack that is up, and return their paths; the client's private key only if asked for, with mode 0600.

    Raises InputError for a stack that is not up, or without `kind: external`, or whose client key rackwright does not have, and for a
    folder that cannot be written.
    """
    running = RunningStack.of(stack)
    site = (running.inventory.monitoring or {}).get("external")
    if not site:
        hint = "declare `monitoring: {kind: external}`; with `builtin`, Prometheus of the cluster has this configuration"
        raise InputError("no Prometheus of the site reads it", path=f"stack {stack}", hint=hint)
    if with_client_key and site["client_authority"]:
        hint = "leave out --with-client-key; the site has the key of its client"
        raise InputError("the stack file declares a client certificate of the site", path=f"stack {stack}", hint=hint)
    if http_sd_url and not http_sd_url.startswith(("http://", "https://")):
        raise InputError("is no URL", path=http_sd_url, hint="enter the URL of targets.json, as https://HOST/targets.json")
    secrets = _secrets(stack)
    texts = {**site_prometheus.render(running.inventory, http_sd_url), site_prometheus.AUTHORITY: secrets["authority"]}
    if with_client_key:
        texts |= {
            site_prometheus.CLIENT_CERTIFICATE: secrets["client"]["certificate"],
            site_prometheus.CLIENT_KEY: secrets["client"]["private_key"],
        }
    return _write(folder, texts)


def _secrets(stack: str) -> Mapping[str, Any]:
    """Return the certificates and keys of monitoring that the last `up` wrote; raise InputError if it had none."""
    try:
        found = load_yaml(paths.secrets(stack).read_text(encoding="utf-8"))
        secrets: Mapping[str, Any] = found["secrets"]["monitoring"]
    except (OSError, LookupError, TypeError):
        raise InputError("its certificates are not there", path=str(paths.secrets(stack)), hint=f"run `rackwright up {stack}`") from None
    return secrets


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(folder / name, text, 0o600 if name == site_prometheus.CLIENT_KEY else 0o644)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=str(folder), hint="choose another folder with --to") from None
    return tuple(folder / name for name in texts)
