"""The filter that tells the public half of a private key."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rackwright.cluster.plugins.filter import openssh_public_key as keys
from rackwright.drivers.ssh_key_pair import generate

public_half = keys.FilterModule().filters()["openssh_public_key"]


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
