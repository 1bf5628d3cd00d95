"""`python -m rackwright.checks.acceptance --inventory … --ssh-config …`: verify a live cluster with jobs of an ordinary user."""

from __future__ import annotations

import sys

from rackwright.checks.acceptance.harness.session import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
