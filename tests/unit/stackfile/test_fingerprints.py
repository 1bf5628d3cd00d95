"""Confirmed keys are read in each form: fingerprints by name, or the lines of ssh-keyscan and known_hosts."""

from __future__ import annotations

import base64
import hmac

import paramiko
import pytest

from rackwright.drivers.ssh_login import fingerprint
from rackwright.stackfile.fingerprints import find, read

_KEY = paramiko.RSAKey.generate(1024)
_PRINT = "SHA256:" + "k" * 43


def test_names_with_fingerprints_in_any_words_around_them() -> None:
    text = f"# from the consoles\n\nnode001 {_PRINT}\nnode002  256 {_PRINT}= root@node002 (ED25519)\n"
    assert read(text, "f") == ({"node001": frozenset({_PRINT}), "node002": frozenset({_PRINT})}, [])


@pytest.mark.parametrize("written", ["2001:db8::5", "[2001:db8::5]:2222", "[2001:db8::5]", "node1,[2001:db8::5]:22"])
def test_ipv6_address_is_found_without_brackets_and_port(written: str) -> None:
    known, findings = read(f"{written} ssh-rsa {_KEY.get_base64()}\n", "f")
    assert findings == []
    assert find(known, ["2001:db8::5"]) == known[next(iter(known))]


def test_known_hosts_lines_give_the_fingerprint_of_their_key() -> None:
    known, findings = read(f"[10.20.0.3]:2200,node001 ssh-rsa {_KEY.get_base64()} comment\n", "f")
    assert findings == []
    assert known == dict.fromkeys(("10.20.0.3", "node001"), frozenset({fingerprint(_KEY)}))


def test_a_machine_may_have_several_keys() -> None:
    assert read(f"n {_PRINT}\nn ssh-rsa {_KEY.get_base64()}\n", "f")[0] == {"n": frozenset({_PRINT, fingerprint(_KEY)})}


def test_lines_that_are_neither_are_told_with_their_number() -> None:
    findings = read("node001\nnode002 MD5:aa:bb\nnode003 ssh-rsa AA*A\n", "f")[1]
    assert [finding.path for finding in findings] == ["f:1", "f:2", "f:3"]


def hashed(name: str, salt: bytes = b"0123456789abcdefghij") -> str:
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, hmac.new(salt, name.encode(), "sha1").digest()))


def test_hashed_name_is_found_by_the_name() -> None:
    known, findings = read(f"{hashed('10.20.0.3')} ssh-rsa {_KEY.get_base64()}\n|1|odd ssh-rsa {_KEY.get_base64()}\n", "f")
    assert findings == []
    assert find(known, ["node001", "10.20.0.3"]) == {fingerprint(_KEY)}
    assert find(known, ["node001", "10.20.0.4"]) is None


@pytest.mark.parametrize("mark", ["@revoked node001", "@cert-authority *.example.org"])
def test_revoked_keys_and_authorities_confirm_nothing(mark: str) -> None:
    assert read(f"{mark} ssh-rsa {_KEY.get_base64()}\n", "f") == ({}, [])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"256 {_PRINT} node001 (ED25519)", "node001"),
        (f"3072 {_PRINT} root@node001 (RSA)", "node001"),
        (f"256 {_PRINT} 10.20.0.3,node001 (ECDSA)", "10.20.0.3"),
    ],
)
def test_output_of_ssh_keygen_is_read(line: str, name: str) -> None:
    assert read(f"{line}\n", "f")[0][name] == {_PRINT}


@pytest.mark.parametrize("line", [f"256 {_PRINT} (ED25519)", f"256 {_PRINT} no comment (ED25519)", "256 MD5:aa:bb node001 (RSA)"])
def test_fingerprint_without_a_name_is_told(line: str) -> None:
    assert [finding.path for finding in read(f"{line}\n", "f")[1]] == ["f:1"]


def test_records_of_name_servers_are_read() -> None:
    digest = base64.b64decode(fingerprint(_KEY).removeprefix("SHA256:") + "=").hex().upper()
    known, findings = read(f"node001 IN SSHFP 1 1 {digest[:40]}\nnode001 IN SSHFP 1 2 {digest}\n", "f")
    assert (known, findings) == ({"node001": frozenset({fingerprint(_KEY)})}, [])
    assert [finding.path for finding in read("node001 IN SSHFP 1 2 abcdef\n", "f")[1]] == ["f:1"]
