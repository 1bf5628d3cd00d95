"""`python -m rackwright.checks.cluster --inventory … --ssh-config … --results …`: run the checks of a live cluster."""

from __future__ import annotations

import sys

from rackwright.checks.cluster.harness.session import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
