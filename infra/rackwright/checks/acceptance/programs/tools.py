"""Run tools one after the other and print their output as one line of JSON: {"name": {"rc", "out", "err"}}.

Arguments: one JSON list of [name, [command, …], seconds] each. A missing tool has rc 127, one that timed out 124.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def run(command: list[str], seconds: float) -> dict[str, Any]:
    """Return status, output and errors of one tool."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        return {"rc": 127, "out": "", "err": f"{command[0]} is not installed"}
    except subprocess.TimeoutExpired as late:
        return {
            "rc": 124,
            "out": (late.stdout or b"").decode(errors="replace"),
            "err": f"{command[0]} did not end within {seconds} s",
        }
    except OSError as error:
        return {"rc": 126, "out": "", "err": str(error)}
    return {"rc": done.returncode, "out": done.stdout.decode(errors="replace"), "err": done.stderr.decode(errors="replace")}


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
    print(json.dumps({name: run(command, seconds) for name, command, seconds in map(json.loads, sys.argv[1:])}))
