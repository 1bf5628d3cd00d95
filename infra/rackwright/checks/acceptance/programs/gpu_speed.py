"""Measure how fast each GPU of a node computes and copies: BF16 matrix products on random data, copies in memory, to host and peers.

One task per node. Prints one line of JSON: {"torch", "device", "figures": [{"quantity", "gpu", "to", "value"}]}, or {"unknown": why}.
With --device cpu and small sizes its logic runs anywhere; the figures then do not apply to a GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any


def arguments() -> argparse.Namespace:
    """Return the options. Sizes fit one H100; --matrix 256 --copy-mib 4 --warm-seconds 0.1 --seconds 0.1 is quick on a CPU."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--matrix", type=int, default=8192, help="rows and columns")
    parser.add_argument("--copy-mib", type=int, default=4096)
    parser.add_argument("--warm-seconds", type=float, default=4, help="of products before the first that is timed; a copy takes a tenth")
    parser.add_argument("--seconds", type=float, default=5, help="of products that are timed; a copy takes a fifth")
    return parser.parse_args()


def seconds_per_call(torch: Any, device: Any, warm: float, least: float, work: Callable[[], object]) -> float:
    """Return the mean time of one call: calls follow each other for `warm` seconds, then for `least` seconds, which are timed.

    A GPU starts at its highest clock and falls to what its power limit allows: an H100 on random data from 785 to 655 TFLOPS within 3 s.
    Short runs show one or the other; a training runs for days.
    """
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    for limit in (warm, least):
        calls, begun = 0, time.perf_counter()
        passed = 0.0
        while passed < limit:
            for _ in range(10):
                work()
            wait(device)
            calls, passed = calls + 10, time.perf_counter() - begun
    return passed / calls


def matmul(torch: Any, device: Any, options: argparse.Namespace) -> float:
    """Return TFLOPS. The data is random: zeros save power and run faster than any training does."""
    size = options.matrix
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty(size, size, device=device, dtype=torch.bfloat16)
    seconds = seconds_per_call(torch, device, options.warm_seconds, options.seconds, lambda: torch.matmul(one, other, out=out))
    return float(2 * size**3 / seconds / 1e12)


def copy(torch: Any, source: Any, target: Any, options: argparse.Namespace, factor: int) -> float:
    """Return GB/s from one place to another; `factor` 2 counts both reading and writing."""
    device = target.device if target.device.type == "cuda" else source.device
    seconds = seconds_per_call(torch, device, options.warm_seconds / 10, options.seconds / 5, lambda: target.copy_(source))
    return float(factor * options.copy_mib * 2**20 / seconds / 1e9)


def buffer(torch: Any, device: Any, options: argparse.Namespace) -> Any:
    """Return a buffer of random bytes, size in MiB; in pinned memory on the host of a machine with GPUs."""
    made = torch.randint(0, 255, (options.copy_mib * 2**20,), dtype=torch.uint8, device=device)
    return made.pin_memory() if device.type == "cpu" and torch.cuda.is_available() else made


def figures(torch: Any, devices: Any, options: argparse.Namespace) -> Iterator[Any]:
    """Yield all figures of all devices."""
    host = torch.device("cpu")
    on_host = buffer(torch, host, options)
    for number, device in enumerate(devices):
        here, there = buffer(torch, device, options), buffer(torch, device, options)
        yield "matmul-bf16", number, None, matmul(torch, device, options)
        yield "hbm-copy", number, None, copy(torch, here, there, options, 2)
        if device.type == "cuda":
            yield "host-to-device", number, None, copy(torch, on_host, here, options, 1)
            yield "device-to-host", number, None, copy(torch, here, on_host, options, 1)
        for other in range(len(devices)):
            if other != number:
                yield "peer-copy", number, other, copy(torch, here, buffer(torch, devices[other], options), options, 1)


def main() -> dict[str, Any]:
    """Measure, or return the reason why not."""
    options = arguments()
    try:
        import torch
    except ImportError:
        return {"unknown": "PyTorch is not installed for this interpreter"}
    if options.device == "cuda" and not torch.cuda.is_available():
        return {"unknown": "PyTorch sees no GPU"}
    count = torch.cuda.device_count() if options.device == "cuda" else 1
    devices = [torch.device(options.device, number) for number in range(count)]
    names = ("quantity", "gpu", "to", "value")
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0) if options.device == "cuda" else "cpu",
        "figures": [dict(zip(names, each, strict=False)) for each in figures(torch, devices, options)],
    }


if __name__ == "__main__":
    print(json.dumps(main()))
