"""Start the `pulumi` shim: argv[1] is the virtual environment, the rest is the user's command line."""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])

try:
    from shim.front import main

    main(sys.argv[1], sys.argv[2:])
except KeyboardInterrupt:
    sys.exit(130)
