"""Public keys in every form that people paste, and what is said about those that sshd would refuse."""

from __future__ import annotations

import base64
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.rows import each_row

from rackwright.model import host_keys
from rackwright.model.public_keys import KeyLine, fault_of, fingerprint, split_line

_OPENSSH = (Encoding.OpenSSH, PublicFormat.OpenSSH)


def _packed(*parts: bytes) -> str:
    """Return strings in the form of RFC 4251, section 5, as base64."""
    return base64.b64encode(b"".join(struct.pack(">I", len(part)) + part for part in parts)).decode()


_RAW = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
_CURVE = ec.derive_private_key(7, ec.SECP256R1()).public_key()
_POINT = _CURVE.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
ED25519 = _RAW.public_bytes(*_OPENSSH).decode()
ECDSA = _CURVE.public_bytes(*_OPENSSH).decode()
RSA = rsa.generate_private_key(65537, 2048).public_key().public_bytes(*_OPENSSH).decode()
SHORT_RSA = rsa.generate_private_key(65537, 1024).public_key().public_bytes(*_OPENSSH).decode()
SK_ED25519 = "sk-ssh-ed25519@openssh.com " + _packed(
    b"sk-ssh-ed25519@openssh.com", _RAW.public_bytes(Encoding.Raw, PublicFormat.Raw), b"ssh:"
)
SK_ECDSA = "sk-ecdsa-sha2-nistp256@openssh.com " + _packed(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", _POINT, b"ssh:")
DSA = "ssh-dss " + _packed(b"ssh-dss", b"\x00")
CERTIFICATE = "ssh-ed25519-cert-v01@openssh.com " + _packed(b"ssh-ed25519-cert-v01@openssh.com", b"\x00" * 32)
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----"
PUTTY = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\nAAAA"
PRINT = "SHA256:" + "A" * 43


@each_row(
    "line",
    [
        ED25519,
        f"{ED25519} alice@desk",
        f"{ED25519} Alice's key, at home  (new)",
        f"{ED25519}\r\n",
        f"  {ED25519}\talice",
        RSA,
        ECDSA,
        SK_ED25519,
        f"{SK_ECDSA} alice@token",
        f"restrict {ED25519}",
        f'from="10.0.0.0/8,!10.1.0.0/16",no-pty {ED25519} alice',
        f'command="ssh-add -l; echo \\"ssh-rsa AAAA\\"",restrict {ED25519} alice',
        f'no-port-forwarding,no-X11-forwarding,environment="A=b c" {RSA}',
        f'NO-PTY,permitopen="localhost:80",expiry-time="20301231" {ED25519}',
        f"verify-required,no-touch-required {SK_ED25519}",
        f'cert-authority,principals="alice" {ED25519}',
        f'tunnel="0",permitlisten="8080",agent-forwarding,user-rc {ED25519}',
    ],
)
def test_line_of_authorized_keys_is_accepted(line: str) -> None:
    """Everything that sshd accepts (sshd(8), AUTHORIZED_KEYS FILE FORMAT)."""
    assert fault_of(line) is None
    assert (fingerprint(line) or "").startswith("SHA256:")


@each_row(
    ("line", "cause"),
    [
        (PRIVATE, "is a private key"),
        (PUTTY, "is a private key"),
        ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmU", "is a private key"),
        ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----", "ssh-keygen -i -f"),
        ("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----", "ssh-keygen -i -m PKCS8"),
        ("-----BEGIN RSA PUBLIC KEY-----\nMCow\n-----END RSA PUBLIC KEY-----", "ssh-keygen -i -m PEM"),
        ("-----BEGIN CERTIFICATE-----\nMCow\n-----END CERTIFICATE-----", "X.509"),
        (f"{ED25519} a\n{RSA} b", "has 2 lines"),
        (f"# {ED25519}", "is a comment"),
        (f"{PRINT} alice@desk", "is the fingerprint of a key"),
        ("", "is not a public key"),
        ("alice", "is not a public key"),
        (SHORT_RSA, "RSA key of 1024 bits"),
        (DSA, "is a DSA key"),
        (CERTIFICATE, "is a certificate"),
        (ED25519[:-6], "is damaged"),
        (ED25519[:-4] + "====", "is damaged"),
        (f"{ED25519}AAAA", "is damaged"),
        (ED25519.replace("ssh-ed25519 ", "ssh-rsa ", 1), "does not match its type"),
        (ED25519.replace(" A", " ä", 1), "is damaged"),
        (f"restricted {ED25519}", "`restricted` is neither an option"),
        (f"command=/bin/true {ED25519}", "cannot be read"),
        (f"command {ED25519}", "needs a value"),
        (f'restrict="yes" {ED25519}', "takes no value"),
        (f"restrict, no-pty {ED25519}", "is not a key type"),
        ("restrict", "is not a public key"),
        ("ssh-ed448 AAAA", "`ssh-ed448` is not a key type"),
    ],
    ids=[
        "private",
        "putty",
        "private-base64",
        "rfc4716",
        "pkcs8",
        "pkcs1",
        "x509",
        "two-lines",
        "comment",
        "fingerprint",
        "empty",
        "word",
        "short-rsa",
        "dsa",
        "certificate",
        "truncated",
        "padding",
        "longer",
        "other-type",
        "not-base64",
        "unknown-option",
        "unquoted-value",
        "missing-value",
        "superfluous-value",
        "blank-in-options",
        "options-alone",
        "unknown-type",
    ],
)
def test_line_that_sshd_refuses_is_named(line: str, cause: str) -> None:
    """The cause says what the text is, and never shows a part of a private key."""
    found = fault_of(line)
    assert found is not None
    assert cause in found
    assert "b3Bl" not in found


def test_blank_in_option_is_no_end() -> None:
    """Jobs of administrators are commands with blanks, and with words like those of a key."""
    line = f'command="exec ssh-agent x" {ED25519} alice at home'
    kind, blob = ED25519.split()
    assert split_line(line) == KeyLine('command="exec ssh-agent x"', kind, blob, "alice at home")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (PRINT, PRINT),
        (f"{PRINT}=", f"{PRINT}="),
        (f"256 {PRINT} root@worker0 (ED25519)", PRINT),
        (f"256 {PRINT} no comment (ED25519)\r\n", PRINT),
        (ED25519, ED25519),
        (f"{ED25519} root@worker0", ED25519),
        (f"10.0.0.1 {ED25519}", ED25519),
        (f"worker0,10.0.0.1 {ED25519} a comment", ED25519),
        (f"[10.0.0.1]:2222 {ED25519}", ED25519),
        (f"|1|c2FsdA==|ZGlnZXN0 {ED25519}", ED25519),
        (f"# 10.0.0.1:22 SSH-2.0-OpenSSH_9.2\n10.0.0.1 {ED25519}\n", ED25519),
        (f"{ED25519}\r\n", ED25519),
        (ECDSA, ECDSA),
    ],
)
def test_host_key_is_read_in_form_of_tool(text: str, value: str) -> None:
    """`ssh-keygen -l`, the .pub file, ssh-keyscan and known_hosts."""
    assert host_keys.parse(text).value == value


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PRIVATE, "holds a private key"),
        (f"10.0.0.1 {ED25519}\n10.0.0.1 {RSA}\n", "has 2 lines"),
        (f"@cert-authority *.example {ED25519}", "certificate authority"),
        (f"@revoked 10.0.0.1 {ED25519}", "revoked"),
        ("MD5:" + ":".join(["ab"] * 16), "MD5"),
        (":".join(["ab"] * 16), "MD5"),
        (f"2048 {':'.join(['ab'] * 16)} root@worker0 (RSA)", "MD5"),
        (DSA, "DSA"),
        (CERTIFICATE, "certificate"),
        (SK_ED25519, "cannot be identified"),
        ("SHA256:short", "is not an SSH host key"),
        ("", "is not an SSH host key"),
    ],
    ids=["private", "two-keys", "authority", "revoked", "md5", "md5-old", "md5-listed", "dsa", "certificate", "token", "short", "empty"],
)
def test_text_that_is_no_host_key_is_named(text: str, cause: str) -> None:
    """With a hint, and without any part of a private key."""
    found = host_keys.parse(text)
    assert found.value == ""
    assert cause in found.cause
    assert found.hint
    assert "b3Bl" not in found.cause
