"""torchrun with the cures of `compat`: Debian's /usr/bin/torchrun cannot start, because its PyTorch was built without libuv."""

from __future__ import annotations

# isort: off
from rackwright.workloads.training import compat  # noqa: F401 - first: it changes what the next line imports
from torch.distributed.run import main

if __name__ == "__main__":
    main()
