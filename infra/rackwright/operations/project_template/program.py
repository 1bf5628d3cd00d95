"""Start the Pulumi program of the installed rackwright."""

import runpy

from rackwright import layout

runpy.run_path(str(layout.product_root() / layout.PROGRAM), run_name="__main__")
