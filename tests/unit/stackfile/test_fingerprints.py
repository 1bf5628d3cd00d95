"""Keys that somebody vouches for are read as they come: fingerprints by name, or what ssh-keyscan and known_hosts hold."""

from __future__ import annotations

import paramiko

from rackwright.drivers.ssh_login import fingerprint
from rackwright.stackfile.fingerprints import read

_KEY = paramiko.RSAKey.generate(1024)
_PRINT = "SHA256:" + "k" * 43


def test_names_with_fingerprints_in_any_words_around_them() -> None:
    text = f"# from the consoles\n\nnode001 {_PRINT}\nnode002  256 {_PRINT}= root@node002 (ED25519)\n"
    assert read(text, "f") == ({"node001": frozenset({_PRINT}), "node002": frozenset({_PRINT})}, [])


def test_known_hosts_lines_give_the_fingerprint_of_their_key() -> None:
    known, findings = read(f"[10.20.0.3]:2200,node001 ssh-rsa {_KEY.get_base64()} comment\n", "f")
    assert findings == []
    assert known == dict.fromkeys(("10.20.0.3", "node001"), frozenset({fingerprint(_KEY)}))


def test_a_machine_may_have_several_keys() -> None:
    assert read(f"n {_PRINT}\nn ssh-rsa {_KEY.get_base64()}\n", "f")[0] == {"n": frozenset({_PRINT, fingerprint(_KEY)})}


def test_lines_that_are_neither_are_told_with_their_number() -> None:
    findings = read("node001\nnode002 MD5:aa:bb\nnode003 ssh-rsa AA*A\n", "f")[1]
    assert [finding.path for finding in findings] == ["f:1", "f:2", "f:3"]
