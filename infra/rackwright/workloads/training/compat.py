"""Cures for Debian's PyTorch 2.6 on CPUs; imported before anything else of PyTorch, by the launcher and by the program.

Debian 13's python3-torch (2.6.0+dfsg-7) was built with the reference BLAS and without libuv, and 2.6 has faults in FSDP2 on CPUs. Each cure
was needed in a run on nodes of a lab; none is active on GPUs or with another version. The fifth fault, the reference BLAS (470 instead of
19,000 tokens per second), is cured by the package libopenblas0-pthread; `blas` returns which one is loaded.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
"""One store for all attempts: after a kill, ranks read the addresses of dead ones and hang (pytorch issue 135712)."""
os.environ.setdefault("OMP_NUM_THREADS", "1")
"""One thread for each rank: results are repeatable, and ranks do not compete for the same CPUs."""

import torch  # noqa: E402 - reads the variables above

_VERSION: Final = "2.6."


def is_affected(version: str, *, gpus: bool) -> bool:
    """Return whether this PyTorch needs the cures.

    >>> is_affected("2.6.0+debian", gpus=False), is_affected("2.6.0", gpus=True), is_affected("2.8.0", gpus=False)
    (True, False, False)
    """
    return version.startswith(_VERSION) and not gpus


AFFECTED: Final = is_affected(str(torch.__version__), gpus=torch.cuda.is_available())


def blas() -> str:
    """Return which BLAS the process has loaded: openblas, mkl or reference. `reference` is 40 times slower."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return next((name for name in ("openblas", "mkl") if f"lib{name}" in maps or f"/{name}" in maps), "reference")


def _use_store_without_libuv() -> None:
    """Force the store of sockets: several callers in PyTorch ignore USE_LIBUV=0."""
    import torch.distributed as distributed

    importlib.import_module("torch.distributed.rendezvous")
    original: Any = distributed.TCPStore

    class TCPStore(original):  # type: ignore[misc]
        """PyTorch's store, never with libuv."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "use_libuv": False})

    distributed.TCPStore = TCPStore
    # `torch.distributed.rendezvous` is a function where it is imported by name.
    sys.modules["torch.distributed.rendezvous"].TCPStore = TCPStore  # type: ignore[attr-defined]


def _complete_cpu_streams() -> None:
    """Add the methods that FSDP2 calls on streams; on CPUs, everything runs in order (pytorch pull request 145935)."""

    class Stream:
        """The one stream of a CPU."""

        def __init__(self, priority: int = 0) -> None:
            """Do nothing: there is one priority."""

        def record_event(self, _event: Any = None) -> None:
            """Do nothing: earlier work has ended."""

        def wait_event(self, _event: Any) -> None:
            """Do nothing: the event has happened."""

        def wait_stream(self, _stream: Any) -> None:
            """Do nothing: there is one stream."""

    torch.cpu.Stream = Stream
    torch.cpu.current_stream = lambda _device=None: Stream()


def _divide_gradients() -> None:
    """Divide FSDP2's gradients by the number of ranks: gloo's reduce_scatter sums where it is asked for the mean.

    AdamW hides the factor until the number of ranks changes: a run resumed on four ranks ended at a loss of 1.171 instead of 1.284.
    """
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives

    def factors(scatter: Any, reduce: Any, _dtype: Any) -> tuple[float, float]:
        return 1.0, float(scatter.size() * (reduce.size() if reduce else 1))

    collectives._get_gradient_divide_factors = factors


def apply() -> None:
    """Apply all cures to an affected PyTorch; do nothing to another."""
    if not AFFECTED:
        return
    os.environ["USE_LIBUV"] = "0"
    _use_store_without_libuv()
    _complete_cpu_streams()
    _divide_gradients()


apply()
