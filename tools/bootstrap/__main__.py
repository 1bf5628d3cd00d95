"""`python3 tools/bootstrap setup|venv|doctor [--stack NAME]`; see `make help`."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from bootstrap.front import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
