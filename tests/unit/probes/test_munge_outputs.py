"""Outputs of munge and unmunge."""

from __future__ import annotations

import pytest

from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.munge import parse_credential, parse_decoded


@pytest.mark.parametrize("text", ["MUNGE:AwQDAAAx/+=:\n", "MUNGE:AwQDAAAx/+=:\r\n", "munge: Warning: old socket\nMUNGE:AwQDAAAx/+=:\n"])
def test_credential_is_read_beside_warnings(text):
    assert parse_credential(text) == "MUNGE:AwQDAAAx/+=:"


@pytest.mark.parametrize("text", ["", "MUNGE:Aw'Q:\n", "MUNGE:AwQD\n", "MUNGE:Aw:\nMUNGE:Ax:\n", "munge: Error: no MUNGE:Aw:\n"])
def test_other_text_is_no_credential(text):
    with pytest.raises(ValueError, match="no credential"):
        parse_credential(text)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("STATUS:           Success (0)\r\nENCODE_HOST:      w0 (192.0.2.7)\r\n", "Success"),
        ("unmunge: Warning: old socket\nSTATUS:          Rewound credential (16)\n", "Rewound credential"),
        ("STATUS:          Expired credential (15)\n", "Expired credential"),
        (
            'unmunge: Error: Failed to connect to "/run/munge/munge.socket.2": Connection refused (Did you start "munged"?)\n',
            "Connection refused",
        ),
        ('unmunge: Error: Failed to access "/run/munge/munge.socket.2": No such file or directory\n', "No such file or directory"),
    ],
)
def test_status_of_unmunge_is_read(text, status):
    found = parse_decoded(text)
    assert not isinstance(found, UnreadableValue) and found == status
