#!/bin/sh
# The engine starts this file; exec, so that its signals reach the provider itself.
exec "${RACKWRIGHT_PYTHON:?is not set: start the engine with \`rackwright up\`, or with the pulumi beside rackwright}" -u -m rackwright.provider "$@"
