"""The filter that tells the public half of a private key."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from rackwright.drivers.ssh_key_pair import generate


def load() -> Any:
    """The filter plugin; Ansible finds it by ansible.cfg."""
    path = Path(__file__).parents[3] / "playbooks" / "filter_plugins" / "rackwright_keys.py"
    spec = importlib.util.spec_from_file_location("rackwright_keys", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


public_half = load().FilterModule().filters()["rackwright_public_half"]


def test_the_public_half_is_the_pair_s_own() -> None:
    public, private = generate("somebody")
    assert public_half(private) == public.removesuffix(" somebody")


@pytest.mark.parametrize("spoil", [lambda key: "", lambda key: key[:120], lambda key: key.replace("OPENSSH", "RSA")])
def test_what_is_no_key_is_refused_without_showing_it(spoil: Any) -> None:
    _, private = generate("somebody")
    with pytest.raises(AnsibleFilterError) as refused:
        public_half(spoil(private))
    assert "not a private key" in str(refused.value)
    assert not any(line in str(refused.value) for line in private.splitlines())
