"""Environment of a playbook run."""

from __future__ import annotations

import configparser

import pytest

from rackwright import layout
from rackwright.drivers import ansible


def test_slow_machine_has_longer_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mitogen ends a connection after it, on four nodes of an emulated machine at a load of 34 after 30 s."""
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "7")
    assert ansible.environment(layout.product_root())["ANSIBLE_TIMEOUT"] == "630"


def test_ansible_cfg_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who runs ansible-playbook by hand gets the limit from this file."""
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    settings = configparser.ConfigParser()
    settings.read(layout.product_root() / layout.ANSIBLE_CFG)
    assert ansible.environment(layout.product_root())["ANSIBLE_TIMEOUT"] == settings["defaults"]["timeout"]
