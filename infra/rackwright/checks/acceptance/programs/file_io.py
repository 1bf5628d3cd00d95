"""Run fio in a new folder: write random blocks with checksums, read them back, then read random blocks. The folder is removed at the end.

Arguments: options and the folder in which it is created. Prints one line of JSON: {"write": {"rc", "out", "err"}, "read": the same},
or {"unknown": why}.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any

BLOCK = "4k"


def arguments() -> argparse.Namespace:
    """Return the options: bytes per process in MiB, processes, seconds of writing and of reading."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--mounted", action="store_true", help="the folder must be a mount point")
    return parser.parse_args()


def fio(options: argparse.Namespace, folder: str, *words: str) -> dict[str, Any]:
    """Run one job; return status, output and errors. The time limit leaves room for reading back what was written."""
    command = ["fio", "--name=io", f"--directory={folder}", f"--size={options.mib}M", f"--bs={BLOCK}", "--direct=1", "--ioengine=psync"]
    command += [f"--numjobs={options.processes}", "--thread", f"--runtime={options.seconds}", "--fallocate=none", "--group_reporting"]
    command += ["--output-format=json", *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60 + 4 * options.seconds, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return {"rc": 124, "out": "", "err": f"fio did not end within {60 + 4 * options.seconds} s"}
    return {"rc": done.returncode, "out": done.stdout.decode(errors="replace"), "err": done.stderr.decode(errors="replace")}


def main() -> dict[str, Any]:
    """Run both jobs on the same files."""
    options = arguments()
    if shutil.which("fio") is None:
        return {"unknown": "fio is not installed"}
    if options.mounted and not os.path.ismount(options.folder):
        return {"unknown": f"{options.folder} is not a mount point: fio would measure the disk of the system"}
    try:
        os.makedirs(options.folder, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="rackwright-io-{}-".format(os.environ.get("NODE_NAME", "node")), dir=options.folder)
    except OSError as error:
        return {"unknown": str(error)}
    try:
        checked = ("--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--end_fsync=1")
        written = fio(options, folder, "--rw=randwrite", *checked)
        return {"write": written, "read": fio(options, folder, "--rw=randread", "--time_based")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
    print(json.dumps(main()))
