"""GPUs of every GPU node, compared with the plan."""

from __future__ import annotations

from cluster.probes.gpu import DEVICES, GPUS, XIDS, clock_faults, is_a_programs


def test_count_matches_plan(node, ask, expect):
    """A node that lost a GPU still answers SSH; Slurm notices only when a job starts."""
    expect(len(ask(GPUS)), node.gpus.count)


def test_product_matches_plan(node, ask, expect):
    """Second-hand machines can contain a mix of GPU models."""
    expect({gpu.product for gpu in ask(GPUS)}, {node.gpus.product})


def test_memory_matches_plan(node, ask, expect, limit):
    """The same model is sold with more than one memory size."""
    sizes = {gpu.memory_mib for gpu in ask(GPUS)}
    near = all(abs(size - node.gpus.memory_mib) <= limit * node.gpus.memory_mib for size in sizes)
    expect(sizes, f"{node.gpus.memory_mib} within {limit:.0%}", holds=near)


def test_driver_matches_plan(node, ask, expect):
    """A node with another driver breaks programs that were built for the other nodes."""
    expect({gpu.driver for gpu in ask(GPUS)}, {node.gpus.driver})


def test_no_memory_errors(ask, expect):
    """An uncorrected error has already killed a job; a part that had one has more."""
    expect({f"GPU {gpu.index}": gpu.uncorrected for gpu in ask(GPUS) if gpu.uncorrected}, {})


def test_no_driver_errors(ask, expect):
    """XID errors since boot: most of them need a reset, some a new GPU. XIDs that a user's program causes are ignored."""
    expect([error for error in ask(XIDS) if not is_a_programs(error)], [])


def test_clocks_are_alike(ask, expect):
    """One GPU with a lower clock limit slows every job that uses all GPUs of the node to its speed."""
    fastest = max((gpu.max_clock_mhz for gpu in ask(GPUS)), default=0)
    expect({f"GPU {gpu.index}": f"{gpu.max_clock_mhz} MHz" for gpu in ask(GPUS) if gpu.max_clock_mhz != fastest}, {})


def test_nothing_holds_clocks_down(ask, expect):
    """Heat or the power supply's brake signal makes a GPU slow. A healthy GPU at its power limit runs as fast as it can."""
    found = {f"GPU {gpu.index}": clock_faults(gpu.clock_reasons) for gpu in ask(GPUS)}
    expect({gpu: ", ".join(faults) for gpu, faults in found.items() if faults}, {})


def test_driver_stays_loaded(ask, expect):
    """Without persistence mode the first program of each job waits for GPU initialisation, and settings are lost between jobs."""
    expect({f"GPU {gpu.index}" for gpu in ask(GPUS) if not gpu.persistent}, set())


def test_devices_are_distinct(node, ask, expect):
    """Slurm assigns device files: each must be a device, and a different one."""
    devices = ask(DEVICES)
    numbers = {device.number for device in devices if device.character}
    expect(f"{len(numbers)} distinct devices in {len(devices)} files", f"{node.gpus.count} distinct devices in {node.gpus.count} files")
