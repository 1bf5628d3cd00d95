"""How fast each GPU of a node computes and moves data: BF16 matrix products on random data, copies inside its memory, to host and peers.

One task per node. Prints one line of JSON: {"torch", "device", "figures": [{"quantity", "gpu", "to", "value"}]}, or {"unknown": why}.
With --device cpu and small sizes its logic runs anywhere; the figures then say nothing about a GPU.
"""

import argparse
import json
import time


def arguments():
    """Sizes fit one H100; --matrix 256 --copy-mib 4 is quick on a CPU."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--matrix", type=int, default=8192, help="rows and columns")
    parser.add_argument("--copy-mib", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=20)
    return parser.parse_args()


def median_seconds(torch, device, repeats, work):
    """Median time of one call, after as many calls to warm up."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    times = []
    for number in range(2 * repeats):
        wait(device)
        begun = time.perf_counter()
        work()
        wait(device)
        if number >= repeats:
            times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) // 2]


def matmul(torch, device, options):
    """TFLOPS. Random data: zeros save power and run faster than any training does."""
    size = options.matrix
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / median_seconds(torch, device, options.repeats, lambda: torch.matmul(one, other, out=out)) / 1e12


def copy(torch, source, target, options, factor):
    """GB/s from one place to another; `factor` 2 where both reading and writing are to be counted."""
    count = options.copy_mib * 2**20
    seconds = median_seconds(
        torch, target.device if target.device.type == "cuda" else source.device, options.repeats, lambda: target.copy_(source)
    )
    return factor * count / seconds / 1e9


def buffer(torch, device, options):
    """So many MiB of random bytes; on the host of a machine with GPUs in memory that may not be paged out."""
    made = torch.randint(0, 255, (options.copy_mib * 2**20,), dtype=torch.uint8, device=device)
    return made.pin_memory() if device.type == "cpu" and torch.cuda.is_available() else made


def figures(torch, devices, options):
    """All figures of all devices."""
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


def main():
    """Measure, or say why not."""
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
