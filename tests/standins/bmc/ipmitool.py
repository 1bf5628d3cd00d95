"""Stand-in for ipmitool: a program that knows the five commands of `chassis power`, for a machine that is a file.

Words in the address decide its behaviour: `silent`, `refused`, `starting`, `unprivileged` fail with ipmitool's message. Its
arguments are appended to the file `argv`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MESSAGES = {
    # ipmitool 1.8.19 of Debian 12 against OpenIPMI's ipmi_sim 2.0.33, with a wrong password and with an unknown user
    "silent": "IANA PEN registry open failed: No such file or directory\nUnable to Get Channel Cipher Suites\n"
    "Error: Unable to establish IPMI v2 / RMCP+ session",
    "refused": "> Error: RAKP 2 HMAC is invalid\nError: Unable to establish IPMI v2 / RMCP+ session",
    "starting": "Get Chassis Power Status failed: Unspecified error",
    "unprivileged": "Set Chassis Power Control to Up/On failed: Insufficient privilege level",
}


def install(folder: Path) -> None:
    """Write the program into a folder for PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / "ipmitool"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {folder} "$@"\n')
    program.chmod(0o755)


def main(folder: Path, arguments: list[str]) -> None:
    """Carry out one command."""
    with (folder / "argv").open("a") as record:
        record.write(" ".join(arguments) + "\n")
    (folder / "environment").write_text("\n".join(sorted(os.environ)))
    if (folder / "password").read_text() != os.environ.get("IPMI_PASSWORD") or "-E" not in arguments:
        sys.exit(MESSAGES["refused"])
    address = arguments[arguments.index("-H") + 1]
    for word, message in MESSAGES.items():
        if word in address:
            sys.exit(message)
    state, action = folder / "state", arguments[-1]
    if action in ("on", "off", "soft"):
        state.write_text("on" if action == "on" else "off")
        print("Chassis Power Control: " + {"on": "Up/On", "off": "Down/Off", "soft": "Soft"}[action])
    else:
        print(f"Chassis Power is {state.read_text() if state.exists() else 'off'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
