"""SSH host keys in the forms that people copy: a fingerprint, a public key, or a line of `ssh-keygen -l`, ssh-keyscan or known_hosts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rackwright.model.public_keys import fault_of, is_secret, is_type

TYPES: Final = frozenset({"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"})
"""Types of host keys that the first login can compare."""
HINT: Final = "run `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine and copy the part from SHA256:"
_PRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_LISTED: Final = re.compile(rf"[0-9]+ (?P<print>{_PRINT.pattern})( .*)?")
"""Output line of `ssh-keygen -l`: bits, fingerprint, comment, type."""
_MD5: Final = re.compile(r"(MD5:)?([0-9a-f]{2}:){15}[0-9a-f]{2}")
_HIDDEN: Final = "the value, which holds a private key,"


class HostKeyText(NamedTuple):
    """A host key as it is stored, or what is wrong with the text that was meant as one."""

    value: str
    """Fingerprint, or type and base64; empty if the text is no host key."""
    cause: str = ""
    """What is wrong, with the text as its subject; never any part of a private key."""
    hint: str = HINT


def parse(text: str) -> HostKeyText:
    """Return the host key in a text of one of the known forms.

    >>> parse("256 SHA256:0000000000000000000000000000000000000000000 root@worker0 (ED25519)").value
    'SHA256:0000000000000000000000000000000000000000000'
    """
    if is_secret(text):
        hint = f"remove it at once, and create another host key on the machine: this file may have been shared; {HINT}"
        return HostKeyText("", f"{_HIDDEN} is not a public host key", hint)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) > 1:
        hint = "keep the line of the Ed25519 key, or of the key that the machine presents first"
        return HostKeyText("", f"the text has {len(lines)} lines, and a machine is identified by one key", hint)
    return _line(lines[0] if lines else "")


def _line(line: str) -> HostKeyText:
    listed = _LISTED.fullmatch(line)
    if listed or _PRINT.fullmatch(line):
        return HostKeyText(listed["print"] if listed else line)
    words = line.split()
    if words and words[0].startswith("@"):
        return _marked(words[0])
    if any(_MD5.fullmatch(word) for word in words[:2]):
        return HostKeyText("", f"`{line[:60]}` is an MD5 fingerprint, which can be forged")
    kind = next((number for number, word in enumerate(words[:2]) if is_type(word)), None)
    if kind is None or kind + 1 >= len(words):
        return HostKeyText("", f"`{line[:60]}` is not an SSH host key")
    return _key(words[kind], words[kind + 1])


def _key(kind: str, blob: str) -> HostKeyText:
    if kind not in TYPES:
        cause = fault_of(f"{kind} {blob}") or "is of a type with which a machine cannot be identified here"
        return HostKeyText("", f"`{kind} …` {cause}")
    return HostKeyText(f"{kind} {blob}")


def _marked(mark: str) -> HostKeyText:
    """Return why a line of known_hosts with a marker identifies no machine (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
    causes = {
        "@cert-authority": "is the key of a certificate authority, which signs host keys and is none",
        "@revoked": "is a revoked key: no machine may present it",
    }
    return HostKeyText("", f"`{mark} …` {causes.get(mark, 'is a line with an unknown marker')}")
