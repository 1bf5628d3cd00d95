#!/bin/sh
# Installed as .venv/bin/pulumi: starts the shim with this environment's interpreter, without site-packages (20 ms instead of 60).
venv=${0%/bin/*}
exec "$venv/bin/python" -IS "$venv/../tools/pulumi/start_shim.py" "$venv" "$@"
