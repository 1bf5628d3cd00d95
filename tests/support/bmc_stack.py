"""A stack of existing machines with emulated BMCs: a login node without one, and a worker for each BMC."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from standins.bmc.service import EmulatedBmc

_HEAD = """\
config:
  rackwright:cluster:
    target:
      kind: hosts
      os: debian-13
      power: {{kind: redfish, username: rackwright, password_file: {password}}}
      machines:
        login0: {{address: 10.77.0.10, host_key: "SHA256:{key}", sshd_port: 22}}
"""
_MACHINE = """\
        worker{place}:
          address: 10.77.0.{last}
          host_key: "SHA256:{key}"
          power: {{address: localhost, port: {port}, certificate: "{fingerprint}"}}
"""
_TAIL = """\
    network: {{cidr: 10.77.0.0/24}}
    groups:
      login: {{count: 1, roles: [login, controller, accounting], cpus: 2, memory: 3GiB}}
      worker: {{count: {count}, roles: [worker], cpus: 4, memory: 4GiB}}
    scheduler: {{kind: slurm}}
"""
_LETTERS = "ABCDEFGH"


def write_stack(folder: Path, bmcs: Sequence[EmulatedBmc], password: str) -> Path:
    """Write the stack file `rack` and its password file into a folder; return the stack file."""
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "bmc-password"
    secret.write_text(f"{password}\n")
    secret.chmod(0o600)
    text = _HEAD.format(password=secret, key="AB" + "A" * 41)
    for place, bmc in enumerate(bmcs):
        key = f"{_LETTERS[place + 1]}C{'A' * 41}"
        text += _MACHINE.format(place=place, last=11 + place, key=key, port=bmc.port, fingerprint=bmc.fingerprint)
    file = folder / "Pulumi.rack.yaml"
    file.write_text(text + _TAIL.format(count=len(bmcs)))
    return file
