"""`tools/kubernetes/build [--release VERSION] [--into FOLDER] [--json] [--mirror ADDRESS]`."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:1] = [os.path.dirname(_HERE), os.path.dirname(os.path.dirname(_HERE))]

from bundle.front import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
