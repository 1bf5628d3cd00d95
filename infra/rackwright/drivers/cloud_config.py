"""The part of a cloud-config that all machines share: name and keys (cloud-init documentation: modules cc_ssh and cc_set_hostname)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def cloud_config(*, hostname: str, private: str, public: str, access: str) -> dict[str, Any]:
    """Return name, host key and one authorised key. The host key `private` is a secret; cloud-init creates no other one."""
    return {
        "hostname": hostname,
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": private, "ed25519_public": public},
        "ssh_authorized_keys": [access],
        "ssh_pwauth": False,
    }


def user_data(config: Mapping[str, Any]) -> str:
    """Return a cloud-config as user data; JSON is valid YAML."""
    return f"#cloud-config\n{json.dumps(config, sort_keys=True)}\n"
