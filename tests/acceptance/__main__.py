"""`python tests/acceptance --inventory … --ssh-config …`: prove a live cluster by jobs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "infra")]

from acceptance.harness.session import main  # noqa: E402 - the two folders must be on the path before

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
