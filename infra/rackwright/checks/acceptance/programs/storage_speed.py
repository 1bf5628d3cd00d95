"""Measure how fast a node writes, reads, creates and removes files on a shared file system, the time of fsync, and data integrity.

Argument: a folder there. Prints one line of JSON: {"figures": [{"quantity", "value"}], "wrong": files that were read back changed}, or
{"unknown": why}.
Plain Python on purpose: it behaves the same everywhere. Its files are removed at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import time
from typing import Any


def arguments() -> argparse.Namespace:
    """Return the options. The defaults are for a quick run; --mib 4096 and more exceed caches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--file-bytes", type=int, default=4096)
    parser.add_argument("--fsyncs", type=int, default=50)
    return parser.parse_args()


def forget(path: str) -> None:
    """Let the kernel drop the cached pages of a file, so that reading it queries the file system."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def stream(path: str, mib: int) -> tuple[float, float, bool]:
    """Return MB/s of writing with a final fsync, MB/s of reading, and whether the data was unchanged."""
    block = os.urandom(2**20)
    wrote, begun = hashlib.sha256(), time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(mib):
            file.write(block)
        os.fsync(file.fileno())
    write = mib * 2**20 / (time.perf_counter() - begun) / 1e6
    for _ in range(mib):
        wrote.update(block)
    forget(path)
    pieces: list[bytes] = []
    begun = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        pieces.extend(iter(lambda: file.read(2**20), b""))
    read = mib * 2**20 / (time.perf_counter() - begun) / 1e6
    came_back = hashlib.sha256(b"".join(pieces)).digest() == wrote.digest()
    return write, read, came_back


def small_files(folder: str, count: int, size: int) -> tuple[float, int]:
    """Write files and read them back; return files per second, and how many were changed."""
    texts = [os.urandom(size) for _ in range(min(count, 64))]
    begun = time.perf_counter()
    for number in range(count):
        with open(os.path.join(folder, f"small-{number}"), "wb") as file:
            file.write(texts[number % len(texts)])
    seconds = time.perf_counter() - begun
    wrong = 0
    for number in range(count):
        path = os.path.join(folder, f"small-{number}")
        forget(path)
        with open(path, "rb") as file:
            wrong += file.read() != texts[number % len(texts)]
    return count / seconds, wrong


def metadata(folder: str, count: int) -> float:
    """Return operations per second: create, stat, rename, remove an empty file."""
    begun = time.perf_counter()
    for number in range(count):
        path = os.path.join(folder, f"empty-{number}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        os.stat(path)
        os.rename(path, path + "-renamed")
        os.unlink(path + "-renamed")
    return 4 * count / (time.perf_counter() - begun)


def fsync(path: str, count: int) -> float:
    """Return the 99th percentile, in ms, of writing 4 KiB with fsync."""
    times = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(count):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return 1000 * sorted(times)[min(count - 1, count * 99 // 100)]


def main() -> dict[str, Any]:
    """Measure in a new folder, or return the reason why not."""
    options = arguments()
    folder = os.path.join(options.folder, "speed-{}-{}".format(os.environ.get("NODE_NAME", "node"), os.environ.get("RANK", "0")))
    try:
        os.makedirs(folder)
        write, read, came_back = stream(os.path.join(folder, "stream"), options.mib)
        small, wrong = small_files(folder, options.files, options.file_bytes)
        values = {
            "storage-write": write,
            "storage-read": read,
            "storage-small-files": small,
            "storage-metadata": metadata(folder, options.files),
            "storage-fsync": fsync(os.path.join(folder, "fsync"), options.fsyncs),
        }
    except OSError as error:
        return {"unknown": str(error)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = [{"quantity": name, "value": value} for name, value in values.items()]
    return {"figures": figures, "wrong": wrong + (not came_back)}


if __name__ == "__main__":
    print(json.dumps(main()))
