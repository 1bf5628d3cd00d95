#!/bin/sh
# Installed as .venv/bin/pulumi: starts the shim with this environment's interpreter, without site-packages (20 ms instead of 60).
case $0 in
  /*) self=$0 ;;
  *) self=$PWD/$0 ;;
esac
if [ -L "$self" ]; then self=$(readlink -f "$self"); fi
venv=${self%/bin/*}
exec "$venv/bin/python" -IS "$venv/../tools/pulumi/start_shim.py" "$venv" "$@"
